"""
Answers problems with a game's players: the helpful prover writes solutions, and the verifier helps to choose or
withhold.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from pvg_hf.config.trust import read_origin
from pvg_hf.core.commands import play_command, pvg_command
from pvg_hf.core.extensions import suggest
from pvg_hf.core.integrity import find_damaged, read_json
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.problems import load_recipe_task, recipe_prompts
from pvg_hf.evaluation.selective import ANSWER_RULES, AnswerRules, choose_answer
from pvg_hf.game.context import PlayerLoader
from pvg_hf.game.phases.evaluate import fit_answers
from pvg_hf.hub.locate import locate_run
from pvg_hf.hub.publication import publishable_rounds
from pvg_hf.run.layout import ANSWERING, RunFolder
from pvg_hf.run.resume import read_played_recipe
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.scoring import VerifierScorer
from pvg_hf.tasks import PromptBuilder, Task

MAX_PROBLEM_CHARS = 20_000


@dataclass(frozen=True)
class Candidate:
    """
    A solution written to the problem.

    Args:
        answer: Final answer; `None` if there is none, or the text was cut at the length limit.
        score: Score by the verifier.
    """

    solution: str
    answer: str | None
    score: float


@dataclass(frozen=True)
class Reply:
    """
    Reply to a problem.

    Args:
        candidates: All candidates: the chosen one first, then by score, those without an answer last.
        rule: Rule that chose the answer, one of [`~pvg_hf.evaluation.selective.ANSWER_RULES`].
        votes: Number of candidates with the chosen answer.
        probability: Probability that the first candidate is correct, in (0, 1); `None` if it is unknown or no
            candidate has an answer.
        why_unknown: Reason why the probability is unknown, as a sentence.
        abstains: Whether the answer is withheld, because its probability is below the threshold or unknown.
    """

    candidates: list[Candidate]
    rule: str
    votes: int
    probability: float | None
    why_unknown: str | None
    abstains: bool

    @property
    def best(self) -> Candidate | None:
        """The chosen candidate; `None` if no candidate has an answer."""
        return self.candidates[0] if self.candidates[0].answer is not None else None

    @property
    def answer(self) -> str | None:
        """The final answer, unless it is withheld."""
        return None if self.abstains or self.best is None else self.best.answer


@dataclass
class Answerer:
    """
    Answers problems with the players of a game: the helpful prover writes several solutions, the verifier helps to
    choose.

    Args:
        folder ([`~pvg_hf.run.layout.RunFolder`]): Folder of the run.
        round_index (`int`): The round whose players answer.
        task ([`~pvg_hf.tasks.Task`]): The run's task.
        prompts ([`~pvg_hf.tasks.PromptBuilder`]): Prompts of the run's roles.
        sampler ([`~pvg_hf.sampling.Sampler`]): The helpful prover.
        scorer ([`VerifierScorer`]): The verifier.
        rules ([`~pvg_hf.evaluation.selective.AnswerRules`]):
            Rules that choose answers, with probabilities fitted for the run's number of solutions.

    Example:

    ```python
    answerer = Answerer.from_run("runs/quickstart")
    reply = answerer(
        "Ana has 6 pens.\\nBen has 4 more than Ana.\\nCleo has half as many as Ben.\\nHow many pens does Cleo have?"
    )
    print(reply.answer, reply.probability)
    ```
    """

    folder: RunFolder
    round_index: int
    task: Task
    prompts: PromptBuilder
    sampler: Sampler
    scorer: VerifierScorer
    rules: AnswerRules

    def __post_init__(self):
        self._fitted: dict[int, AnswerRules | None] = {self.rules.num_samples: self.rules}

    @classmethod
    def from_run(cls, run: str | Path, *, round_index: int | None = None, device: str = "auto") -> "Answerer":
        """
        Load the players of a run.

        Args:
            run (`str` or `Path`): Folder of a run, or `NAMESPACE/RUN` for the last published round.
            round_index (`int`, *optional*): The round whose players answer; by default the last evaluated one.
            device (`str`, defaults to `"auto"`): `auto`, `cpu` or `cuda`.

        Raises:
            HubError: if the Hub cannot be reached or refuses.
            ValueError: if the folder has no such evaluated round, or not its players.
        """
        folder = RunFolder.find(locate_run(run))
        round_index = _evaluated_round(folder, round_index)
        _check_players(folder, round_index)
        rules = read_json(folder.evaluation(round_index) / ANSWERING, AnswerRules | None)
        if rules is None:
            raise ValueError(
                f"No solution of round {round_index} in {folder.root} to a held-out problem has an answer, so that the"
                " verifier cannot be calibrated; train the prover longer."
            )
        recipe = read_played_recipe(folder).for_round(round_index)
        # A separate generation engine only pays off for many problems at a time.
        recipe = replace(recipe, device=device, prover=replace(recipe.prover, generation="transformers"))
        task, players = load_recipe_task(recipe), PlayerLoader(recipe, folder)
        scorer = players.scorer(round_index)
        best = folder.best_helpful(round_index)
        sampler = (
            players.sampler(best, base_owner=scorer)
            if best
            else players.role_sampler(Role.HELPFUL, round_index, base_owner=scorer)
        )
        return cls(folder, round_index, task, recipe_prompts(recipe, task), sampler, scorer, rules)

    def __call__(
        self,
        problem: str,
        *,
        num_samples: int | None = None,
        rule: str | None = None,
        abstain_below: float = 0.0,
        seed: int = 0,
    ) -> Reply:
        """
        Answer a problem.

        Args:
            problem (`str`): Text of the problem.
            num_samples (`int`, *optional*):
                Number of solutions to choose from; by default the number that the probabilities were fitted for. For
                fewer, they are fitted again on the run's held-out solutions; for more, the probability is unknown.
            rule (`str`, *optional*):
                `best`, `vote` or `weighted-vote` (see [`~pvg_hf.evaluation.selective.choose_answer`]); by default the
                rule with the highest accuracy on the run's held-out problems.
            abstain_below (`float`, defaults to 0.0):
                Threshold of the probability of being correct, below which the answer is withheld. If it is above 0,
                answers of unknown probability are withheld, too.
            seed (`int`, defaults to 0): Seed of the solutions.

        Raises:
            ValueError: for an empty or overlong problem, or a setting out of its range.
        """
        num_samples = self.rules.num_samples if num_samples is None else num_samples
        _check(problem, num_samples, abstain_below)
        rules = self._rules_for(num_samples)
        rule = rule or (rules or self.rules).default
        _check_rule(rule, self.rules)
        samples, scores = self._write(problem, num_samples, seed)
        candidates = [
            Candidate(sample.text, None if sample.is_truncated else self.task.read_answer(sample.text), score)
            for sample, score in zip(samples, scores, strict=True)
        ]
        answers = [candidate.answer for candidate in candidates]
        weigh = (rules or self.rules).weigh
        choice = choose_answer(answers, scores, rule, weigh=weigh, same=self.task.answers_equal)
        order = sorted(range(num_samples), key=lambda index: (answers[index] is None, -scores[index], index))
        if choice is None:
            return Reply([candidates[index] for index in order], rule, 0, None, None, abstains=True)
        order.remove(choice.index)
        candidates = [candidates[index] for index in (choice.index, *order)]
        why_unknown = self._why_unknown(problem, num_samples, rules)
        if why_unknown is not None:
            return Reply(candidates, rule, choice.votes, None, why_unknown, abstains=abstain_below > 0)
        probability = rules.calibrations[rule].probability(choice.confidence)
        return Reply(candidates, rule, choice.votes, probability, None, abstains=probability < abstain_below)

    def _write(self, problem: str, num_samples: int, seed: int) -> tuple[list[Sample], list[float]]:
        prompt = self.prompts.render({"problem": problem}, Role.HELPFUL, self.sampler.tokenizer)
        rngs = [derive_rng(seed, problem, index) for index in range(num_samples)]
        (samples,) = self.sampler.sample([prompt], [rngs])
        samples = [replace(sample, text=self.task.solution_in(sample.text)) for sample in samples]
        return samples, self.scorer([problem] * num_samples, [sample.text for sample in samples])

    def _rules_for(self, num_samples: int) -> AnswerRules | None:
        """Rules fitted for `num_samples` solutions; `None` if the run has too few."""
        if num_samples not in self._fitted:
            fewer = 0 < num_samples < self.rules.num_samples
            place = self.folder, self.round_index, self.task
            self._fitted[num_samples] = fit_answers(*place, num_samples) if fewer else None
        return self._fitted[num_samples]

    def _why_unknown(self, problem: str, num_samples: int, rules: AnswerRules | None) -> str | None:
        mistake = self.task.problem_mistake(problem)
        if mistake is not None:
            return f"This is not a problem of the task `{self.task.name}` as the run played it. {mistake}"
        if rules is None:
            return f"Probabilities were fitted for {self.rules.num_samples} solutions, not {num_samples}."
        return None


def _evaluated_round(folder: RunFolder, round_index: int | None) -> int:
    evaluated = folder.rounds("evaluation")
    rounds = [index for index, place in evaluated.items() if (place / ANSWERING).exists()]
    if not rounds or round_index not in (None, *rounds):
        wanted = "round" if round_index is None else f"round {round_index}"
        advice = "" if rounds else f" Play its first round to the end: `{play_command(folder.root)}`."
        raise ValueError(
            f"{folder.root} holds no {wanted} that was evaluated with a calibration; it has those of {rounds}.{advice}"
        )
    return rounds[-1] if round_index is None else round_index


def _check_players(folder: RunFolder, round_index: int) -> None:
    """Check that the players of a round are there and undamaged."""
    there = publishable_rounds(folder.root)
    if round_index not in there:
        origin = read_origin(folder.root)
        pull = origin and pvg_command("pull", origin, str(round_index))
        advice = f" Only the last round's are fetched: get this one by `{pull}` and name the folder that it makes."
        raise ValueError(
            f"{folder.root} has no weights of the players of round {round_index}; it has those of {there}."
            f"{advice if origin else ''}"
        )
    for place in (folder.verifier(round_index), folder.prover(round_index)):
        for damage in find_damaged(place):
            raise damage


def _check(problem: str, num_samples: int, abstain_below: float) -> None:
    if not problem.strip() or len(problem) > MAX_PROBLEM_CHARS:
        raise ValueError(f"A problem is a text of 1 to {MAX_PROBLEM_CHARS} characters; got {len(problem)}.")
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1; got {num_samples}.")
    if not 0 <= abstain_below <= 1:
        raise ValueError(f"`abstain_below` is a probability in [0, 1]; got {abstain_below}.")


def _check_rule(rule: str, rules: AnswerRules) -> None:
    if rule not in ANSWER_RULES:
        raise ValueError(f"Unknown rule `{rule}`. {suggest(rule, ANSWER_RULES)}")
    if rule not in rules.calibrations:
        raise ValueError(
            f"The rule `{rule}` needs solutions to held-out problems, which this copy of the run lacks; it only has "
            f"{', '.join(f'`{name}`' for name in rules.calibrations)}."
        )

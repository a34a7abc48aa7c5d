"""The product of a game: answers by the helpful prover, chosen by the verifier, or withheld."""

from dataclasses import dataclass, replace
from pathlib import Path

from pvg_hf.data.schema import round_folders
from pvg_hf.evaluation.answering import Calibration
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.folder import RunFolder, read_json
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.players import open_role_sampler, open_sampler, open_scorer
from pvg_hf.game.schedule import PhaseKey
from pvg_hf.game.world import World, load_recipe_task, recipe_prompts
from pvg_hf.hub.locate import locate_run
from pvg_hf.hub.publication import publishable_rounds
from pvg_hf.roles import Role
from pvg_hf.sampling import Sampler
from pvg_hf.scoring import VerifierScorer
from pvg_hf.seeding import derive_rng

MAX_PROBLEM_CHARS = 20_000


@dataclass(frozen=True)
class Candidate:
    """
    A solution that was written to the problem.

    Args:
        solution (`str`):
            Its text.
        answer (`str`, *optional*):
            Its final answer; `None` where it has none, or was cut at the length limit.
        score (`float`):
            The verifier's.
    """

    solution: str
    answer: str | None
    score: float


@dataclass(frozen=True)
class Reply:
    """
    Args:
        candidates (`list[Candidate]`):
            All that were written, those with an answer first, the highest score first.
        probability (`float`, *optional*):
            That the first candidate is correct, in (0, 1); `None` where no candidate has an answer.
        abstains (`bool`):
            Whether the answer is withheld: its probability is below the threshold, or there is none.
    """

    candidates: list[Candidate]
    probability: float | None
    abstains: bool

    @property
    def best(self) -> Candidate | None:
        """The candidate that is answered with; `None` where none has an answer."""
        return None if self.probability is None else self.candidates[0]

    @property
    def answer(self) -> str | None:
        """The final answer, unless it is withheld."""
        return None if self.abstains or self.best is None else self.best.answer


class Answerer:
    """
    Answers problems with the players of a game: the helpful prover writes several solutions, the verifier chooses.

    Args:
        context ([`~game.context.PhaseContext`]):
            Of the round whose players answer, with the task's prompts.
        sampler ([`~sampling.Sampler`]):
            The helpful prover.
        scorer ([`VerifierScorer`]):
            The verifier.
        calibration ([`~evaluation.answering.Calibration`]):
            From scores to probabilities, fitted on the test problems.

    Example:

    ```python
    answerer = Answerer.from_run("runs/quickstart")
    reply = answerer("Ana has 3 pens. On Monday Ana finds 2 pens. How many pens does Ana have?", num_samples=16)
    print(reply.answer, reply.probability)
    ```
    """

    def __init__(self, context: PhaseContext, sampler: Sampler, scorer: VerifierScorer, calibration: Calibration):
        self.context = context
        self.sampler = sampler
        self.scorer = scorer
        self.calibration = calibration

    @classmethod
    def from_run(cls, run: str | Path, *, round_index: int | None = None, device: str = "auto") -> "Answerer":
        """
        Args:
            run (`str` or `Path`):
                Folder of a run, or `NAMESPACE/RUN`: the last round that was published.
            round_index (`int`, *optional*):
                The round whose players answer; the last one that was evaluated by default.
            device (`str`, defaults to `"auto"`):
                `auto`, `cpu` or `cuda`.

        Raises:
            HubError: if the Hub cannot be reached or refuses.
            ValueError: if the folder holds no such round that was evaluated, or not its players.
        """
        folder = RunFolder(locate_run(run))
        round_index = _evaluated_round(folder, round_index)
        _check_players(folder, round_index)
        calibration = read_json(folder.evaluation(round_index) / "answering.json")
        if calibration is None:
            raise ValueError(
                f"No test solution of round {round_index} in {folder.root} has an answer, so that nothing says how far "
                "the verifier can be trusted; train the prover longer."
            )
        context = _context(folder, round_index, device)
        scorer = open_scorer(context, folder.verifier(round_index))
        best = folder.best_helpful(round_index)
        sampler = (
            open_sampler(context, best, beside=scorer)
            if best
            else open_role_sampler(context, Role.HELPFUL, beside=scorer)
        )
        return cls(context, sampler, scorer, Calibration(**calibration))

    def __call__(self, problem: str, *, num_samples: int = 16, abstain_below: float = 0.0, seed: int = 0) -> Reply:
        """
        Args:
            problem (`str`):
                Its text.
            num_samples (`int`, defaults to 16):
                Solutions to choose from.
            abstain_below (`float`, defaults to 0.0):
                The answer is withheld where its probability of being correct is lower.
            seed (`int`, defaults to 0):
                Of the solutions.

        Raises:
            ValueError: for an empty or overlong problem, or a setting out of its range.
        """
        _check(problem, num_samples, abstain_below)
        world = self.context.world
        prompt = world.prompts.render(world.prompts.text({"problem": problem}, Role.HELPFUL), self.sampler.tokenizer)
        rngs = [derive_rng(seed, problem, index) for index in range(num_samples)]
        (samples,) = self.sampler.sample([prompt], [rngs])
        scores = self.scorer([problem] * num_samples, [sample.text for sample in samples])
        candidates = [
            Candidate(sample.text, None if sample.is_truncated else world.task.read_answer(sample.text), score)
            for sample, score in zip(samples, scores, strict=True)
        ]
        candidates.sort(key=lambda candidate: (candidate.answer is None, -candidate.score))
        if candidates[0].answer is None:
            return Reply(candidates, None, abstains=True)
        probability = self.calibration.probability(candidates[0].score)
        return Reply(candidates, probability, abstains=probability < abstain_below)


def _evaluated_round(folder: RunFolder, round_index: int | None) -> int:
    evaluated = round_folders(folder.root / "evaluation")
    rounds = [index for index, place in evaluated.items() if (place / "answering.json").exists()]
    if not rounds or round_index not in (None, *rounds):
        wanted = "round" if round_index is None else f"round {round_index}"
        raise ValueError(
            f"{folder.root} holds no {wanted} that was evaluated with a calibration; it has those of {rounds}. Name the "
            "folder of a run (runs/NAME) that was played at least through `evaluate` of its first round."
        )
    return rounds[-1] if round_index is None else round_index


def _check_players(folder: RunFolder, round_index: int) -> None:
    there = publishable_rounds(folder.root)
    if round_index not in there:
        raise ValueError(
            f"{folder.root} has no weights of the players of round {round_index}; it has those of {there}. Of a published run "
            f"only the last round's are fetched: get this one by `python scripts/pull_round.py NAMESPACE/RUN {round_index}` "
            "and name the folder that it makes."
        )


def _context(folder: RunFolder, round_index: int, device: str) -> PhaseContext:
    """As of minting, without any problem."""
    recipe = folder.read_recipe().for_round(round_index)
    # An engine of its own is for many problems at a time.
    recipe = replace(recipe, device=device, prover=replace(recipe.prover, generation="transformers"))
    task = load_recipe_task(recipe)
    world = World(task, {}, recipe_prompts(recipe, task))
    return PhaseContext(recipe, folder, PhaseKey("mint", round_index), world, StopRequest())


def _check(problem: str, num_samples: int, abstain_below: float) -> None:
    if not problem.strip() or len(problem) > MAX_PROBLEM_CHARS:
        raise ValueError(f"A problem is a text of 1 to {MAX_PROBLEM_CHARS} characters; got {len(problem)}.")
    if num_samples < 1:
        raise ValueError(f"`num_samples` must be at least 1; got {num_samples}.")
    if not 0 <= abstain_below <= 1:
        raise ValueError(f"`abstain_below` is a probability in [0, 1]; got {abstain_below}.")

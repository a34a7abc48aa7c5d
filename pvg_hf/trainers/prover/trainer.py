"""A GRPO trainer for role-conditioned provers."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from accelerate.logging import get_logger
from accelerate.utils import gather, gather_object
from datasets import Dataset

from pvg_hf.core.extensions import ExtensionError, check_arguments, show_value
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.rewards import as_reward, load_reward, noise_corrected
from pvg_hf.tasks.base import Grade, Grader, TolerantGrader, final_grade, outcome_of
from pvg_hf.trainers.common.grpo import SampledGRPOTrainer, completion_text, datasets_of
from pvg_hf.trainers.common.options import parsed_dict
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.prover.metrics import OBSERVED, OPTIONAL_METRICS, RoleSignals, is_of_labels, role_metrics

logger = get_logger(__name__)

Scorer = Callable[[list[str], list[str]], list[float]]

LabelFunction = Callable[[list[dict[str, Any]], int], list[int | None]]

TextPart = Callable[[str], str]

Observer = Callable[[int, list[dict[str, Any]]], None]

RoleReward = Callable[..., torch.Tensor]

OWN_REWARD = "own_reward"  # name in the log of a reward that was passed as a function

_REQUIRED_COLUMNS = ("prompt", "problem", "role")


class ProverGRPOTrainer(SampledGRPOTrainer):
    """
    Trains a prover to convince a frozen verifier: honestly in the helpful role, deceptively in the sneaky one
    (Kirchner et al. 2024).

    A group consists of the solutions sampled for one (problem, role). Groups never mix roles, even across processes.

    Args:
        model (`str`, [`~transformers.PreTrainedModel`] or [`~peft.PeftModel`]):
            The prover.
        scorer (`Callable`):
            Function `(problems, solutions) -> scores`, such as a [`VerifierScorer`].
        grader (`Callable`):
            Function `(row, solution) -> Grade`, such as a task's `grade`; it gets the columns of the dataset's row.
            For a grader that errs at known rates, `args.reward_correction` makes the rewards unbiased. A solution
            whose grade `abstains` gets no reward and has no effect, as does one on which the grader fails (see
            [`~pvg_hf.tasks.base.TolerantGrader`]).
        num_graders (`int`, *optional*, defaults to 1):
            Number of threads that call `grader` at the same time.
        solution_in (`Callable`, *optional*):
            Function `text -> solution`, such as a task's `solution_in`: the part of a written text that `scorer` and
            `feedback` get. The grader gets all of it. By default the solution is the whole text.
        args ([`ProverGRPOConfig`]):
            The trainer's arguments.
        train_dataset ([`~datasets.Dataset`]):
            Dataset with `prompt` (text or messages), `problem` (text), `role` (`"helpful"` or `"sneaky"`) and the
            columns that the grader needs.
        eval_dataset ([`~datasets.Dataset`] or `dict[str, Dataset]`, *optional*):
            Dataset with the same columns.
        reward (`Callable`, *optional*):
            Replaces `args.reward`: a function `(scores, correct, sneaky, *, group_size, answered) -> rewards`, or a
            [`~pvg_hf.rewards.Reward`]. It also gets `args.reward_options`.
        feedback (`Callable`, *optional*):
            Function `(rows, step) -> labels`: the labels that the reward uses instead of the grade, 1 or 0, or `None`
            for a solution that gets no reward and has no effect. A row is that of the dataset with `solution`,
            `correct` and `outcome`; every process gets those of all processes, in the same order. Metrics and
            evaluation use the grade.
        observer (`Callable`, *optional*):
            Function `(step, graded) -> None` that gets each training batch, written after `step` steps: for each
            solution of all processes `problem_id` (of the row, if it has one), `role`, `correct`, `failed`, `score`
            and `label` (1, 0, or NaN), as a dict.
        reward_funcs (`list[Callable]`, *optional*):
            Further TRL reward functions, added to the role reward with `args.reward_weights` (the role reward's weight
            comes first).
        kwargs:
            Further arguments of [`~trl.GRPOTrainer`].

    Raises:
        ValueError: for a stream, missing columns, columns with names that TRL uses itself, a scorer that is not a
            function, an unknown role or reward, fewer prompts than one generation batch (TRL would return after 0
            steps), or a model made in memory, since its KL reference cannot be loaded.

    Example:

    ```python
    task = load_task("arithmetic")
    problems = task.problems("train")
    prompts = PromptBuilder(task)
    roles = ("helpful", "sneaky")
    rows = [{**row, "role": role, "prompt": prompts.text(row, role)} for row in problems for role in roles]
    trainer = ProverGRPOTrainer(
        "path/or/hub-id",
        scorer=VerifierScorer.from_pretrained("runs/quickstart/verifier/round-000"),
        grader=task.grade,
        args=ProverGRPOConfig("out", max_steps=50),
        train_dataset=Dataset.from_list(rows),
    )
    trainer.train()
    ```
    """

    args: ProverGRPOConfig
    _name = "ProverGRPO"
    player = "prover"

    def __init__(
        self,
        model,
        *,
        scorer: Scorer,
        grader: Grader | TolerantGrader,
        num_graders: int = 1,
        solution_in: TextPart | None = None,
        args: ProverGRPOConfig,
        train_dataset: Dataset,
        eval_dataset: Dataset | dict[str, Dataset] | None = None,
        reward: RoleReward | None = None,
        feedback: LabelFunction | None = None,
        observer: Observer | None = None,
        reward_funcs: Sequence[Callable] = (),
        **kwargs,
    ):
        if not callable(scorer):
            raise ValueError(_describe_scorer(scorer))
        check_arguments(scorer, "The scorer", "(problems, solutions) -> scores", [], [])
        for dataset in (train_dataset, *datasets_of(eval_dataset)):
            _check_dataset(dataset)
        self.scorer = scorer
        self.grader = grader if isinstance(grader, TolerantGrader) else TolerantGrader(grader)
        self.num_graders = num_graders
        self.solution_in = solution_in
        self.reward = load_reward(args.reward) if reward is None else as_reward(reward, OWN_REWARD)
        self.plain_reward = partial(self.reward, **parsed_dict(args.reward_options))
        self.feedback = feedback
        self.observer = observer
        super().__init__(
            model,
            reward_funcs=[self._score_completions, *reward_funcs],
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            **kwargs,
        )
        self.reward_func_names[0] = self.reward.name

    @property
    def role_reward(self) -> RoleReward:
        """The reward for the observed labels; with `reward_correction`, corrected at the current rates in `args`."""
        if self.args.reward_correction == "none":
            return self.plain_reward
        return noise_corrected(self.plain_reward, self.args.rho0, self.args.rho1)

    def _score_completions(self, completions: list, problem: list[str], log_extra: Callable, **columns) -> list[float]:
        """Score this process's solutions, as TRL's reward function; `_pay` turns the scores into rewards.

        The rewards need the scores of whole groups, which are only available after TRL has gathered all processes.
        """
        found = self.scorer(problem, [self._shown_text(completion) for completion in completions])
        scores = _read_scores(found, len(completions))
        log_extra("score", scores)
        return scores

    def _graded_text(self, completion: str | list[Mapping[str, Any]]) -> str:
        """Return the part of a completion that is graded."""
        return completion_text(completion)

    def _shown_text(self, completion: str | list[Mapping[str, Any]]) -> str:
        """Return the part of a completion that is scored."""
        text = self._graded_text(completion)
        return text if self.solution_in is None else self.solution_in(text)

    def _pay(self, rewards, inputs, completions, completion_ids_list):
        scores = rewards[:, 0].clone()  # a copy, because this column is overwritten below
        signals, observed = self._gather_signals(inputs, completions, completion_ids_list, scores)
        rewards[:, 0] = self._role_rewards(signals, observed)
        self._check_any_reward(rewards[~observed.isnan(), 0])
        rewards[observed.isnan()] = torch.nan  # in all columns, or TRL would take the row's reward for 0
        self._record(signals, rewards[:, 0])
        if self.observer is not None and self.model.training:
            self.observer(self.state.global_step, _graded_rows(inputs, signals, observed))
        if self.feedback is not None and self.model.training:
            self._record_observed(signals, observed, rewards[:, 0])
        return rewards

    def _check_any_reward(self, rewards: torch.Tensor) -> None:
        """Check that a batch has a reward: training without any would change nothing and report no error."""
        if len(rewards) and rewards.isnan().all():
            raise ValueError(
                f"The reward `{self.reward_func_names[0]}` is NaN for all of the batch's {len(rewards)} solutions,"
                " although each has a score and a label: nothing can be learned from it. NaN means that a solution"
                " gets no reward."
            )

    def _role_rewards(self, signals: RoleSignals, observed: torch.Tensor) -> torch.Tensor:
        """Compute the role rewards, for the rows of all processes."""
        correct, answered = observed == 1, ~signals.failed.bool()  # a failed solution counts as unanswered
        if self.reward.figures is not None:
            options, is_paid = parsed_dict(self.args.reward_options), answered & ~observed.isnan()
            self._record_metrics(
                self.reward.figures(signals.scores, correct, signals.sneaky, answered=is_paid, **options)
            )
        return self.role_reward(
            signals.scores,
            correct,
            signals.sneaky,
            group_size=self.num_generations if self.model.training else self.num_generations_eval,
            answered=answered,
            **signals.further,
        )

    def _gather_signals(
        self, inputs, completions, completion_ids_list, scores: torch.Tensor
    ) -> tuple[RoleSignals, torch.Tensor]:
        """Grade this process's solutions; return the signals of all processes and the labels for the reward."""
        truncated = self._are_cut(completion_ids_list)
        asked = list(zip(inputs, map(self._graded_text, completions), strict=True))
        grades = self.grader(asked, self.num_graders)
        grades = [final_grade(*pair) for pair in zip(grades, truncated, strict=True)]
        outcomes = [outcome_of(grade, is_truncated) for grade, is_truncated in zip(grades, truncated, strict=True)]
        roles = [row["role"] for row in inputs]
        local = {
            "correct": [grade.correct for grade in grades],
            "answered": [grade.answer is not None for grade in grades],
            "failed": [outcome in FAILED_OUTCOMES for outcome in outcomes],
            "sneaky": [role == Role.SNEAKY for role in roles],
            "truncated": truncated,
            "abstains": [grade.abstains for grade in grades],
        }
        self._log_completion_extra("role", roles)
        self._log_completion_extra("correct", local["correct"])
        self._log_completion_extra("outcome", [outcome.value for outcome in outcomes])
        gathered = gather({name: torch.tensor(values, device=scores.device) for name, values in local.items()})
        abstains = gathered.pop("abstains")
        signals = RoleSignals(scores, **gathered, further=self._further_signals(grades, scores))
        if self.feedback is None or not self.model.training:
            return signals, signals.correct.to(scores).masked_fill(abstains, torch.nan)
        texts = [self._shown_text(completion) for completion in completions]
        rows = [
            {**row, "solution": text, "correct": grade.correct, "outcome": outcome.value}
            for row, text, grade, outcome in zip(inputs, texts, grades, outcomes, strict=True)
        ]
        rows = gather_object(rows)
        labels = _read_labels(self.feedback(rows, self.state.global_step), len(rows))
        observed = torch.tensor([float("nan") if label is None else label for label in labels]).to(scores)
        return signals, observed.masked_fill(abstains, torch.nan)

    def _further_signals(self, grades: Sequence[Grade], scores: torch.Tensor) -> dict[str, torch.Tensor]:
        """Gather the signals from the grades, other than correctness, that the reward uses."""
        names = self.reward.signals
        if not names:
            return {}
        table = torch.tensor([[grade.signal(name) for name in names] for grade in grades]).to(scores)
        return dict(zip(names, gather(table).T, strict=True))

    def _record(self, signals: RoleSignals, rewards: torch.Tensor) -> None:
        self._record_metrics(role_metrics(signals, rewards, self.args.acceptance_threshold))
        truncated = signals.truncated.float().mean().item()
        if truncated > self.args.max_truncated_share:
            raise ValueError(
                f"{truncated:.0%} of the solutions of a step reached"
                f" `max_completion_length={self.max_completion_length}` without an end token (allowed:"
                f" {self.args.max_truncated_share:.0%}). Raise the length, train the prover to stop, or allow more"
                " (`max_truncated_share`; in a recipe `watchdogs.max_truncated`)."
            )

    def _record_observed(self, signals: RoleSignals, observed: torch.Tensor, rewards: torch.Tensor) -> None:
        """Record the metrics that depend on labels for the observed ones, too, under `observed/`."""
        known = ~observed.isnan()
        if not known.any():
            return
        found = role_metrics(signals.with_labels(observed), rewards[known], self.args.acceptance_threshold)
        self._record_metrics({OBSERVED + key: value for key, value in found.items() if is_of_labels(key)})

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Treat an evaluation in which the metric has no value as not the best one."""
        name = (self.args.metric_for_best_model or "").removeprefix("eval_")
        if name in OPTIONAL_METRICS and metrics.get(f"eval_{name}") is None:
            logger.warning("`%s` has no value in this evaluation, which is therefore not the best one.", name)
            return False
        return super()._determine_best_metric(metrics, trial)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        mode = "train" if self.model.training else "eval"
        if "kl" in self._metrics[mode]:
            self._metrics[mode]["kl_from_base"] = list(self._metrics[mode]["kl"])
        super().log(logs, start_time)


def _graded_rows(
    inputs: Sequence[Mapping[str, Any]], signals: RoleSignals, observed: torch.Tensor
) -> list[dict[str, Any]]:
    """Gather what an observer gets of each solution, in the order of the signals."""
    places = gather_object([(row.get("problem_id"), row["role"]) for row in inputs])
    columns = {
        "correct": signals.correct.bool().tolist(),
        "failed": signals.failed.bool().tolist(),
        "score": signals.scores.tolist(),
        "label": observed.tolist(),
    }
    return [
        {"problem_id": problem_id, "role": str(role), **dict(zip(columns, values, strict=True))}
        for (problem_id, role), *values in zip(places, *columns.values(), strict=True)
    ]


def _describe_scorer(scorer: object) -> str:
    """Explain what to pass instead of an object that is not a scorer."""
    if isinstance(scorer, str | os.PathLike):
        return (
            f"`scorer` is the path {str(scorer)!r}; pass a function `(problems, solutions) -> scores`. Load a verifier"
            " with `VerifierScorer.from_pretrained(path)`."
        )
    return f"`scorer` is a {type(scorer).__name__}; pass a function `(problems, solutions) -> scores`."


def _read_scores(found: object, num_solutions: int) -> list[float]:
    """Return a scorer's result as floats; the scores are checked here, because the reward is not to blame for them."""
    wanted = f"it must return {num_solutions} finite numbers, one for each solution"
    try:
        scores = torch.as_tensor(found, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as err:  # such as texts, `None` or rows of different lengths
        raise ExtensionError(f"The scorer returned {show_value(found)}, a {type(found).__name__}; {wanted}.") from err
    if scores.shape != (num_solutions,):
        raise ExtensionError(f"The scorer returned numbers of shape {tuple(scores.shape)}; {wanted}.")
    if not scores.isfinite().all():
        first = int((~scores.isfinite()).nonzero()[0])
        raise ExtensionError(
            f"The scorer returned {scores[first].item()} for the solution {first} of a batch; {wanted}."
        )
    return scores.tolist()


def _read_labels(found: object, num_solutions: int) -> list[int | None]:
    """Return the labels of `feedback`, checked."""
    labels = list(found) if isinstance(found, Iterable) else []
    if len(labels) != num_solutions or any(label not in (0, 1, None) for label in labels):
        raise ExtensionError(
            f"`feedback` returned {show_value(found)}; it must return {num_solutions} labels, 1, 0 or None, one for"
            " each row."
        )
    return labels


def _check_dataset(dataset: Dataset) -> None:
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"The prover's dataset is a {type(dataset).__name__}; it must be a `datasets.Dataset`, because a stream"
            " has no length and its roles cannot be checked. Load it completely (`streaming=False`)."
        )
    missing = [column for column in _REQUIRED_COLUMNS if column not in dataset.column_names]
    if missing:
        raise ValueError(f"The prover's dataset lacks the column(s) {missing}; it has {dataset.column_names}.")
    unknown = set(dataset.unique("role")) - {role.value for role in GAME_ROLES}
    if unknown:
        raise ValueError(
            f"Unknown role(s) {sorted(map(str, unknown))} in the prover's dataset; a role must be `helpful` or"
            " `sneaky`."
        )

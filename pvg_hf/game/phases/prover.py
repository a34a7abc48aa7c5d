"""The prover phase: trains the round's prover against the round's frozen verifier."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, set_seed

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.core.files import remove, write_json, write_json_lines
from pvg_hf.core.integrity import find_damaged, read_json, read_json_lines
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.core.stopwatch import EVALUATING, spending
from pvg_hf.data.schema import FAILED_OUTCOMES, Outcome, outcome_of
from pvg_hf.evaluation.false_positive_rise import last_early_step
from pvg_hf.game.assumed_rates import NoiseScheduleCallback, prover_rates, report_prover_correction
from pvg_hf.game.callbacks import CountsCallback, LabelCallback
from pvg_hf.game.checkpoint_selection import BestHelpfulCallback
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.false_positive_watch import FalsePositiveWatch, summarize_false_positives
from pvg_hf.game.honest_solutions import sample_honest_solutions
from pvg_hf.game.labels import LabelSource
from pvg_hf.game.minting import sample_everywhere
from pvg_hf.game.players import PlayerLoader
from pvg_hf.game.proof_evaluations import open_meta_verifier
from pvg_hf.game.training import (
    BeginCallback,
    LogCallback,
    remove_training_files,
    run_trainer,
    save_player,
    trainer_run,
)
from pvg_hf.game.training_data import prover_prompts
from pvg_hf.game.verifier_kinds import open_scorer
from pvg_hf.game.watchdogs import Watchdogs, fine_tune_on_incorrect
from pvg_hf.models.adapters import load_adapter_weights
from pvg_hf.models.export import CALIBRATION
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.models.sources import is_adapter
from pvg_hf.rewards import load_reward
from pvg_hf.run.layout import BEST_HELPFUL, CHECKPOINTS, COMPLETIONS, RECOVERY, STEPS
from pvg_hf.run.phase_record import staged
from pvg_hf.sampling import Sampler
from pvg_hf.tasks.base import Task, grade_solutions
from pvg_hf.trainers.arguments import prover_arguments
from pvg_hf.trainers.common.finite_loss import FiniteLossCallback
from pvg_hf.trainers.ppo.trainer import ProverPPOTrainer
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.prover.metrics import observed_metrics
from pvg_hf.trainers.prover.self_evaluation import SelfEvaluatingProverTrainer
from pvg_hf.trainers.prover.stopping import ParityClock, StopRule
from pvg_hf.trainers.prover.trainer import Observer, ProverGRPOTrainer

logger = logging.getLogger(__name__)

RECOVERY_TEMPERATURE = 1.3  # factor on the recipe's temperature

TrainerMaker = Callable[..., ProverGRPOTrainer]


@dataclass(frozen=True)
class HonestSide:
    """
    Means of a helpful side that a training of the sneaky role leaves as it is, such as `score/helpful_correct`.

    Args:
        deciding (`Mapping[str, float]`):
            By the labels that `stopping.labels` names, for the stop rule and the watchdogs; empty if there was no such solution.
        clean (`Mapping[str, float]`):
            By the truth, for what is reported.
    """

    deciding: Mapping[str, float] = field(default_factory=dict)
    clean: Mapping[str, float] = field(default_factory=dict)


@spending(EVALUATING)
def honest_side(context: PhaseContext) -> HonestSide:
    """
    Mean score of correct helpful solutions to the prover's held-out problems, if the helpful role is not trained.

    The solutions are references if `data.correct_source` is `dataset`, and else by the base prover in the helpful role.
    """
    number = context.recipe.prover.eval_problems
    problems = context.problems.parts["prover_heldout"].to_list()[:number]
    if context.recipe.data.correct_source == "dataset":
        written = [(problem, problem["reference"], False) for problem in problems]
    else:
        written = _base_solutions(context, problems)
    rows = [_graded_row(context.problems.task, *solution) for solution in written]
    clean = observed = [row["correct"] for row in rows]
    labels = None if context.recipe.data.correct_source == "dataset" else _deciding_labels(context)
    if labels is not None:
        observed = labels.observed(rows, 0)
        labels.close()
    scorer = open_scorer(context.players, context.round_index)
    with context.stop.sharing():
        scores = scorer([row["problem"] for row in rows], [row["solution"] for row in rows])
    side = HonestSide(*(_mean_score(rows, scores, labels) for labels in (observed, clean)))
    if not side.deciding:
        context.alert("no_honest_side", "No helpful solution of the fixed side is correct; parity cannot be measured.")
    return side


def _mean_score(
    rows: Sequence[Mapping[str, Any]], scores: Sequence[float], labels: Sequence[int | bool | None]
) -> dict[str, float]:
    found = [
        score
        for row, score, label in zip(rows, scores, labels, strict=True)
        if label and row["outcome"] not in FAILED_OUTCOMES
    ]
    return {"score/helpful_correct": sum(found) / len(found)} if found else {}


def _graded_row(task: Task, problem: dict[str, Any], text: str, is_truncated: bool) -> dict[str, Any]:
    [grade] = grade_solutions(task, [(problem, text)])
    outcome = outcome_of(grade, is_truncated)
    solution = task.solution_in(text)
    return {**problem, "solution": solution, "correct": outcome == Outcome.VERIFIED, "outcome": outcome.value}


def _deciding_labels(context: PhaseContext) -> LabelSource | None:
    """Return the labels by which the phase decides on held-out solutions, or `None` for clean ones."""
    is_noisy = context.recipe.noise.is_for_prover
    return LabelSource.for_decisions(context, context.folder.root, is_noisy=is_noisy)


def _base_solutions(context: PhaseContext, problems: list[dict]) -> list[tuple[dict, str, bool]]:
    """Helpful solutions by the base prover: problem, text, and whether the text was cut."""
    sampler = context.players.base_sampler()
    seed = context.seed("honest")
    written = sample_everywhere(
        context,
        sampler,
        problems,
        Role.HELPFUL,
        make_rng=lambda problem_id, number: derive_rng(seed, problem_id),
        num_samples=1,
    )
    return [(problem, row[0].text, row[0].is_truncated) for problem, row in zip(problems, written, strict=True)]


@dataclass(frozen=True)
class SubPhase:
    """
    A training within the phase.

    Args:
        roles (`tuple[Role, ...]`):
            Roles that it trains.
        prover (`ProverConfig`):
            Settings of this training: the recipe's, with the steps of these roles.
        output (`Path`):
            Folder of its last checkpoint.
        rates (`tuple[float, float]`):
            Rates `(rho0, rho1)` that the reward's correction assumes.
        first_step (`int`):
            Number of earlier steps of the phase.
        recovery (`str`):
            Recovery from a sneaky collapse in an earlier attempt; `none` in the first attempt.
        helpful (`Path`, *optional*):
            Folder of the helpful prover that the phase has trained before; `None` if it has trained none.
    """

    roles: tuple[Role, ...]
    prover: ProverConfig
    output: Path
    rates: tuple[float, float]
    first_step: int = 0
    recovery: str = "none"
    helpful: Path | None = None


def run_prover(context: PhaseContext, output: Path, *, fixed: Mapping[str, float] | None = None) -> str:
    """
    Write the last checkpoint (with `roles: separate`, an adapter per role), and next to it the best helpful one.

    Args:
        context ([`PhaseContext`]), output (`Path`):
            Context and folder of the phase.
        fixed (`Mapping[str, float]`, *optional*):
            If only the sneaky role is trained: means of the helpful side that the stop rules compare it with, such as
            `score/helpful_correct`. They are those of [`honest_side`] by default.
    """
    assumed = prover_rates(context)
    correction = report_prover_correction(context, assumed)
    line = _train_roles(context, output, assumed.rates, None if fixed is None else HonestSide(fixed, fixed))
    summarize_false_positives(context, output)
    if assumed.figures:
        context.record(assumed.figures)
    return correction + line


def _train_roles(context: PhaseContext, output: Path, rates: tuple[float, float], fixed: HonestSide | None) -> str:
    config = context.recipe.prover
    if config.num_trainings == 1:
        if fixed is None:
            # If only the sneaky role is trained, the stop rules compare it with a fixed helpful side.
            fixed = honest_side(context) if config.trained_roles == (Role.SNEAKY,) else HonestSide()
        return _train(context, SubPhase(config.trained_roles, config, output, rates), fixed)
    lines, fixed = [], HonestSide()
    first_step, helpful = 0, None
    for roles, training in config.trainings.items():
        (role,) = roles
        sub_phase = SubPhase(roles, training, output / role, rates, first_step=first_step, helpful=helpful)
        lines.append(f"{role}: {_train_separately(context, sub_phase, fixed)}")
        first_step += training.max_steps
        helpful = output / role  # the role that is trained first
        # The sneaky role, trained next, is compared with the trained helpful one.
        fixed = _final_heldout(context.metrics, context.recipe.stopping.labels)
    return "; ".join(lines)


def _train_separately(context: PhaseContext, sub_phase: SubPhase, fixed: HonestSide) -> str:
    """Train a sub-phase with separate results; a finished sub-phase is not repeated when the phase resumes."""
    if _is_done(sub_phase.output, context.processes):
        context.metrics += read_json_lines(sub_phase.output / STEPS)
        return "done before"
    known = len(context.metrics)  # metrics before this sub-phase belong to others
    with staged(sub_phase.output, is_main=context.processes.is_main_process) as partial:
        line = _train(context, replace(sub_phase, output=partial), fixed)
        if context.processes.is_main_process:
            write_json_lines(partial / STEPS, context.metrics[known:])
        remove_training_files(context, partial)
    context.processes.wait_for_everyone()
    return line


def _is_done(output: Path, processes: PartialState) -> bool:
    """Whether a sub-phase is finished; a damaged one is removed."""
    is_done = False
    if processes.is_main_process and output.exists():
        damage = next(find_damaged(output), None)
        is_done = damage is None
        if not is_done:
            logger.warning("%s %s; the sub-phase is played again.", damage.path, damage.what)
            remove(output)
    return broadcast_object_list([is_done])[0]


def _final_heldout(metrics: Sequence[Mapping[str, Any]], labels: str) -> HonestSide:
    """Last held-out figures of the helpful sub-phase, which the stop rules of the sneaky one need."""
    clean, observed = "prover/heldout/score_correct", "prover/heldout/score_observed_correct"
    return HonestSide(*(_last_score(metrics, key) for key in (clean if labels == "clean" else observed, clean)))


def _last_score(metrics: Sequence[Mapping[str, Any]], key: str) -> dict[str, float]:
    score = next((line[key] for line in reversed(metrics) if key in line), None)
    return {} if score is None else {"score/helpful_correct": score}


def _train(context: PhaseContext, sub_phase: SubPhase, fixed: HonestSide) -> str:
    """Train, with the prover's own solutions in the sneaky prompts if the recipe asks for them."""
    if not (Role.SNEAKY in sub_phase.roles and context.recipe.task.shows_own_solutions):
        return _train_and_recover(context, sub_phase, fixed)
    honest = sample_honest_solutions(context, "prover", _honest_sampler(context, sub_phase))
    context.problems = context.problems.showing(honest)
    line = _train_and_recover(context, sub_phase, fixed)
    context.record({"prover/own_honest_share": len(honest) / len(context.problems.parts["prover"])})
    return line


def _honest_sampler(context: PhaseContext, sub_phase: SubPhase) -> Sampler:
    """The helpful prover that was trained before the sneaky one, or else the weights that the training starts from."""
    if sub_phase.helpful is not None:
        return context.players.sampler(sub_phase.helpful)
    if context.recipe.prover.init == "previous" and context.round_index > 0:
        return context.players.role_sampler(Role.HELPFUL, context.round_index - 1)
    return context.players.base_sampler()


def _train_and_recover(context: PhaseContext, sub_phase: SubPhase, fixed: HonestSide) -> str:
    """Train, and train again with the recipe's recovery if the sneaky role collapsed."""
    # A file records the recovery, so that an interrupted second attempt resumes as one.
    marker = sub_phase.output / RECOVERY
    if marker.exists():
        sub_phase = replace(sub_phase, recovery=read_json(marker)["recovery"])
    known = len(context.metrics)
    watchdogs, line = _train_once(context, sub_phase, fixed)
    recovery = context.recipe.watchdogs.collapse_recovery
    if not watchdogs.has_collapsed or recovery == "none" or sub_phase.recovery != "none":
        return line
    # Start again without any trace of the collapsed attempt: its metrics, checkpoints and solutions are dropped.
    del context.metrics[known:]
    if context.processes.is_main_process:
        remove(sub_phase.output / CHECKPOINTS)
        remove(sub_phase.output / COMPLETIONS)
        write_json(marker, {"recovery": recovery, "after": line})
    context.processes.wait_for_everyone()
    context.alert("sneaky_collapse", f"The prover phase starts again with the recovery `{recovery}`.")
    return _train_once(context, replace(sub_phase, recovery=recovery), fixed)[1]


def _train_once(context: PhaseContext, sub_phase: SubPhase, fixed: HonestSide) -> tuple[Watchdogs, str]:
    prover = sub_phase.prover
    rule = StopRule(context.recipe.stopping, prover, fixed=fixed.deciding)
    # A second collapse only raises an alert: there is no further recovery, so that the phase need not end for it.
    collapse_recovery = context.recipe.watchdogs.collapse_recovery if sub_phase.recovery == "none" else "none"
    config = replace(context.recipe.watchdogs, collapse_recovery=collapse_recovery)
    watchdogs = Watchdogs(
        config,
        context.alert,
        num_steps=prover.num_batches,
        sneaky_groups=prover.prompts_per_step // len(sub_phase.roles) if Role.SNEAKY in sub_phase.roles else 0,
        fixed=fixed.deciding,
    )
    parity = ParityClock(context.recipe.stopping, prover, fixed.clean)
    labels = LabelSource(context, sub_phase.output, is_noisy=context.recipe.noise.is_for_prover)
    threshold = read_json(context.folder.verifier(context.round_index) / CALIBRATION)["threshold"]
    args = _arguments(context, sub_phase, threshold)
    false_positives = FalsePositiveWatch(
        config,
        sub_phase.output,
        context.alert,
        last_step=last_early_step(args.max_steps, config.false_positive_window, args.steps_per_batch),
        threshold=threshold,
        has_checker=labels.noise is not None,
        pays_scores=prover.self_evaluation is not None or not load_reward(prover.reward).is_gated,
        is_main=context.processes.is_main_process,
    )
    trainer = _make_trainer(context, sub_phase, labels, args, false_positives.observe)
    ends: list[str] = []

    decides_by_observed = labels.noise is not None and context.recipe.stopping.labels == "observed"

    def listen(step: int, figures: dict[str, float]) -> bool:
        parity.update(step, figures)
        figures = observed_metrics(figures) if decides_by_observed else figures
        is_done = rule.update(step, figures)
        is_alarmed = any([watchdogs.update(step, figures), false_positives.update(step)])
        if is_done or is_alarmed:
            ends.append(f"{rule.name} at step {step}" if is_done else f"watchdog at step {step}")
        return is_done or is_alarmed

    # The order matters: the stop rule first, then the last held-out evaluation, which asks whether the phase ends.
    trainer.add_callback(BeginCallback(false_positives.begin))
    trainer.add_callback(LogCallback(listen))
    lost_step = None
    if Role.HELPFUL in sub_phase.roles:
        best = BestHelpfulCallback(
            context,
            trainer.scorer,
            sub_phase.output / BEST_HELPFUL,
            is_over=lambda: bool(ends),
            labels=_deciding_labels(context),
        )
        best.attach(trainer)
        lost_step = best.lost_step()
    trainer.add_callback(CountsCallback(trainer.scorer))  # after the evaluation, to include its counts in this step
    if labels.noise is not None:
        trainer.add_callback(LabelCallback(labels))
    run_trainer(
        context,
        trainer,
        prefix="prover",
        first_step=sub_phase.first_step,
        resumable_every=trainer.args.steps_per_batch,
        before_step=lost_step,
    )
    if Role.SNEAKY in sub_phase.roles:
        _add_to_last_step(context, {f"prover/{name}": value for name, value in parity.figures().items()})
    if context.processes.is_main_process:
        _keep_completions(sub_phase.output)
    save_player(trainer, sub_phase.output, player="prover", run=context.folder.root)
    return watchdogs, _describe(trainer.state.global_step, ends, rule)


def _add_to_last_step(context: PhaseContext, values: Mapping[str, float]) -> None:
    """Add values to the metrics of the last step: they are known only when the training is over."""
    context.metrics[-1] |= values
    context.track(values, step=context.metrics[-1]["step"])


def _keep_completions(output: Path) -> None:
    """Move each step's solutions, which TRL writes next to the checkpoints, out of the folder that is deleted."""
    written, kept = output / CHECKPOINTS / COMPLETIONS, output / COMPLETIONS
    if written.exists():
        # File by file: after a crash here, training writes only the steps after its last checkpoint again.
        kept.mkdir(exist_ok=True)
        for file in written.iterdir():
            file.replace(kept / file.name)


def _describe(steps: int, ends: list[str], rule: StopRule) -> str:
    means = rule.means
    shown = [
        f"{name} {means[key]:.2f}"
        for key, name in {
            "accuracy/helpful": "helpful accuracy",
            "accuracy/sneaky": "sneaky accuracy",
            "score/helpful_correct": "score of helpful correct",
            "score/sneaky_incorrect": "of sneaky incorrect",
        }.items()
        if key in means
    ]
    return f"{steps} steps ({ends[0] if ends else 'all planned'}), " + ", ".join(shown)


def _ppo_trainer(context: PhaseContext) -> TrainerMaker:
    return partial(ProverPPOTrainer, critic=context.recipe.prover.ppo_settings.critic)


def _grpo_trainer(context: PhaseContext) -> TrainerMaker:
    own = context.recipe.prover.self_evaluation
    if own is None:
        return ProverGRPOTrainer
    meta_verifier = open_meta_verifier(context.players, context.round_index, context.problems.task)
    return partial(SelfEvaluatingProverTrainer, meta_verifier=meta_verifier, **asdict(own))


# By `prover.algorithm`: the trainer, with the arguments that only it takes.
PROVER_TRAINERS: dict[str, Callable[[PhaseContext], TrainerMaker]] = {"grpo": _grpo_trainer, "ppo": _ppo_trainer}


def _make_trainer(
    context: PhaseContext, sub_phase: SubPhase, labels: LabelSource, args: ProverGRPOConfig, observer: Observer
) -> ProverGRPOTrainer:
    config, round_index = sub_phase.prover, context.round_index
    model, tokenizer = _initial_prover(context.players, round_index)
    base, revision = context.players.initial_model("prover")
    model.config._name_or_path = base  # TRL loads the KL reference from here
    trainer = PROVER_TRAINERS[config.algorithm](context)(
        model,
        scorer=open_scorer(context.players, round_index, base_owner=model),
        grader=context.problems.task.tolerant_grader,
        num_graders=context.problems.task.grades_at_once,
        solution_in=context.problems.task.solution_in,
        feedback=None if labels.noise is None else labels.observed,
        observer=observer,
        args=args,
        train_dataset=prover_prompts(
            config,
            context.problems,
            tokenizer,
            sub_phase.roles,
            seed=context.seed("prompts"),
            easiest_first=sub_phase.recovery == "easier",
        ),
        processing_class=tokenizer,
        peft_config=lora_for_prover(config.lora, revision) if config.lora else None,
        callbacks=[FiniteLossCallback(), *_rate_callbacks(context.recipe)],
    )
    if config.init == "previous" and round_index > 0 and config.lora:
        _continue_adapter(trainer, context.folder.prover(round_index - 1), config, sub_phase.roles)
    if sub_phase.recovery == "supervised":
        fine_tune_on_incorrect(context, trainer.model, tokenizer)
        set_seed(trainer.args.seed, device_specific=True)
    return trainer


def _rate_callbacks(recipe: Recipe) -> list[NoiseScheduleCallback]:
    """Return the callback that updates the assumed rates each step, if the label noise has a schedule over steps."""
    noise = recipe.noise
    if not (noise.is_for_prover and noise.is_by_step and recipe.rates.source == "noise"):
        return []
    return [NoiseScheduleCallback(noise, sets_injected=False, sets_assumed=True)]


def _initial_prover(players: PlayerLoader, round_index: int):
    """Initial weights of the policy, and its tokenizer."""
    config = players.recipe.prover
    source, revision = players.initial_model("prover")
    if config.init == "previous" and round_index > 0 and not config.lora:
        source, revision = str(players.folder.prover(round_index - 1)), None
    dtype = players.dtype("prover", is_precise=config.lora is None)
    return load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)


def _continue_adapter(
    trainer: ProverGRPOTrainer, previous: Path, config: ProverConfig, roles: tuple[Role, ...]
) -> None:
    """Copy the adapter weights of the last round's prover, in the folder `previous`, to the new adapter."""
    # Weights go to a fresh adapter, so that TRL's KL reference remains the base model.
    previous = previous / roles[0] if config.is_separate else previous
    assert is_adapter(previous)
    load_adapter_weights(trainer.model, previous)


def _arguments(context: PhaseContext, sub_phase: SubPhase, threshold: float) -> ProverGRPOConfig:
    temperature = sub_phase.prover.temperature
    return prover_arguments(
        replace(context.recipe, prover=sub_phase.prover),
        trainer_run(context, sub_phase.output / CHECKPOINTS, *sub_phase.roles, sub_phase.recovery),
        assumed_rates=sub_phase.rates,
        temperature=temperature * (RECOVERY_TEMPERATURE if sub_phase.recovery == "temperature" else 1.0),
        threshold=threshold,
    )

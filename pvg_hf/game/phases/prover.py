"""The prover phase: trains the round's prover against the round's frozen verifier."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle, islice
from math import ceil
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, set_seed
from datasets import Dataset
from peft import PeftModel

from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import ProverConfig
from pvg_hf.core.files import remove, write_json, write_json_lines
from pvg_hf.core.integrity import find_damaged, read_json, read_json_lines
from pvg_hf.core.roles import Outcome, Role
from pvg_hf.core.score_calibration import ScoreCalibration
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.label_rates import Rates
from pvg_hf.data.problems import GameProblems
from pvg_hf.evaluation.catalogue import heading_of
from pvg_hf.game.assumed_rates import NoiseScheduleCallback, assumed_rates, report_prover_correction
from pvg_hf.game.checkpoint_selection import BestHelpfulCallback
from pvg_hf.game.context import PhaseContext, PlayerLoader
from pvg_hf.game.honest_solutions import HonestSide, sample_honest_solutions
from pvg_hf.game.labels import LabelSource
from pvg_hf.game.monitors import Monitors
from pvg_hf.game.proof_evaluations import open_meta_verifier
from pvg_hf.game.training import (
    CountsCallback,
    LabelCallback,
    fine_tune_player,
    remove_training_files,
    run_trainer,
    save_player,
)
from pvg_hf.game.watchdogs import Watchdogs, summarize_false_positives
from pvg_hf.models.adapters import load_adapter_weights
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.models.sources import is_adapter
from pvg_hf.run.layout import BEST_HELPFUL, CHECKPOINTS, COMPLETIONS, RECOVERY, STEPS
from pvg_hf.run.phase_record import staged
from pvg_hf.run.stored import MetricLine, Recovery
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import open_sampler
from pvg_hf.sampling.sampler import sample_solutions
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.tasks import Task
from pvg_hf.trainers.arguments import prover_arguments
from pvg_hf.trainers.common.step_checks import FiniteLossCallback
from pvg_hf.trainers.ppo.trainer import ProverPPOTrainer
from pvg_hf.trainers.prover.config import ProverGRPOConfig
from pvg_hf.trainers.prover.self_evaluation import SelfEvaluatingProverTrainer
from pvg_hf.trainers.prover.stopping import COUNT
from pvg_hf.trainers.prover.trainer import Observer, ProverGRPOTrainer

WRITTEN_PER_ROW = 2  # solutions written for each incorrect one that is wanted, since some are correct or fail

logger = logging.getLogger(__name__)

RECOVERY_TEMPERATURE = 1.3  # factor on the recipe's temperature

RECOVERY_STEPS, RECOVERY_BATCH_SIZE = 20, 16  # of the recovery `supervised`


@dataclass(frozen=True)
class SubPhase:
    """A training of some roles within the phase."""

    roles: tuple[Role, ...]
    prover: ProverConfig  # the recipe's settings, with the steps of these roles
    output: Path
    rates: Rates  # (rho0, rho1) that the reward's correction assumes
    honest: HonestSide  # helpful side that it leaves as it is, with which the stop rule compares the sneaky role
    first_step: int = 0
    helpful: Path | None = None  # folder of the helpful prover that the phase has trained before
    recovery: str = "none"  # from a sneaky collapse in an earlier attempt


def run_prover(context: PhaseContext, output: Path, *, honest: HonestSide | None = None) -> str:
    """
    Write the last checkpoint (with `roles: separate`, an adapter per role), and next to it the best helpful one.

    If only the sneaky role is trained, it is compared with the helpful side `honest`, which is measured by default.
    """
    assumed = assumed_rates(context, "prover")
    correction = report_prover_correction(context.recipe.prover, assumed, context.event)
    config = context.recipe.prover
    if config.num_trainings > 1:
        summary = _train_in_turn(context, output, assumed.rates)
    else:
        if honest is None:
            honest = HonestSide.measure(context) if config.trained_roles == (Role.SNEAKY,) else HonestSide()
        summary = _train(context, SubPhase(config.trained_roles, config, output, assumed.rates, honest))
    if context.processes.is_main_process and (rises := summarize_false_positives(output, context.round_index)):
        context.record(rises)
    if assumed.figures:
        context.record(assumed.figures)
    return correction + summary


def _train_in_turn(context: PhaseContext, output: Path, rates: Rates) -> str:
    """
    Train the helpful role, and then the sneaky one, which is compared with it. Return the one-line summary of both.

    When the phase resumes, a finished training is not repeated.
    """
    summaries, first_step, helpful, honest = [], 0, None, HonestSide()
    for (role,), prover in context.recipe.prover.trainings.items():
        target, known = output / role, len(context.metrics)
        if _is_done(target, context.processes):
            context.metrics += read_json_lines(target / STEPS, MetricLine)
            summary = "done before"
        else:
            with staged(target, is_main=context.processes.is_main_process) as unfinished:
                training = SubPhase((role,), prover, unfinished, rates, honest, first_step, helpful)
                summary = _train(context, training)
                if context.processes.is_main_process:
                    write_json_lines(unfinished / STEPS, context.metrics[known:])
                remove_training_files(unfinished, context.processes)
            context.processes.wait_for_everyone()
        summaries.append(f"{role}: {summary}")
        first_step, helpful = first_step + prover.max_steps, target
        honest = HonestSide.of_metrics(context.metrics, context.recipe.stopping.labels)
    return "; ".join(summaries)


def _is_done(output: Path, processes: PartialState) -> bool:
    """Whether a sub-phase is finished; a damaged one is removed."""
    is_done = False
    if processes.is_main_process and output.exists():
        damage = next(find_damaged(output), None)
        is_done = damage is None
        if damage is not None:
            logger.warning("%s %s; the sub-phase is played again.", damage.path, damage.what)
            remove(output)
    return broadcast_object_list([is_done])[0]


def _train(context: PhaseContext, training: SubPhase) -> str:
    """
    Train, with the prover's own solutions in the sneaky prompts if the recipe asks for them; return a one-line
    summary.
    """
    if not (Role.SNEAKY in training.roles and context.recipe.task.shows_own_solutions):
        return _train_and_recover(context, training)
    shown = sample_honest_solutions(
        context, "prover", _honest_sampler(context.players, training.helpful, context.round_index)
    )
    context.problems = context.problems.showing(shown)
    summary = _train_and_recover(context, training)
    context.record({"prover/own_honest_share": len(shown) / len(context.problems.parts["prover"])})
    return summary


def _honest_sampler(players: PlayerLoader, helpful: Path | None, round_index: int) -> Sampler:
    """The helpful prover that was trained before the sneaky one, or else the weights that the training starts from."""
    if helpful is not None:
        return players.sampler(helpful)
    if players.recipe.prover.init == "previous" and round_index > 0:
        return players.role_sampler(Role.HELPFUL, round_index - 1)
    return players.base_sampler()


def _train_and_recover(context: PhaseContext, training: SubPhase) -> str:
    """Train, and once more with the recipe's recovery if the sneaky role collapsed."""
    # A file records the recovery, so that an interrupted second attempt resumes as one.
    marker, known = training.output / RECOVERY, len(context.metrics)
    if marker.exists():
        training = replace(training, recovery=read_json(marker, Recovery).recovery)
    while True:
        watchdogs, summary = _train_once(context, training)
        if not watchdogs.has_collapsed or watchdogs.config.collapse_recovery == "none":
            return summary
        training = replace(training, recovery=watchdogs.config.collapse_recovery)
        # Start again without any trace of the collapsed attempt: its metrics, checkpoints and solutions are dropped.
        del context.metrics[known:]
        if context.processes.is_main_process:
            remove(training.output / CHECKPOINTS)
            remove(training.output / COMPLETIONS)
            write_json(marker, {"recovery": training.recovery, "after": summary})
        context.processes.wait_for_everyone()
        context.alert("sneaky_collapse", f"The prover phase starts again with the recovery `{training.recovery}`.")


def _train_once(context: PhaseContext, training: SubPhase) -> tuple[Watchdogs, str]:
    """Train once, save the prover, and return the watchdogs and a one-line summary."""
    labels = LabelSource(context, training.output, is_noisy=context.recipe.noise.is_for_prover)
    args = _arguments(context, training)
    monitors = Monitors(
        replace(context.recipe, prover=training.prover),
        context.alert,
        args,
        training.roles,
        training.honest,
        training.output,
        has_noisy_labels=labels.noise is not None,
        can_recover=training.recovery == "none",
    )
    trainer = _make_trainer(context, training, labels, args, monitors.false_positives.observe)
    trainer.add_callback(monitors)
    lost_step = None
    if Role.HELPFUL in training.roles:
        # After the monitors: the last evaluation is made when the phase ends.
        best = BestHelpfulCallback(
            context, trainer, training.output / BEST_HELPFUL, is_over=lambda: monitors.reason is not None
        )
        trainer.add_callback(best)
        lost_step = best.lost_step()
    assert isinstance(trainer.scorer, VerifierScorer | GenerativeVerifier)
    trainer.add_callback(CountsCallback(trainer.scorer))  # after the evaluation, to include its counts in this step
    if labels.noise is not None:
        trainer.add_callback(LabelCallback(labels))
    run_trainer(
        context,
        trainer,
        prefix="prover",
        first_step=training.first_step,
        resumable_every=args.steps_per_batch,
        before_step=lost_step,
    )
    if Role.SNEAKY in training.roles:
        # Added to the last step, because they are known only when the training is over.
        parity = {f"prover/{name}": value for name, value in monitors.parity.figures().items()}
        context.metrics[-1] |= parity
        context.track(parity, step=context.metrics[-1]["step"])
    if context.processes.is_main_process:
        _keep_completions(training.output)
    save_player(trainer, training.output, player="prover", run=context.folder.root)
    return monitors.watchdogs, _summarize(trainer.state.global_step, monitors)


def _keep_completions(output: Path) -> None:
    """Move each step's solutions, which TRL writes next to the checkpoints, out of the folder that is deleted."""
    written, kept = output / CHECKPOINTS / COMPLETIONS, output / COMPLETIONS
    if written.exists():
        # File by file: after a crash here, training writes only the steps after its last checkpoint again.
        kept.mkdir(exist_ok=True)
        for file in written.iterdir():
            file.replace(kept / file.name)


def _summarize(steps: int, monitors: Monitors) -> str:
    means = monitors.rule.means
    keys = ("accuracy/helpful", "accuracy/sneaky", "score/helpful_correct", "score/sneaky_incorrect")
    numbers = {key: means.get(key.replace("score/", COUNT)) if key.startswith("score/") else None for key in keys}
    shown = [
        f"{heading_of(key)} {means[key]:.2f}{f' (n={number:.0f})' if number else ''}"
        for key, number in numbers.items()
        if key in means
    ]
    return f"{steps} steps ({monitors.reason or 'all planned'}), " + ", ".join(shown)


def _trainer_class(players: PlayerLoader, round_index: int, task: Task) -> Callable[..., ProverGRPOTrainer]:
    """Trainer by `prover.algorithm`, with the arguments that only it takes."""
    config = players.recipe.prover
    if config.algorithm == "ppo":
        return partial(ProverPPOTrainer, critic=config.ppo_settings.critic)
    if config.self_evaluation is None:
        return ProverGRPOTrainer
    meta_verifier = open_meta_verifier(players, round_index, task)
    return partial(SelfEvaluatingProverTrainer, meta_verifier=meta_verifier, **asdict(config.self_evaluation))


def _make_trainer(
    context: PhaseContext, training: SubPhase, labels: LabelSource, args: ProverGRPOConfig, observer: Observer
) -> ProverGRPOTrainer:
    config, round_index = training.prover, context.round_index
    model, tokenizer = _initial_prover(context.players, round_index)
    base, revision = context.players.initial_model("prover")
    model.config._name_or_path = base  # TRL loads the KL reference from here
    trainer = _trainer_class(context.players, round_index, context.problems.task)(
        model,
        scorer=context.players.scorer(round_index, base_owner=model),
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
            training.roles,
            seed=context.seed("prompts"),
            easiest_first=training.recovery == "easier",
        ),
        processing_class=tokenizer,
        peft_config=lora_for_prover(config.lora, revision) if config.lora else None,
        callbacks=[FiniteLossCallback(), *_rate_callbacks(context.recipe)],
    )
    if config.init == "previous" and round_index > 0 and config.lora:
        _continue_adapter(trainer, context.folder.prover(round_index - 1), config, training.roles)
    if training.recovery == "supervised":
        _fine_tune_on_incorrect(context, trainer.model, tokenizer)
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
    dtype = players.dtype("prover", is_trained=config.lora is None)
    return load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)


def _continue_adapter(
    trainer: ProverGRPOTrainer, previous: Path, config: ProverConfig, roles: tuple[Role, ...]
) -> None:
    """Copy the adapter weights of the last round's prover, in the folder `previous`, to the new adapter."""
    # Weights go to a fresh adapter, so that TRL's KL reference remains the base model.
    previous = previous / roles[0] if config.is_separate else previous
    assert is_adapter(previous)
    assert isinstance(trainer.model, PeftModel)
    load_adapter_weights(trainer.model, previous)


def _arguments(context: PhaseContext, training: SubPhase) -> ProverGRPOConfig:
    temperature = training.prover.temperature
    seed = context.seed("trainer", *training.roles, training.recovery)
    return prover_arguments(
        replace(context.recipe, prover=training.prover),
        context.players.trainer_run(training.output / CHECKPOINTS, seed),
        assumed_rates=training.rates,
        temperature=temperature * (RECOVERY_TEMPERATURE if training.recovery == "temperature" else 1.0),
        threshold=ScoreCalibration.require(context.folder.verifier(context.round_index)).acceptance().threshold,
    )


def _fine_tune_on_incorrect(context: PhaseContext, model, tokenizer) -> None:
    """Fine-tune `model` in place on its own incorrect solutions, with sneaky prompts."""
    number = RECOVERY_STEPS * RECOVERY_BATCH_SIZE
    sampler = open_sampler(model, tokenizer, **context.players.sampler_settings)
    rows = incorrect_solutions(context.problems, sampler, number, seed=context.seed("recovery", "solutions"))
    if not len(rows):
        context.alert("sneaky_collapse", "The prover wrote no incorrect solution for the recovery.")
        return
    fine_tune_player(
        context.players,
        model,
        tokenizer,
        rows,
        seed=context.seed("recovery"),
        max_steps=RECOVERY_STEPS,
        batch_size=RECOVERY_BATCH_SIZE,
        learning_rate=context.recipe.prover.learning_rate,
        max_length=context.recipe.verifier.max_length,
    )


def prover_prompts(
    config: ProverConfig,
    problems: GameProblems,
    tokenizer,
    roles: Sequence[Role],
    *,
    seed: int,
    easiest_first: bool = False,
) -> Dataset:
    """
    Prompts of the phase in training order, one per row: at random, or by difficulty (the task's, else the reference's
    length).

    The phase is one epoch of this dataset, which is already shuffled, so that training can resume at any step.

    Raises `ValueError` if the prover's problems (D_pi) are too few for one generation batch.
    """
    asked = problems.parts["prover"].to_list()
    rows = [
        {**problem, "role": role.value, "prompt": problems.prompt(problem, role, tokenizer)}
        for problem in asked
        for role in roles
    ]
    if len(rows) < config.prompts_per_step:
        raise ValueError(
            f"D_pi has {len(asked)} problems, which give {len(rows)} prompts; one step takes "
            f"`prover.prompts_per_step` = {config.prompts_per_step}. Use more problems, or fewer prompts a step."
        )
    ordered = cycle(sorted(rows, key=_difficulty)) if easiest_first else _shuffled_forever(rows, seed)
    return Dataset.from_list(list(islice(ordered, config.prompts_per_step * config.num_batches)))


def _shuffled_forever(rows: list[dict[str, Any]], seed: int) -> Iterator[dict[str, Any]]:
    epoch = 0
    while True:
        for index in derive_rng(seed, epoch).permutation(len(rows)):
            yield rows[index]
        epoch += 1


def _difficulty(row: dict[str, Any]) -> tuple[int, str]:
    return row.get("difficulty", len(row["reference"])), row["problem_id"]


def incorrect_solutions(game: GameProblems, sampler: Sampler, number: int, *, seed: int) -> Dataset:
    """
    Let a prover write solutions to the prover's problems (D_pi), by the base prompt, for a recovery.

    The pool has incorrect solutions too, but to the verifier's problems, to which the round's prover will write the
    next verifier's data.

    Returns: up to `number` incorrect ones (none that failed) as `completion`, with sneaky prompts as `prompt`.
    """
    num_written, problems = WRITTEN_PER_ROW * number, game.parts["prover"]
    problems = problems.select(derive_rng(seed).permutation(len(problems))[:num_written]).to_list()
    num_samples = ceil(num_written / len(problems))
    # Every process writes all of them, so that all train on the same ones.
    rows = sample_solutions(sampler, game.prompts, problems, Role.BASE, num_samples=num_samples, seed=seed)
    by_id = {problem["problem_id"]: problem for problem in problems}
    incorrect = [row for row in rows if row["outcome"] == Outcome.PROOF_INVALID]
    return Dataset.from_list(
        [
            {
                "prompt": game.prompt(by_id[row["problem_id"]], Role.SNEAKY, sampler.tokenizer),
                "completion": row["solution"],
            }
            for row in incorrect[:number]
        ]
    )

"""Evaluates a prover during training on the prover's held-out problems, and keeps the best helpful checkpoint."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import TrainerState

from pvg_hf.core.integrity import DIGESTS, DamagedFileError, find_damaged, read_digests, write_digests
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.data.schema import FAILED_OUTCOMES, outcome_of
from pvg_hf.game.callbacks import StepFigures
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.minting import sample_everywhere, strip_evaluation
from pvg_hf.rewards import RewardFunction, correctness_gated_convincingness
from pvg_hf.sampling import Sample
from pvg_hf.sampling.graded_solutions import grade_sample
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.common.distributed import whole_weights
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer

logger = logging.getLogger(__name__)


class BestHelpfulCallback(StepFigures):
    """
    Keeps the helpful checkpoint with the highest mean reward on held-out problems, the starting point included.

    The prover writes helpful solutions to these problems before the first step, every `eval_steps` and at the end, each time with the
    same random numbers. The prover that the training begins with is kept until a later one has a higher reward. The reward is the trainer's own,
    unless it is relative to the prover's group, as signed relative convincingness (SRC): that does not measure how good a group
    is. Checkpoints are then compared by correctness-gated convincingness (CGC): the verifier's score if the solution is correct,
    else -2.

    Args:
        context ([`PhaseContext`]):
            Context of the phase.
        scorer ([`VerifierScorer`]):
            The round's verifier.
        output (`Path`):
            Folder of the best checkpoint.
        is_over (`Callable`):
            Whether a rule ends the phase at the current step.
    """

    def __init__(self, context: PhaseContext, scorer: VerifierScorer, output: Path, is_over: Callable[[], bool]):
        self.context = context
        self.scorer = scorer
        self.output = output
        self.is_over = is_over
        self.best = float("-inf")
        self._start: Mapping[str, float] = {}  # figures before the first step, until they are logged
        self.trainer: ProverGRPOTrainer | None = None

    def attach(self, trainer: ProverGRPOTrainer) -> None:
        """Add this callback to the trainer of the prover that it evaluates."""
        self.trainer = trainer
        trainer.add_callback(self)

    def on_train_begin(self, args, state, control, **kwargs):
        for entry in state.log_history:  # steps before the checkpoint that training resumes from
            for key in ("start/selection", "heldout/selection"):
                self.best = max(self.best, entry.get(key, self.best))
        if state.global_step == 0:
            start = self._judge()
            self.best = start["heldout/selection"]
            self._start = {key.replace("heldout/", "start/"): value for key, value in start.items()}
            self._keep(0)

    def step_figures(self, state: TrainerState) -> Mapping[str, float]:
        is_last = state.global_step == state.max_steps or self.is_over()
        # `is_over` is known here because the stop rule's callback comes before this one.
        is_due = is_last or state.global_step % self.context.recipe.prover.eval_steps == 0
        start, self._start = self._start, {}  # in the line of the first step
        return {**start, **(self._judge() if is_due else {})}

    def on_log(self, args, state, control, logs: dict[str, Any], **kwargs):
        super().on_log(args, state, control, logs, **kwargs)
        if logs.get("heldout/selection", float("-inf")) > self.best:
            self.best = logs["heldout/selection"]
            self._keep(state.global_step)

    def _keep(self, step: int) -> None:
        # Remove the digests first: a folder without them is incomplete.
        if self.context.processes.is_main_process:
            (self.output / DIGESTS).unlink(missing_ok=True)
        self.trainer.save_model(str(self.output))
        if self.context.processes.is_main_process:
            write_digests(self.output, step=step)

    def lost_step(self) -> int | None:
        """
        Step of the kept checkpoint if it was damaged; training must then resume from an earlier step and save it again.

        Only the main process knows the step; other processes return `None`.
        """
        if not (self.context.processes.is_main_process and (self.output / DIGESTS).exists()):
            return None
        damage = next(find_damaged(self.output), None)
        if damage is None:
            return None
        logger.warning("%s; training resumes from an earlier step.", f"{damage.path} {damage.what}")
        try:
            return read_digests(self.output)["step"]
        except DamagedFileError:
            return 0

    def _judge(self) -> Mapping[str, float]:
        config, processes = self.context.recipe.prover, self.context.processes
        problems = self.context.problems.parts["prover_heldout"]
        problems = problems.select(range(min(config.eval_problems, len(problems)))).to_list()
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        engine = self.trainer.vllm_generation if self.trainer.use_vllm else None
        sampler = self.context.players.make_sampler(model, self.trainer.processing_class, engine=engine)
        seed = self.context.seed("heldout")  # the same draws at every step, so that checkpoints are comparable
        with whole_weights(self.trainer):
            written = sample_everywhere(
                processes,
                sampler,
                self.context.problems,
                problems,
                Role.HELPFUL,
                make_rng=partial(derive_rng, seed),
                num_samples=config.eval_samples,
            )
        # (problem, sample) of `len(problems) * eval_samples` solutions, those of a problem in a row.
        rows = [
            (problem, strip_evaluation(self.context.recipe.prover, sample, sampler.tokenizer))
            for problem, samples in zip(problems, written, strict=True)
            for sample in samples
        ]
        figures = [self._figures(rows)] if processes.is_main_process else [None]
        return broadcast_object_list(figures)[0]  # saving is collective: all processes must agree

    def _figures(self, rows: list[tuple[dict[str, Any], Sample]]) -> dict[str, float]:
        config = self.context.recipe.prover
        graded = [(grade_sample(self.context.problems.task, problem, sample), sample) for problem, sample in rows]
        scores = torch.tensor(self.scorer([problem["problem"] for problem, _ in rows], [s.text for _, s in rows]))
        correct = torch.tensor([grade.correct for grade, _ in graded])
        judged = torch.tensor([outcome_of(grade, s.is_truncated) not in FAILED_OUTCOMES for grade, s in graded])
        further: dict[str, torch.Tensor] = {}
        if self.trainer.reward.is_relative:
            reward: RewardFunction = correctness_gated_convincingness
        else:
            reward = self._reward()
            further = {n: torch.tensor([grade.signal(n) for grade, _ in graded]) for n in self.trainer.reward.signals}
        sneaky = torch.zeros_like(correct)
        rewards = reward(scores, correct, sneaky, group_size=config.eval_samples, answered=judged, **further)
        right = correct & judged
        return {
            "heldout/accuracy": correct.float().mean().item(),
            "heldout/score": scores.mean().item(),
            "heldout/score_correct": scores[right].mean().item() if right.any() else None,
            "heldout/selection": rewards.mean().item(),
        }

    def _reward(self) -> RewardFunction:
        # Held-out solutions have clean labels, so that the game's own noise must not be corrected here.
        return self.trainer.role_reward if self.trainer.feedback is None else self.trainer.plain_reward

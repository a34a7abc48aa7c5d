"""Evaluates a prover during training on the prover's held-out problems, and keeps the best helpful checkpoint."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import TrainerState

from pvg_hf.core.integrity import DIGESTS, DamagedFileError, find_damaged, read_digests, write_digests
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.core.stopwatch import EVALUATING, spending
from pvg_hf.data.schema import FAILED_OUTCOMES
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.honest_solutions import heldout_scores
from pvg_hf.game.interrupt import GameInterrupted
from pvg_hf.game.labels import LabelSource
from pvg_hf.game.minting import sample_everywhere
from pvg_hf.game.training import StepFigures
from pvg_hf.rewards import RewardFunction, correctness_gated_convincingness, noise_corrected
from pvg_hf.sampling import Sample, Sampler
from pvg_hf.sampling.sampler import DISTRIBUTION, grade_samples
from pvg_hf.sampling.static_sampler import StaticSampler
from pvg_hf.tasks.base import Grade, outcome_of
from pvg_hf.trainers.common.distributed import ready_to_sample
from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer

logger = logging.getLogger(__name__)

SELECTION = "heldout/selection"  # figure by which checkpoints are compared


class BestHelpfulCallback(StepFigures):
    """
    Keeps the helpful checkpoint with the highest mean reward on held-out problems, the starting point included.

    The prover writes helpful solutions to these problems before the first step, every `evaluation_steps` and at the
    end, each time with the same random numbers. The prover that the training begins with is kept until a later one has
    a higher reward. The reward is the trainer's own, unless it is relative to the prover's group, as signed relative
    convincingness (SRC):
    that does not measure how good a group is. Checkpoints are then compared by correctness-gated convincingness (CGC):
    the verifier's score if the solution is correct, else -2.

    The trainer's scorer is the round's verifier; `is_over` says whether a rule ends the phase at the current step.
    """

    def __init__(
        self, context: PhaseContext, trainer: ProverGRPOTrainer, output: Path, *, is_over: Callable[[], bool]
    ):
        self.context = context
        self.trainer = trainer
        self.output = output
        self.is_over = is_over
        is_noisy = context.recipe.noise.is_for_prover
        self.labels = LabelSource.for_decisions(context, context.folder.root, is_noisy=is_noisy)
        self.best = float("-inf")
        self._start: Mapping[str, float | None] = {}  # figures before the first step, until they are logged
        self._sampler: Sampler | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        for entry in state.log_history:  # steps before the checkpoint that training resumes from
            for key in ("start/selection", SELECTION):
                self._improves(entry.get(key))
        if state.global_step == 0:
            start = self._judge()
            self._improves(start[SELECTION])
            self._start = {key.replace("heldout/", "start/"): value for key, value in start.items()}
            self._keep(0)
        elif self._is_due(state) and SELECTION not in state.log_history[-1]:  # a stop has cut the evaluation short
            state.log_history[-1].update(self._judge())
            if self._improves(state.log_history[-1][SELECTION]):
                self._keep(state.global_step)

    def step_figures(self, state: TrainerState) -> Mapping[str, float | None]:
        figures, self._start = self._start, {}  # in the line of the first step
        if self._is_due(state):
            # After an interruption `StopCallback` ends the training, and the evaluation is made when it resumes.
            with suppress(GameInterrupted):
                figures = {**figures, **self._judge()}
        return figures

    def _is_due(self, state: TrainerState) -> bool:
        # `is_over` is known here because the stop rule's callback comes before this one.
        is_last = state.global_step == state.max_steps or self.is_over()
        return is_last or state.global_step % self.context.recipe.prover.evaluation_steps == 0

    def on_log(self, args, state, control, logs: dict[str, Any] | None = None, **kwargs):
        super().on_log(args, state, control, logs, **kwargs)
        if logs and self._improves(logs.get(SELECTION)):
            self._keep(state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        if self.labels is not None:
            self.labels.close()

    def _improves(self, selection: float | None) -> bool:
        """Note a figure of an evaluation, and return whether it is the highest so far; `None` is never."""
        if selection is not None and selection > self.best:
            self.best = selection
            return True
        return False

    def _keep(self, step: int) -> None:
        is_main = self.context.processes.is_main_process
        # Remove the digests first: a folder without them is incomplete.
        if is_main:
            (self.output / DIGESTS).unlink(missing_ok=True)
        self.trainer.save_model(str(self.output))
        if is_main:
            write_digests(self.output, step=step)

    def lost_step(self) -> int | None:
        """
        Step of the kept checkpoint if it was damaged; training must then resume from an earlier step and save it
        again.

        Only the main process knows the step; other processes return `None`.
        """
        if not (self.context.processes.is_main_process and (self.output / DIGESTS).exists()):
            return None
        damage = next(find_damaged(self.output), None)
        if damage is None:
            return None
        logger.warning("%s; training resumes from an earlier step.", f"{damage.path} {damage.what}")
        try:
            return read_digests(self.output).step
        except DamagedFileError:
            return 0

    @spending(EVALUATING)
    def _judge(self) -> Mapping[str, float | None]:
        config, processes = self.context.recipe.prover, self.context.processes
        problems = self.context.problems.parts["prover_heldout"]
        problems = problems.take(config.eval_problems).to_list()
        sampler = self._open_sampler()
        seed = self.context.seed("heldout")  # the same draws at every step, so that checkpoints are comparable
        with ready_to_sample(self.trainer):
            written = sample_everywhere(
                self.context,
                sampler,
                problems,
                Role.HELPFUL,
                make_rng=partial(derive_rng, seed),
                num_samples=config.eval_samples,
            )
        task = self.context.problems.task
        graded = [grade for grades in grade_samples(task, problems, written) for grade in grades]
        # (problem, sample) of `len(problems) * eval_samples` solutions, those of a problem in a row.
        rows = [
            (problem, replace(sample, text=task.solution_in(sample.text)))
            for problem, samples in zip(problems, written, strict=True)
            for sample in samples
        ]
        labels = self._observe(rows, graded)  # on all processes, which may share the checker's work
        with self.context.stop.sharing():
            figures = [self._figures(rows, graded, labels)] if processes.is_main_process else [None]
        return broadcast_object_list(figures)[0]  # saving is collective: all processes must agree

    def _open_sampler(self) -> Sampler:
        """Make the sampler, or return that of the last evaluation, unless it must receive the weights again (vLLM)."""
        # A trainer's static cache is used here too, unless the training's temperature was raised.
        trainer, players = self.trainer, self.context.players
        distribution = {name: players.sampler_settings[name] for name in DISTRIBUTION}
        if isinstance(trainer.sampler, StaticSampler) and trainer.sampler.distribution == distribution:
            return trainer.sampler
        if self._sampler is None or trainer.use_vllm:
            model = trainer.accelerator.unwrap_model(trainer.model)
            engine = trainer.vllm_generation if trainer.use_vllm else None
            choices = {"is_sharded": trainer.is_sharded, "leaves_room": True}
            self._sampler = players.make_sampler(model, trainer.processing_class, engine=engine, **choices)
        return self._sampler

    def _observe(self, rows: list[tuple[dict[str, Any], Sample]], graded: list[Grade]) -> list[int | None]:
        """Return the label of each solution that decides; `None` if the checker abstained."""
        if self.labels is None:
            return [grade.label for grade in graded]
        asked = [
            {
                **problem,
                "solution": sample.text,
                "correct": grade.correct,
                "outcome": outcome_of(grade, sample.is_truncated).value,
            }
            for (problem, sample), grade in zip(rows, graded, strict=True)
        ]
        return self.labels.observed(asked, self.trainer.state.global_step)

    def _figures(
        self, rows: list[tuple[dict[str, Any], Sample]], graded: list[Grade], labels: list[int | None]
    ) -> dict[str, float | None]:
        scores = torch.tensor(
            self.trainer.scorer([problem["problem"] for problem, _ in rows], [s.text for _, s in rows])
        )
        correct = torch.tensor([grade.correct for grade in graded])
        outcomes = [outcome_of(grade, sample.is_truncated) for grade, (_, sample) in zip(graded, rows, strict=True)]
        judged = torch.tensor([outcome not in FAILED_OUTCOMES for outcome in outcomes])
        observed = torch.tensor([label == 1 for label in labels])
        further = {name: torch.tensor([grade.signal(name) for grade in graded]) for name in self._signals}
        rewards = self._reward(
            scores,
            observed,
            torch.zeros_like(correct),
            group_size=self.context.recipe.prover.eval_samples,
            answered=judged,
            **further,
        )
        has_label = torch.tensor([label is not None for label in labels])
        figures = {
            "heldout/accuracy": correct.float().mean().item(),
            "heldout/score": scores.mean().item(),
            **self._correct_scores("heldout/score_correct", rows, scores, correct & judged),
            SELECTION: _mean(rewards[has_label]),
        }
        if self.labels is not None:
            figures |= self._correct_scores("heldout/score_observed_correct", rows, scores, observed & judged)
        return figures

    @staticmethod
    def _correct_scores(
        key: str, rows: list[tuple[dict[str, Any], Sample]], scores: torch.Tensor, chosen: torch.Tensor
    ) -> dict[str, float | None]:
        problem_ids = [problem["problem_id"] for (problem, _), is_chosen in zip(rows, chosen) if is_chosen]
        return heldout_scores(key, scores[chosen].tolist(), problem_ids)

    @property
    def _signals(self) -> tuple[str, ...]:
        return () if self.trainer.reward.is_relative else tuple(self.trainer.reward.signals)

    @property
    def _reward(self) -> RewardFunction:
        trainer, args = self.trainer, self.trainer.args
        # Clean labels must not be corrected for the game's own noise. Without feedback, it is the grader that errs.
        is_corrected = args.reward_correction != "none" and (trainer.feedback is None or self.labels is not None)
        if not trainer.reward.is_relative:
            return trainer.role_reward if is_corrected else trainer.plain_reward
        cgc: RewardFunction = correctness_gated_convincingness
        return noise_corrected(cgc, args.rho0, args.rho1) if is_corrected and self.labels is not None else cgc


def _mean(values: torch.Tensor) -> float | None:
    return values.mean().item() if len(values) else None

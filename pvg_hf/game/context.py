"""The context of a phase: recipe, run, players, problems, seeds, and where metrics and events are recorded."""

import gc
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker
from transformers import PreTrainedModel

from pvg_hf.config import Recipe
from pvg_hf.core.afterwards import only_warning
from pvg_hf.core.commands import delete_command
from pvg_hf.core.disk_names import round_name
from pvg_hf.core.files import write_json
from pvg_hf.core.integrity import read_json
from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.models.adapters import share_base
from pvg_hf.models.hardware import Hardware, join_processes
from pvg_hf.models.prover_model import load_prover, merge_adapter
from pvg_hf.models.sources import is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_verifier
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import PhaseKey, RunFolder
from pvg_hf.run.phase_record import PhaseAlert
from pvg_hf.run.stored import TrackedRun
from pvg_hf.sampling import Sampler
from pvg_hf.sampling.engines import ContinuousSampler, VllmSampler, open_sampler
from pvg_hf.sampling.sampler import DISTRIBUTION
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.trainers.arguments import TrainerRun, prover_arguments

if TYPE_CHECKING:
    from trl.generation.vllm_generation import VLLMGeneration


@dataclass(frozen=True)
class PlayerLoader:
    """Loads the players of a run: provers as samplers, verifiers as scorers."""

    recipe: Recipe
    folder: RunFolder

    @cached_property
    def processes(self) -> PartialState:
        return join_processes(self.recipe.device)

    @cached_property
    def hardware(self) -> Hardware:
        return Hardware.here(self.recipe.device)

    def initial_model(self, player: str) -> tuple[str, str | None]:
        """Folder or Hub id, and revision, of a player's initial weights."""
        config = self.recipe.player(player)
        if config.is_made:
            return str(self.folder.models / player), None
        return resolve_model(config.model, player), config.revision

    def dtype(self, player: str, *, is_precise: bool = False, is_trained: bool = False) -> torch.dtype:
        """Data type of a player's weights, see [`~pvg_hf.models.hardware.Hardware.dtype`]."""
        return self.hardware.dtype(self.recipe.player(player).dtype, is_precise=is_precise, is_trained=is_trained)

    def sampler(
        self,
        source: str | Path,
        *,
        revision: str | None = None,
        quantization: str = "none",
        base_owner: VerifierScorer | GenerativeVerifier | None = None,
    ) -> Sampler:
        """
        Load the prover at `source` as a sampler. With `verifier.shares_base`, it shares the base model of
        `base_owner`.
        """
        gc.collect()  # a compiled prover that is not used any more refers to itself, and to its cache
        dtype = self.dtype("prover")
        model, tokenizer = load_prover(source, revision=revision, dtype=dtype, quantization=quantization)
        if base_owner is None or not self.recipe.verifier.shares_base:
            model = merge_adapter(model)  # merged weights sample faster, but cannot share the base
        else:
            share_base(model, base_owner.model)
        return self.make_sampler(model.to(self.processes.device), tokenizer)

    def base_sampler(self, *, base_owner: VerifierScorer | GenerativeVerifier | None = None) -> Sampler:
        """Load the base prover as a sampler."""
        source, revision = self.initial_model("prover")
        quantization = self.recipe.prover.quantization
        return self.sampler(source, revision=revision, quantization=quantization, base_owner=base_owner)

    def role_sampler(
        self, role: Role, round_index: int, *, base_owner: VerifierScorer | GenerativeVerifier | None = None
    ) -> Sampler:
        """Load a round's prover for `role` as a sampler; the base prover if this role is not trained."""
        config, folder = self.recipe.prover, self.folder.prover(round_index)
        if role not in config.trained_roles:
            return self.base_sampler(base_owner=base_owner)
        if not config.is_separate:
            return self.sampler(folder, base_owner=base_owner)
        assert is_adapter(folder / role)
        return self.sampler(folder / role, base_owner=base_owner)

    def make_sampler(self, model, tokenizer, *, engine: "VLLMGeneration | None" = None, **choices: bool) -> Sampler:
        """
        Make a sampler of a loaded prover with the recipe's settings.

        If the recipe uses vLLM and the prover is trained with no `engine`, one is started. The `choices` are
        `is_sharded` and `leaves_room`, as for [`~pvg_hf.sampling.engines.open_sampler`].
        """
        generation = self.recipe.prover.generation
        if generation == "continuous":
            return ContinuousSampler(model, tokenizer, **self.sampler_settings)
        if generation.startswith("vllm_"):
            engine = engine or self._start_vllm(model, tokenizer)
            return VllmSampler(model, tokenizer, engine=engine, **self.sampler_settings)
        return open_sampler(model, tokenizer, **choices, **self.sampler_settings)

    def trainer_run(self, output: Path, seed: int) -> TrainerRun:
        """Settings for running a trainer with checkpoints in `output`."""
        return TrainerRun(output, self.hardware, seed, show_progress=shows_progress(self.recipe.logging))

    @property
    def sampler_settings(self) -> dict[str, Any]:
        """Settings of the recipe for any [`~pvg_hf.sampling.Sampler`]."""
        config = self.recipe.prover
        return {
            "max_new_tokens": config.max_completion_length,
            "prompts_per_batch": self.recipe.mint.problems_per_batch,
            **{name: getattr(config, name) for name in DISTRIBUTION},
        }

    def _start_vllm(self, model, tokenizer) -> "VLLMGeneration":
        """Start a vLLM engine with the same settings as the trainer's."""
        from trl.generation.vllm_generation import VLLMGeneration

        args = prover_arguments(self.recipe, TrainerRun(self.folder.root, self.hardware))
        assert not isinstance(args.generation_kwargs, str)  # the configuration has parsed it
        return VLLMGeneration(
            model,
            Accelerator(),
            tokenizer,
            mode=args.vllm_mode,
            structured_outputs_regex=args.vllm_structured_outputs_regex,
            server_base_url=args.vllm_server_base_url,
            server_host=args.vllm_server_host,
            server_port=args.vllm_server_port,
            group_port=args.vllm_group_port,
            server_timeout=args.vllm_server_timeout,
            tensor_parallel_size=args.vllm_tensor_parallel_size,
            gpu_memory_utilization=args.vllm_gpu_memory_utilization,
            max_model_length=args.vllm_max_model_length,
            enable_sleep_mode=args.vllm_enable_sleep_mode,
            model_impl=args.vllm_model_impl,
            **{name: getattr(args, name) for name in DISTRIBUTION},
            max_completion_length=self.recipe.prover.max_completion_length,
            generation_kwargs=args.generation_kwargs,
        )

    def pair_verifier(self, folder: Path, *, base_owner: PreTrainedModel | None = None) -> VerifierScorer:
        """
        Load a verifier that was trained on pairs. With `verifier.shares_base`, it shares the base model of
        `base_owner`.
        """
        model, tokenizer = load_verifier(folder, dtype=self.dtype("verifier", is_precise=True))
        if base_owner is not None and self.recipe.verifier.shares_base:
            share_base(model, base_owner)
        return VerifierScorer(
            model.to(self.processes.device),
            tokenizer,
            VerifierInput.load(folder),
            tokens_per_batch=self.recipe.verifier.tokens_per_batch,
        )

    def score_verifier(self, source: str | Path, *, revision: str | None = None) -> GenerativeVerifier:
        """Load a generative verifier, trained or not, with the recipe's scoring settings."""
        config = self.recipe.verifier
        dtype = self.dtype("verifier", is_precise=True)
        model, tokenizer = load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)
        return GenerativeVerifier(
            merge_adapter(model).to(self.processes.device),
            tokenizer,
            config.score_settings.prompts_for(source, revision),
            num_analyses=config.score_settings.num_analyses,
            estimate=config.score_settings.estimate,
            seed=self.recipe.seed,
            show_progress=self.processes.is_main_process and shows_progress(self.recipe.logging),
        )

    def scorer(
        self, round_index: int, *, base_owner: PreTrainedModel | None = None
    ) -> VerifierScorer | GenerativeVerifier:
        """
        Load a round's verifier as a scorer. With `verifier.shares_base`, it shares the base model of `base_owner`.
        """
        kind = self.recipe.verifier.implementation()
        return kind.open(self, self.folder.verifier(round_index), base_owner=base_owner)

    def last_verifier(self, round_index: int) -> Path | None:
        """Return the folder of the previous round's verifier, if this round's verifier starts from it."""
        if self.recipe.verifier.init == "full" or round_index == 0:
            return None
        return self.folder.verifier(round_index - 1)

    def verifier_source(self, round_index: int) -> tuple[str, str | None]:
        """Weights that a round's generative verifier starts from: the initial ones, or the last round's."""
        last = self.last_verifier(round_index)
        return self.initial_model("verifier") if last is None else (str(last), None)


@dataclass(frozen=True)
class GameTracker:
    """Trackers of a game. One that fails after its start only causes warnings: the run's folder has all figures."""

    trackers: list[GeneralTracker] = field(default_factory=list)

    def log(self, values: Mapping[str, Any], *, game_step: int) -> None:
        """Log the numbers in `values` at a step of the game's continuous step axis."""
        figures = {key: value for key, value in values.items() if isinstance(value, int | float)}
        for tracker in self.trackers:
            with only_warning(f"{tracker.name} did not take the figures of step {game_step}; the game continues"):
                tracker.log(figures, step=game_step)


@contextmanager
def open_tracker(recipe: Recipe, folder: RunFolder) -> Iterator[GameTracker]:
    """
    Open or resume the game's tracker run. Only the main process logs; steps that a resumed game repeats are logged
    again.
    """
    if not PartialState().is_main_process:
        yield GameTracker()
        return
    trackers = [_make(name, recipe, folder) for name in recipe.logging.report_to]
    try:
        yield GameTracker(trackers)
    finally:
        for tracker in trackers:
            with only_warning(f"{tracker.name} could not be closed; the run's folder has all figures"):
                tracker.finish()


def _make(name: str, recipe: Recipe, folder: RunFolder) -> GeneralTracker:
    run_id = _run_id(folder)
    settings: dict[str, dict[str, Any]] = {
        "trackio": {"name": f"{recipe.name}-{run_id}", "resume": "allow"},
        "wandb": {"name": recipe.name, "id": run_id, "resume": "allow", "dir": str(folder.root)},
        "tensorboard": {"logging_dir": str(folder.root / "tensorboard")},
    }
    project = "" if name == "tensorboard" else recipe.logging.project
    tracker = LOGGER_TYPE_TO_CLASS[name](project, **settings[name])
    tracker.start()
    return tracker


def _run_id(folder: RunFolder) -> str:
    # Random, because two games may have the same name, and stored for when the game is resumed.
    kept = folder.root / "tracking.json"
    if not kept.exists():
        write_json(kept, {"id": secrets.token_hex(4)})
    remedy = f"Delete it by `{delete_command(kept)}`: the trackers then start another run, and the game continues."
    return read_json(kept, TrackedRun, remedy=remedy).id


@dataclass
class PhaseContext:
    """
    Context of a phase: the round's recipe, the run's folder, the problems, and where figures are recorded.

    `steps` is the phase's range on the game's continuous step axis. The phase appends to `metrics`, its lines of
    `metrics.jsonl`.
    """

    recipe: Recipe
    folder: RunFolder
    phase: PhaseKey
    problems: GameProblems
    stop: StopRequest
    steps: range = range(0)
    tracker: GameTracker = field(default_factory=GameTracker)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def players(self) -> PlayerLoader:
        return PlayerLoader(self.recipe, self.folder)

    @property
    def processes(self) -> PartialState:
        return self.players.processes

    @property
    def round_index(self) -> int:
        assert self.phase.round_index is not None
        return self.phase.round_index

    def seed(self, *path: object) -> int:
        """Derive a seed of this phase from a path of names."""
        return derive_seed(self.recipe.seed, *self.seed_path, *path)

    @property
    def seed_path(self) -> tuple[str, ...]:
        if self.phase.round_index is None:
            return (self.phase.name,)
        return (round_name(self.phase.round_index), self.phase.name)

    def record(self, values: Mapping[str, Any], *, step: int | None = None, is_tracked: bool = False) -> None:
        """
        Add a line to the run's metrics, and send it to the tracker unless `is_tracked`.

        Without a step, the line belongs to the phase's end.
        """
        game_step = self._game_step(step)
        self.metrics.append({"game_step": game_step, **self.phase.fields, "step": step, **values})
        if not is_tracked:
            self.track(values, step=step)

    def track(self, values: Mapping[str, Any], *, step: int | None = None) -> None:
        """Send values only to the tracker."""
        self.tracker.log(values, game_step=self._game_step(step))

    def _game_step(self, step: int | None) -> int:
        return self.steps.stop if step is None else self.steps.start + step

    def event(self, event: str, **fields: Any) -> None:
        """Add a line of this phase to the run's event log."""
        if self.processes.is_main_process:
            self.folder.log_event(event, **self.phase.fields, **fields)

    def alert(self, kind: str, message: str) -> None:
        """Report a problem that does not stop the game; a resumed phase does not report it again."""
        fields = {**self.phase.fields, "kind": kind, "message": message}
        if self.processes.is_main_process and not self.folder.has_event("alert", **fields):
            self.folder.log_event("alert", **fields)

    def alerts(self) -> list[PhaseAlert]:
        """Alerts of this phase and its earlier starts; those about the Hub are left out."""
        found = self.folder.find_events("alert", **self.phase.fields)
        return [PhaseAlert(one["kind"], one["message"], one.get("time")) for one in found if one["kind"] != "hub"]


class GameCallback:
    """Base class of callbacks for [`play`]; a subclass may override any of its methods."""

    def on_phase_begin(self, context: PhaseContext) -> None:
        """Called before a phase is played, on every process."""

    def on_phase_end(self, context: PhaseContext) -> None:
        """Called after a phase's results appeared in the run's folder."""

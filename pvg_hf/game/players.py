"""Loads the players of a run onto the device that its recipe selects."""

import gc
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator, PartialState
from transformers import PreTrainedModel

from pvg_hf.config import Recipe
from pvg_hf.core.roles import Role
from pvg_hf.models.adapters import share_base
from pvg_hf.models.hardware import Hardware, join_processes
from pvg_hf.models.prover_model import load_prover, merge_adapter
from pvg_hf.models.sources import is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_verifier
from pvg_hf.run.console import shows_progress
from pvg_hf.run.layout import RunFolder
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

    def dtype(self, player: str, *, is_precise: bool) -> torch.dtype:
        """Data type of a player's weights; `is_precise` is for fully fine-tuned weights, and for scores."""
        return self.hardware.dtype(self.recipe.player(player).dtype, is_precise=is_precise)

    def sampler(
        self,
        source: str | Path,
        *,
        revision: str | None = None,
        quantization: str = "none",
        base_owner: VerifierScorer | GenerativeVerifier | None = None,
    ) -> Sampler:
        """Load the prover at `source` as a sampler. With `verifier.shares_base`, it shares the base model of `base_owner`."""
        gc.collect()  # a compiled prover that is not used any more refers to itself, and to its cache
        dtype = self.dtype("prover", is_precise=False)
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

        Args:
            engine ([`~trl.generation.vllm_generation.VLLMGeneration`], *optional*):
                Engine that the prover is trained with. If the recipe uses vLLM and there is none, one is started.
            choices:
                `is_sharded` and `leaves_room`, as for [`~pvg_hf.sampling.engines.open_sampler`].
        """
        generation = self.recipe.prover.generation
        if generation == "continuous":
            return ContinuousSampler(model, tokenizer, **self.sampler_settings)
        if generation.startswith("vllm_"):
            engine = engine or self._start_vllm(model, tokenizer)
            return VllmSampler(model, tokenizer, engine=engine, **self.sampler_settings)
        return open_sampler(model, tokenizer, **choices, **self.sampler_settings)

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
        """Load a verifier that was trained on pairs. With `verifier.shares_base`, it shares the base model of `base_owner`."""
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
            show_progress=self.processes.is_main_process and shows_progress(self.recipe),
        )

    def scorer(
        self, round_index: int, *, base_owner: PreTrainedModel | None = None
    ) -> VerifierScorer | GenerativeVerifier:
        """Load a round's verifier as a scorer. With `verifier.shares_base`, it shares the base model of `base_owner`."""
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

"""The verifier phase: trains the round's verifier, of any kind, on a mixture of all solutions so far."""

from pathlib import Path
from typing import Protocol

from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import PreTrainedModel

from pvg_hf.check.verifier_settings import LikelihoodChecks, PairChecks, ScoreChecks, VerifierChecks
from pvg_hf.check.verifiers import LikelihoodCosts, PairCosts, ScoreCosts, VerifierCosts
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.label_rates import Rates, label_rates
from pvg_hf.data.pairs.build import PairReport, TooFewPairsError, round_pairs
from pvg_hf.game.assumed_rates import NoiseScheduleCallback, verifier_rates
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.heldout import read_heldout, score_heldout
from pvg_hf.game.players import PlayerLoader
from pvg_hf.game.proof_evaluations import label_new_proofs, open_meta_verifier, record_test_evaluations
from pvg_hf.game.training import run_trainer, save_player, trainer_run
from pvg_hf.game.training_data import heldout_proofs, tokenize_pairs, training_proofs
from pvg_hf.models.adapters import load_adapter_weights
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier, load_verifier, lora_for_verifier
from pvg_hf.run.layout import CHECKPOINTS, PAIRS, VALIDATION
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.trainers.arguments import score_arguments, verifier_arguments
from pvg_hf.trainers.common.step_checks import FiniteLossCallback
from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

FEW_PROBLEMS = 20  # held-out problems; with fewer, possibly none of them has a pair


def run_verifier(context: PhaseContext, output: Path) -> str:
    """Write the verifier with its tokenizer, input format and calibration, and its scores of held-out solutions."""
    return context.recipe.verifier.implementation().train(context, output)


class VerifierKind(VerifierCosts, VerifierChecks, Protocol):
    """
    A kind of verifier: everything that pvg_hf asks of it, besides its `VerifierTraits`, which name the class.

    How it is trained, loaded, stored and evaluated is here; [`VerifierCosts`] says what its training and scores take, and
    [`VerifierChecks`] which settings fit it.
    """

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the round's verifier and its scores of held-out solutions, and return the phase's one-line summary."""

    def open(
        self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None
    ) -> VerifierScorer | GenerativeVerifier:
        """Load the verifier in `folder` as a scorer. With `verifier.shares_base`, it shares the base model of `base_owner`."""

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """Copy settings stored with the model at `source`, such as prompts, to the folder of its fine-tuned weights."""

    def label_solutions(
        self, context: PhaseContext, scorer: VerifierScorer | GenerativeVerifier, output: Path
    ) -> dict[str, float | None]:
        """Label the new solutions in `output`, and return figures on the labels; empty if the kind assigns no labels."""

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        """Figures of a round that only this kind has."""


class PairVerifier(PairCosts, PairChecks):
    """A verifier that is trained on pairs: a language model with a score head."""

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the verifier with its tokenizer, input template and calibration, and its scores of held-out solutions."""
        config = context.recipe.verifier
        source, revision = context.players.initial_model("verifier")
        tokenizer = load_tokenizer(source, revision)
        verifier_input = VerifierInput.of(config, tokenizer.eos_token)
        files = context.folder.training_pools(context.round_index)
        pairs, report = round_pairs(context.recipe, files, context.round_index, "verifier")
        _check_number(context, report)
        heldout_pairs, heldout_report = _heldout_pairs(context)
        heldout = read_heldout(context, heldout_pairs)
        assumed = verifier_rates(context)
        model = _initial_pair_verifier(context.players, context.round_index, verifier_input)
        trainer = NoisyRewardTrainer(
            model=model,
            args=_pair_arguments(context, output / CHECKPOINTS, assumed.rates),
            train_dataset=tokenize_pairs(pairs, tokenizer, verifier_input),
            processing_class=tokenizer,
            verifier_input=verifier_input,
            peft_config=_new_adapter(config, model, revision),
            callbacks=[FiniteLossCallback(), *_noise_callbacks(context.recipe)],
        )
        is_continued = (
            config.init == "warm" and context.round_index > 0
        )  # the last round's verifier is trained further
        if config.traits.has_score_head and config.head == "new" and not is_continued:
            # The same in every round, so that all rounds have the same initial weights (Kirchner et al. 2024).
            assert isinstance(trainer.model, PreTrainedModel | PeftModel)
            draw_head(trainer.model, derive_seed(context.recipe.seed, "verifier", "head"))
        run_trainer(context, trainer, prefix="verifier")
        counts = {
            **report.as_metrics(),
            **heldout_report.as_metrics("heldout_pairs"),
            "pairs/over_max_length": trainer.num_filtered_pairs["train"],
        }
        context.record({**counts, **assumed.figures})
        if context.processes.is_main_process:
            write_json(output / PAIRS, counts)
        save_player(trainer, output, player="verifier", run=context.folder.root)
        line = score_heldout(context, context.players.pair_verifier(output), output, heldout)
        return f"{assumed.line}{report.num_pairs} pairs, {line}"

    def open(self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None) -> VerifierScorer:
        return players.pair_verifier(folder, base_owner=base_owner)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """Store nothing: the input template comes from the recipe and is saved with the trained verifier."""

    def label_solutions(self, context: PhaseContext, scorer: VerifierScorer, output: Path) -> dict[str, float | None]:
        return {}  # the task itself labels solutions

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return {}


class LikelihoodVerifier(LikelihoodCosts, LikelihoodChecks, PairVerifier):
    """A verifier that is trained on pairs, and scores by likelihood."""


def _check_number(context: PhaseContext, report: PairReport) -> None:
    least = context.recipe.watchdogs.least_pairs(len(context.problems.parts["verifier"]))
    if report.num_pairs < least:
        raise TooFewPairsError(report, f" A verifier needs {least} pairs (`watchdogs.min_pairs`).")


def _pair_arguments(context: PhaseContext, output: Path, assumed: Rates) -> NoisyRewardConfig:
    recipe = context.recipe
    return verifier_arguments(
        recipe,
        trainer_run(context, output),
        label_rates=label_rates(recipe, context.round_index, "verifier", context.problems.parts["verifier"]),
        assumed_rates=assumed,
        # With `resample: fixed`, flips must be the same in all rounds, and the same as those of the pool's labels.
        noise_seed=recipe.seed if recipe.noise.resample == "fixed" else context.seed("noise"),
    )


def _noise_callbacks(recipe: Recipe) -> list[NoiseScheduleCallback]:
    if not (recipe.noise.is_for_verifier and recipe.noise.is_by_step):
        return []
    # Soft labels of pairs are label smoothing: it uses the assumed rates, and flips no labels.
    is_smoothing = recipe.noise.soft_labels and recipe.verifier.loss == "bradley_terry"
    sets_assumed = recipe.rates.source == "noise"
    return [NoiseScheduleCallback(recipe.noise, sets_injected=not is_smoothing, sets_assumed=sets_assumed)]


def _heldout_pairs(context: PhaseContext) -> tuple[Dataset, PairReport]:
    """Build the held-out pairs. This happens before the training, so that an empty set fails early."""
    files = context.folder.training_pools(context.round_index)
    try:
        return round_pairs(context.recipe, files, context.round_index, "verifier_heldout")
    except TooFewPairsError as err:
        num_problems = len(context.problems.parts["verifier_heldout"])
        more = (
            f" It has {num_problems} problems; use more (`task`), or raise `split.heldout_share`."
            if num_problems < FEW_PROBLEMS
            else ""
        )
        raise ValueError(f"The verifier cannot be evaluated on D_V's held-out part: {err}{more}") from err


def _initial_pair_verifier(players: PlayerLoader, round_index: int, verifier_input: VerifierInput):
    """Weights that the round starts from: the initial ones (Kirchner et al. 2024), or the last round's."""
    config = players.recipe.verifier
    dtype = players.dtype("verifier", is_precise=config.lora is None)
    last = players.last_verifier(round_index)
    if last is None:
        source, revision = players.initial_model("verifier")
        return load_initial_verifier(
            source,
            revision=revision,
            dtype=dtype,
            quantization=config.quantization,
            likelihood_scale=verifier_input.likelihood_scale,
        )
    model, _ = load_verifier(last, dtype=dtype, is_trainable=True)
    return model


def _new_adapter(config: VerifierConfig, model, revision: str | None) -> LoraConfig | None:
    """Configuration of a new adapter; `None` if there is none, or the last round's adapter is trained further."""
    if config.lora is None or isinstance(model, PeftModel):
        return None
    return lora_for_verifier(config.lora, model, revision)


class ScoreVerifier(ScoreCosts, ScoreChecks):
    """A language model that writes an analysis and predicts a score, trained on single proofs."""

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the verifier with its tokenizer, prompts and calibration, and its scores of held-out proofs."""
        config, players, round_index = context.recipe.verifier, context.players, context.round_index
        heldout = read_heldout(context, _heldout_pairs(context)[0])
        initial, revision = players.initial_model("verifier")
        prompts = config.score_settings.prompts_for(*players.verifier_source(round_index))
        args = score_arguments(config, trainer_run(context, output / CHECKPOINTS), prompts)
        model, tokenizer = _initial_score_verifier(players, round_index)
        model.config._name_or_path = initial  # TRL loads the KL reference from here
        trainer = ScoreVerifierTrainer(
            model,
            args=args,
            train_dataset=training_proofs(context),
            eval_dataset=heldout_proofs(context),
            meta_verifier=open_meta_verifier(players, round_index, context.problems.task),
            processing_class=tokenizer,
            peft_config=lora_for_prover(config.lora, revision) if config.lora else None,
            callbacks=[FiniteLossCallback()],
        )
        if config.lora and (last := players.last_verifier(round_index)):
            assert isinstance(trainer.model, PeftModel)
            load_adapter_weights(trainer.model, last)  # a fresh one, so that the KL reference is the initial verifier
        run_trainer(context, trainer, prefix="verifier")
        rewards = {
            str(line["step"]): line["eval_reward"] for line in trainer.state.log_history if "eval_reward" in line
        }
        best = max(rewards.values())
        context.record({"verifier/best_validation_reward": best})
        if context.processes.is_main_process:
            write_json(output / VALIDATION, rewards)
        save_player(trainer, output, player="verifier", run=context.folder.root)
        line = score_heldout(context, players.score_verifier(output), output, heldout)
        return f"validation reward {best:.3f} at its best, {line}"

    def open(self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None) -> GenerativeVerifier:
        return players.score_verifier(folder)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        config.score_settings.prompts_for(source, config.revision).save(output)

    def label_solutions(
        self, context: PhaseContext, scorer: GenerativeVerifier, output: Path
    ) -> dict[str, float | None]:
        if context.recipe.verifier.score_settings.labels != "auto":
            return {}
        return label_new_proofs(context, scorer, output)

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return record_test_evaluations(context, output)


def _initial_score_verifier(players: PlayerLoader, round_index: int):
    """Weights (without an adapter) that the round starts from, and their tokenizer."""
    config = players.recipe.verifier
    source, revision = players.initial_model("verifier") if config.lora else players.verifier_source(round_index)
    dtype = players.dtype("verifier", is_precise=config.lora is None)
    return load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)

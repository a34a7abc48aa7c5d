"""The verifier phase for `kind: score`: trains a generative verifier on all proofs so far, and keeps its best checkpoint."""

from pathlib import Path

from pvg_hf.core.files import write_json
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.heldout import read_heldout, score_heldout
from pvg_hf.game.phases.verifier import heldout_pairs_of
from pvg_hf.game.players import PlayerLoader
from pvg_hf.game.proof_evaluations import open_meta_verifier
from pvg_hf.game.training import finish_player, run_trainer, trainer_run
from pvg_hf.game.training_data import heldout_proofs, training_proofs
from pvg_hf.models.adapters import load_adapter_weights
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.run.file_names import CHECKPOINTS, VALIDATION
from pvg_hf.trainers.arguments import score_arguments
from pvg_hf.trainers.common.finite_loss import FiniteLossCallback
from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer


def train_score_verifier(context: PhaseContext, output: Path) -> str:
    """Write the verifier with its tokenizer, prompts and calibration, and its scores of held-out proofs."""
    config, players, round_index = context.recipe.verifier, context.players, context.round_index
    heldout = read_heldout(context, heldout_pairs_of(context)[0])
    initial, revision = players.initial_model("verifier")
    prompts = config.score_settings.prompts_for(*players.verifier_source(round_index))
    args = score_arguments(config, trainer_run(context, output / CHECKPOINTS), prompts)
    model, tokenizer = _starting_verifier(players, round_index)
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
        load_adapter_weights(trainer.model, last)  # into a fresh one, so that the KL reference is the initial verifier
    run_trainer(context, trainer, prefix="verifier")
    rewards = {str(line["step"]): line["eval_reward"] for line in trainer.state.log_history if "eval_reward" in line}
    best = max(rewards.values())
    context.record({"verifier/best_validation_reward": best})
    if context.processes.is_main_process:
        write_json(output / VALIDATION, rewards)
    finish_player(trainer, output, player="verifier", run=context.folder.root)
    return f"validation reward {best:.3f} at its best, " + score_heldout(
        context, players.score_verifier(output), output, heldout
    )


def _starting_verifier(players: PlayerLoader, round_index: int):
    """Weights (without an adapter) that the round starts from, and their tokenizer."""
    config = players.recipe.verifier
    source, revision = players.initial_model("verifier") if config.lora else players.verifier_source(round_index)
    dtype = players.dtype("verifier", is_precise=config.lora is None)
    return load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)

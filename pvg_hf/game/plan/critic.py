"""How large PPO's critic is, and what it adds to a prover phase."""

from dataclasses import replace

from pvg_hf.config.sections import ProverConfig, VerifierConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.players import LORA_BYTES, PlayerSize, read_player_size
from pvg_hf.trainers.critic_structures import ADAPTER, VERIFIER


def stands_on_prover(config: ProverConfig) -> bool:
    """Whether the critic is an adapter and a head on the prover's base, be it by default."""
    critic = config.ppo_settings.critic
    return critic == ADAPTER or (critic is None and config.lora is not None)


def read_critic_size(context: PhaseContext) -> PlayerSize | None:
    """
    As [`read_player_size`]; a critic that is no adapter is trained whole, in float32.

    Returns:
        [`PlayerSize`], or `None` if its configuration is not on this machine.
    """
    recipe = context.recipe
    if stands_on_prover(recipe.prover):
        return read_player_size(context, "prover")
    whole = {"lora": None, "quantization": "none", "dtype": "float32"}
    critic = recipe.prover.ppo_settings.critic
    if critic is None:
        own = replace(recipe, prover=replace(recipe.prover, **whole))
        return read_player_size(replace(context, recipe=own), "prover")
    if critic == VERIFIER:
        own = replace(recipe, verifier=replace(recipe.verifier, **whole, shares_base=False))
    else:
        own = replace(recipe, verifier=VerifierConfig(model=critic, **whole))
    return read_player_size(replace(context, recipe=own), "verifier")


def critic_bytes(config: ProverConfig, size: PlayerSize) -> float:
    """Of its weights, gradients and Adam's averages; the prover's base is counted with the prover."""
    return size.num_trained * 4 * LORA_BYTES if stands_on_prover(config) else size.training_bytes

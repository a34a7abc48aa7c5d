"""Whether PPO can have the critic that the recipe names."""

from collections.abc import Iterator
from functools import partial

from pvg_hf.config.sections import VerifierConfig
from pvg_hf.game.context import PhaseContext
from pvg_hf.game.plan.critic import read_critic_size
from pvg_hf.game.plan.lengths import find_tokenizer
from pvg_hf.game.plan.player_checks import check_source
from pvg_hf.game.plan.refusals import refusals
from pvg_hf.trainers.critic_structures import ADAPTER, VERIFIER, check_same_tokens


def check_critic(context: PhaseContext) -> Iterator[str]:
    """The mistakes of `prover.ppo.critic`, as far as they can be known before the models are loaded."""
    config, verifier = context.recipe.prover, context.recipe.verifier
    if config.algorithm != "ppo":
        return
    critic = config.ppo_settings.critic
    where = f"`prover.ppo.critic` is `{critic}`"
    if critic == ADAPTER and config.lora is None:
        yield f"{where}, which stands on the prover's frozen base: add adapters (`prover.lora: {{}}`), or name another."
        return
    if critic in (None, ADAPTER):
        return
    if critic == VERIFIER and verifier.kind == "score":
        yield f"{where}, which needs `verifier.kind: bradley_terry`; take `adapter`, or name a model."
        return
    if critic == VERIFIER and verifier.quantization != "none":
        yield (
            f"{where}, and `verifier.quantization` is `{verifier.quantization}`: weights in 4 bits cannot be trained as a "
            "critic. Take `adapter`, or name a model."
        )
    own = verifier if critic == VERIFIER else VerifierConfig(model=critic)
    mistakes = [] if critic == VERIFIER else list(check_source(own, "verifier", where))
    if not mistakes:
        mistakes = refusals(where, partial(read_critic_size, context))
    yield from mistakes or _check_tokens(context, own, where)


def _check_tokens(context: PhaseContext, own: VerifierConfig, where: str) -> Iterator[str]:
    """Where either tokenizer is not on this machine, or yet to be trained, the phase itself will see."""
    mine, provers = (
        find_tokenizer(context, own, "verifier"),
        find_tokenizer(context, context.recipe.prover, "prover"),
    )
    if mine is not None and provers is not None:
        yield from refusals(where, partial(check_same_tokens, mine, provers, "critic"))

"""
Checks that the players can be loaded or made as the recipe says, and that their tokenizers cover the task's texts.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from huggingface_hub.utils import validate_repo_id
from peft.tuners.tuners_utils import BaseTuner, BaseTunerLayer
from transformers import PreTrainedTokenizerBase

from pvg_hf.check.player_sizes import (
    find_config,
    find_tokenizer,
    read_adapted_player,
    read_player_size,
    tokenizer_source,
)
from pvg_hf.check.refusals import refusals
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import PlayerConfig, ProverConfig, VerifierConfig
from pvg_hf.core.hub_access import find_refusal
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems, recipe_prompts
from pvg_hf.models.adapters import has_tied_adapter
from pvg_hf.models.from_config import scratch_mistakes
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.quantization import check_quantization
from pvg_hf.models.score_head import count_logits, is_sequence_classifier
from pvg_hf.models.sources import PACKAGED, is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.vocabulary import describe_lost

Texts = tuple[str, str]  # a problem and its reference

NUM_PROBLEMS = 20  # of the verifier (D_V), evenly spread, whose texts a tokenizer must cover


def check_tokenizer(recipe: Recipe, player: str, problems: GameProblems | None) -> Iterator[str]:
    """
    List mistakes of a player's tokenizer; of one that the game trains on the task's texts, only that it cannot
    suffice.
    """
    config, verifier = recipe.player(player), recipe.verifier
    rows = [] if problems is None else problems.sample("verifier", NUM_PROBLEMS)
    texts = [(row["problem"], row["reference"]) for row in rows]
    learns_from_pairs = player == "verifier" and verifier.traits.learns_from_pairs
    if config.scratch:
        yield from _check_max_length(verifier, map(_least_tokens, texts)) if learns_from_pairs else ()
        return
    find = partial(find_tokenizer, *tokenizer_source(recipe, player))
    where = f"`{player}.model` is `{config.model}`"
    if unreadable := refusals(where, find):
        yield from unreadable
        return
    tokenizer = find()
    if tokenizer is None and Path(resolve_model(config.model, player)).is_dir():
        yield f"{where}, a folder without a tokenizer that can be loaded; save one there, next to the weights."
    if problems is None or tokenizer is None or not texts:
        return
    if player == "verifier" and verifier.traits.scores_by_likelihood and tokenizer.eos_token is None:
        yield (
            f"{where}, whose tokenizer has no end token, as `verifier.kind: likelihood` needs; name a language model"
            " that writes."
        )
        return
    if learns_from_pairs:
        make_input = partial(VerifierInput.of, verifier, tokenizer.eos_token)
        if not refusals("", make_input):  # else the template is reported with the player's other mistakes
            asked, written = ([text[place] for text in texts] for place in (0, 1))
            yield from _check_max_length(verifier, map(len, make_input().encode(tokenizer, asked, written)))
    else:
        of_prover, of_verifier = (
            partial(_write_prompts, recipe, problems),
            partial(_write_evaluation, recipe, texts[0]),
        )
        yield from refusals(where, partial(of_prover if player == "prover" else of_verifier, tokenizer))
    lost = describe_lost(tokenizer, [part for text in texts for part in text])
    if lost is not None:
        yield (
            f"{where}, whose tokenizer cannot write the problems and references of the task `{recipe.task.name}`: "
            f"{lost}. Set `{player}.model` to a model that knows such texts, or make one with `{player}.scratch`."
        )


def _write_prompts(recipe: Recipe, problems: GameProblems, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write a prompt of each role with the prover's chat template, except those that are mistakes of the task."""
    make_prompts = partial(recipe_prompts, recipe, problems.task)
    (problem,) = problems.sample("verifier", 1)
    for role in () if refusals("", make_prompts) else Role:
        asked = {"honest_solution": problem["reference"]}
        if not refusals("", partial(make_prompts().text, problem, role, **asked)):
            make_prompts().render(problem, role, tokenizer, **asked)


def _write_evaluation(recipe: Recipe, text: Texts, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write a prompt of a generative verifier, unless its templates are reported with the player's other mistakes."""
    make_prompts = partial(recipe.verifier.score_settings.prompts_for, *tokenizer_source(recipe, "verifier"))
    if not refusals("", make_prompts):
        make_prompts().render(dict(zip(("problem", "proof"), text, strict=True)), tokenizer)


def _least_tokens(texts: Iterable[str]) -> int:
    """
    Return the least possible number of tokens: a tokenizer that is trained later has no token longer than a word.
    """
    return sum(len(text.split()) for text in texts)


def _check_max_length(config: VerifierConfig, num_tokens: Iterable[int]) -> Iterator[str]:
    """List a mistake if most problems with their reference solutions exceed the verifier's maximum length."""
    lengths = list(num_tokens)
    # Pairs over the limit are filtered out, which does no harm unless most of them are.
    num_over = sum(length > config.max_length for length in lengths)
    if num_over > len(lengths) / 2:
        yield (
            f"`verifier.max_length` is {config.max_length}, and {num_over} of {len(lengths)} problems are longer with"
            f" their reference solution (up to {max(lengths)} tokens), so that the verifier would learn from few pairs"
            f" or none: set it to {max(lengths)} or more."
        )


def check_player(recipe: Recipe, player: str, hardware: Hardware, problems: GameProblems | None) -> Iterator[str]:
    """
    List mistakes of a player's model, tokenizer, adapter and, for the verifier, input template.

    Without `problems`, it is not checked whether the player can read them.
    """
    config, verifier = recipe.player(player), recipe.verifier
    if config.scratch:
        mistakes = [f"`{player}.scratch`: {mistake}" for mistake in scratch_mistakes(config.scratch)]
    else:
        mistakes = list(check_source(config.model, config.revision, player))
        if player == "verifier":
            mistakes = mistakes or refusals(f"`verifier.model` is `{config.model}`", partial(_check_head, verifier))
    unreadable = mistakes or refusals(f"`{player}`", partial(read_player_size, config, player, hardware))
    yield from unreadable or _check_adapter(config, player)
    yield from [] if mistakes else check_tokenizer(recipe, player, problems)
    if hardware.is_here:
        where = f"`{player}.quantization` is `{config.quantization}`"
        yield from refusals(where, partial(check_quantization, config.quantization, hardware.device))
    if player == "verifier":
        yield from refusals(
            "`verifier.template`", partial(VerifierInput, verifier.template, None, verifier.max_length)
        )


def _check_adapter(config: PlayerConfig, player: str) -> Iterator[str]:
    """List names in `lora.target_modules` without a module, and adapters that the player's trainer or vLLM ignores."""
    model = read_adapted_player(config, player)
    if model is None or config.lora is None:
        return
    assert isinstance(model.base_model, BaseTuner)
    names, found = config.lora.target_modules, model.base_model.targeted_module_names
    where = f"`{player}.lora.target_modules` is `{names}`"
    for name in [] if isinstance(names, str) else names:
        if not any(f".{place}".endswith(f".{name}") for place in found):
            yield f"`{player}.lora.target_modules` has `{name}`, which is no module of `{config.model}`: leave it out."
    is_sampled = not isinstance(config, VerifierConfig) or not config.traits.learns_from_pairs
    if is_sampled and isinstance(model.get_output_embeddings(), BaseTunerLayer):
        yield (
            f"{where}, which adapts the output layer, and GRPO would not train that: leave it out (usually `lm_head`)."
        )
    if isinstance(config, ProverConfig) and config.generation.startswith("vllm_") and has_tied_adapter(model):
        yield (
            f"{where} and `prover.generation` is `{config.generation}`: the embedding shares its weight with the"
            " output layer, and vLLM, which receives merged weights, would change both. Leave the embedding out, or"
            " use `generation: transformers`."
        )


def check_shared_type(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List a base with `verifier.shares_base` whose players want it in different types."""
    prover = hardware.dtype(recipe.prover.dtype)
    verifier = hardware.dtype(recipe.verifier.dtype, is_precise=True)
    if recipe.verifier.shares_base and prover != verifier:
        yield (
            f"`verifier.shares_base` is true: the prover is held in {prover} and the verifier scores in {verifier};"
            " set `dtype` of both."
        )


def check_source(model: str, revision: str | None, player: str, where: str | None = None) -> Iterator[str]:
    """List mistakes in a section's `model`. Messages start with `where`, by default the key and its value."""
    source, where = resolve_model(model, player), where or f"`{player}.model` is `{model}`"
    folder = Path(source)
    if folder.is_dir():
        if is_adapter(folder):
            yield (
                f"{where}, an adapter; name the model that it belongs to, or merge it (`merge_and_unload`) and save"
                " that."
            )
        elif not (folder / "config.json").exists():
            yield f"{where}, a folder without a `config.json`; name one that `save_pretrained` has written."
    elif player not in PACKAGED.get(model, {player}):
        others = " or ".join(f"`{name}`" for name, players in PACKAGED.items() if player in players)
        yield f"{where}, a packaged model for the {next(iter(PACKAGED[model]))}; the {player} takes {others}."
    elif model in PACKAGED:
        yield f"{where}, but this installation lacks the packaged model ({folder}); install the package again."
    elif refusals("", partial(validate_repo_id, source)):
        yield f"{where}, which is neither a folder on this machine nor the id of a model on the Hub (`org/name`)."
    elif refusal := find_refusal(source, revision):
        yield (
            f"{where}, which is not in the local cache, and cannot be downloaded: {refusal}. Fetch it while there is a"
            f" connection (`hf download {source}`), or name a folder."
        )


def _check_head(config: VerifierConfig) -> None:
    """Check that a verifier can use the head of its checkpoint, or has one if it is to keep it."""
    stored = find_config(resolve_model(config.model, "verifier"), config.revision)
    if stored is None:
        return
    has_head, is_classifier = config.traits.has_score_head, is_sequence_classifier(stored)
    if not has_head and is_classifier:
        raise ValueError(
            f"A trained classifier, and a verifier of kind `{config.kind}` is a language model. Name the one that it"
            " was made from, or take `verifier.kind: bradley_terry`."
        )
    if is_classifier:
        count_logits(stored)
    is_kept = has_head and config.head == "keep" and config.init != "head_only" and not config.is_made
    if is_kept and not is_classifier:
        raise ValueError(
            "`verifier.head` is `keep`, and this is no sequence classifier (it is"
            f" `{', '.join(stored.architectures or ['a model'])}`); take `new`, or name a checkpoint with a trained"
            " head."
        )

"""Checks that the players can be loaded or made as the recipe says, and that their tokenizers cover the task's texts."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import PreTrainedTokenizerBase

from pvg_hf.check.amounts import find_tokenizer, tokenizer_source, write_prompts
from pvg_hf.check.player_sizes import find_config, read_adapted_player, read_player_size
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
from pvg_hf.models.score_head import has_other_head, has_trained_head
from pvg_hf.models.sources import PACKAGED, is_adapter, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.vocabulary import describe_lost

Texts = tuple[str, str]  # a problem and its reference

NUM_PROBLEMS = 20


def check_tokenizer(recipe: Recipe, player: str, problems: GameProblems | None) -> Iterator[str]:
    """List mistakes of a player's tokenizer; of one that the game trains on the task's texts, only that it cannot suffice."""
    config = recipe.player(player)
    texts = [] if problems is None else sample_texts(problems)
    learns_from_pairs = player == "verifier" and recipe.verifier.traits.learns_from_pairs
    if config.scratch:
        yield from _check_max_length(recipe.verifier, map(_least_tokens, texts)) if learns_from_pairs else ()
        return
    find = partial(find_tokenizer, *tokenizer_source(recipe, player))
    where = f"`{player}.model` is `{config.model}`"
    if unreadable := refusals(where, find):
        yield from unreadable
        return
    tokenizer = find()
    if tokenizer is None and Path(resolve_model(config.model, player)).is_dir():
        yield f"{where}, a folder without a tokenizer that can be loaded; save one there, next to the weights."
    if tokenizer is None or not texts:
        return
    if player == "verifier" and recipe.verifier.traits.scores_by_likelihood and tokenizer.eos_token is None:
        yield f"{where}, whose tokenizer has no end token, as `verifier.kind: likelihood` needs; name a language model that writes."
        return
    make_input = partial(VerifierInput.of, recipe.verifier, tokenizer.eos_token)
    # An unreadable template is reported with the player's other mistakes.
    if learns_from_pairs and not refusals("`verifier.template`", make_input):
        lengths = map(len, make_input().encode(tokenizer, *zip(*texts, strict=True)))
        yield from _check_max_length(recipe.verifier, lengths)
    if player == "prover":
        yield from _check_chats(recipe, problems, tokenizer, where)
    elif not learns_from_pairs:
        make_prompts = partial(recipe.verifier.score_settings.prompts_for, *tokenizer_source(recipe, player))
        row = dict(zip(("problem", "proof"), texts[0], strict=True))
        if not refusals(where, make_prompts):  # which is reported with the player's other mistakes
            yield from refusals(where, partial(make_prompts().render, row, tokenizer))
    lost = describe_lost(tokenizer, [part for text in texts for part in text])
    if lost is not None:
        yield (
            f"{where}, whose tokenizer cannot write the problems and references of the task `{recipe.task.name}`: "
            f"{lost}. Set `{player}.model` to a model that knows such texts, or make one with `{player}.scratch`."
        )


def _check_chats(
    recipe: Recipe, problems: GameProblems, tokenizer: PreTrainedTokenizerBase, where: str
) -> Iterator[str]:
    """List the first prompt, with its examples if it shows any, that the prover's chat template does not write."""
    make_prompts = partial(recipe_prompts, recipe, problems.task)
    if refusals("", make_prompts):  # templates that cannot be used are mistakes of the task, listed elsewhere
        return
    prompts, (problem,) = make_prompts(), problems.sample("verifier", 1)
    for role in Role:
        asked = {"honest_solution": problem["reference"]}
        if refusals("", partial(prompts.text, problem, role, **asked)):
            continue
        found = refusals(where, partial(prompts.render, problem, role, tokenizer, **asked))
        if found:
            yield from found
            return


def _least_tokens(texts: Iterable[str]) -> int:
    """Return the least possible number of tokens: a tokenizer that is trained later has no token longer than a word."""
    return sum(len(text.split()) for text in texts)


def _check_max_length(config: VerifierConfig, num_tokens: Iterable[int]) -> Iterator[str]:
    """List a mistake if most problems with their reference solutions exceed the verifier's maximum length."""
    lengths = list(num_tokens)
    # Pairs over the limit are filtered out, which does no harm unless most of them are.
    num_over = sum(length > config.max_length for length in lengths)
    if num_over > len(lengths) / 2:
        yield (
            f"`verifier.max_length` is {config.max_length}, and {num_over} of {len(lengths)} problems are longer with their "
            f"reference solution (up to {max(lengths)} tokens), so that the verifier would learn from few pairs or none: "
            f"set it to {max(lengths)} or more."
        )


def check_warmup_lengths(recipe: Recipe, problems: GameProblems) -> Iterator[str]:
    """List warm-ups whose maximum length leaves no room for a solution after any prompt."""
    for player, config in recipe.players.items():
        find = partial(find_tokenizer, *tokenizer_source(recipe, player))
        if config.warmup is None or refusals(player, find):  # an unreadable one is reported by `check_tokenizer`
            continue
        tokenizer = find()
        if tokenizer is None and not config.scratch:
            continue
        rows = problems.sample(player, NUM_PROBLEMS)
        prompts = [text for role in Role for text in write_prompts(problems, rows, role, tokenizer)]
        shortest = min(len(tokenizer(text)["input_ids"]) if tokenizer else _least_tokens([text]) for text in prompts)
        if shortest >= config.warmup.max_length:
            yield (
                f"`{player}.warmup.max_length` is {config.warmup.max_length}, but each of {len(prompts)} prompts has at least "
                f"{shortest} tokens, so that nothing of a solution would be learned; raise it."
            )


def sample_texts(problems: GameProblems) -> list[Texts]:
    """Return `NUM_PROBLEMS` of the verifier's problems (D_V), evenly spread, with their references."""
    return [(row["problem"], row["reference"]) for row in problems.sample("verifier", NUM_PROBLEMS)]


def check_player(recipe: Recipe, player: str, hardware: Hardware, problems: GameProblems | None) -> Iterator[str]:
    """
    List mistakes of a player's model, tokenizer, adapter and, for the verifier, input template.

    Args:
        recipe ([`Recipe`]):
            Recipe with the round's overrides.
        player (`str`):
            `prover` or `verifier`.
        hardware ([`Hardware`]):
            Hardware that the player runs on.
        problems ([`GameProblems`], *optional*):
            The game's problems, which the player must be able to read; without them, that is not checked.
    """
    config = recipe.player(player)
    mistakes = list(
        _check_scratch(config, player) if config.scratch else check_source(config.model, config.revision, player)
    )
    if player == "verifier" and not (mistakes or config.scratch):
        mistakes = refusals(f"`verifier.model` is `{config.model}`", partial(_check_head, config))
    if player == "verifier" and not mistakes:
        mistakes = list(_check_kept_head(config))
    unreadable = mistakes or refusals(f"`{player}`", partial(read_player_size, config, player, hardware))
    yield from unreadable or _check_adapter(config, player)
    yield from [] if mistakes else check_tokenizer(recipe, player, problems)
    yield from _check_quantization(config, player, hardware)
    if player == "verifier":
        template, max_length = recipe.verifier.template, recipe.verifier.max_length
        yield from refusals("`verifier.template`", partial(VerifierInput, template, None, max_length))


def _check_quantization(config: PlayerConfig, player: str, hardware: Hardware) -> Iterator[str]:
    where = f"`{player}.quantization` is `{config.quantization}`"
    if config.quantization != "none" and config.lora is None:
        yield f"{where}: weights in 4 bits cannot be trained; add adapters (`{player}.lora: {{}}`)."
    if hardware.is_here:
        yield from refusals(where, partial(check_quantization, config.quantization, hardware.device))


def _check_adapter(config: PlayerConfig, player: str) -> Iterator[str]:
    """List names in `lora.target_modules` without a module, and adapters that the player's trainer or vLLM ignores."""
    model = read_adapted_player(config, player)
    if model is None:
        return
    names, found = config.lora.target_modules, model.base_model.targeted_module_names
    for name in [] if isinstance(names, str) else names:
        if not any(f".{place}".endswith(f".{name}") for place in found):
            yield f"`{player}.lora.target_modules` has `{name}`, which is no module of `{config.model}`: leave it out."
    is_sampled = isinstance(config, ProverConfig) or not config.traits.learns_from_pairs
    if is_sampled and isinstance(model.get_output_embeddings(), BaseTunerLayer):
        yield (
            f"`{player}.lora.target_modules` is `{names}`, which puts an adapter on the output layer, and GRPO would not train "
            "it: leave that layer out (usually `lm_head`)."
        )
    if isinstance(config, ProverConfig) and config.generation.startswith("vllm_") and has_tied_adapter(model):
        yield (
            f"`prover.lora.target_modules` is `{names}` and `prover.generation` is `{config.generation}`: the embedding shares "
            "its weight with the output layer, and vLLM, which receives merged weights, would change both. Leave the embedding "
            "out, or use `generation: transformers`."
        )


def check_shared_base(recipe: Recipe, hardware: Hardware) -> Iterator[str]:
    """List mistakes in `verifier.shares_base`."""
    prover, verifier = recipe.prover, recipe.verifier
    if not verifier.shares_base:
        return
    where = "`verifier.shares_base` is true"
    if prover.lora is None or verifier.lora is None:
        yield f"{where}: both players need adapters (`prover.lora`, `verifier.lora`)."
    for player, config in recipe.players.items():
        if config.is_made:
            yield f"{where}, and `{player}` makes its own weights (`scratch` or `warmup`); leave those out."
    for key in ("model", "revision", "quantization"):
        mine, others = vars(verifier)[key], vars(prover)[key]
        if mine != others:
            yield f"{where}: `verifier.{key}` is `{mine}`, and `prover.{key}` is `{others}`; they must be the same."
    dtypes = [hardware.dtype(prover.dtype, is_precise=False), hardware.dtype(verifier.dtype, is_precise=True)]
    if dtypes[0] != dtypes[1]:
        yield f"{where}: the prover is held in {dtypes[0]} and the verifier scores in {dtypes[1]}; set `dtype` of both."


def _check_scratch(config: PlayerConfig, player: str) -> Iterator[str]:
    return (f"`{player}.scratch`: {mistake}" for mistake in scratch_mistakes(config.scratch))


def check_source(model: str, revision: str | None, player: str, where: str | None = None) -> Iterator[str]:
    """List mistakes in a section's `model`. Messages start with `where`, by default the key and its value."""
    source, where = resolve_model(model, player), where or f"`{player}.model` is `{model}`"
    folder = Path(source)
    if folder.is_dir():
        if is_adapter(folder):
            yield f"{where}, an adapter; name the model that it belongs to, or merge it (`merge_and_unload`) and save that."
        elif not (folder / "config.json").exists():
            yield f"{where}, a folder without a `config.json`; name one that `save_pretrained` has written."
    elif player not in PACKAGED.get(model, {player}):
        others = " or ".join(f"`{name}`" for name, players in PACKAGED.items() if player in players)
        yield f"{where}, a packaged model for the {next(iter(PACKAGED[model]))}; the {player} takes {others}."
    elif model in PACKAGED:
        yield f"{where}, but this installation lacks the packaged model ({folder}); install the package again."
    elif not _is_hub_id(source):
        yield f"{where}, which is neither a folder on this machine nor the id of a model on the Hub (`org/name`)."
    elif refusal := find_refusal(source, revision):
        yield (
            f"{where}, which is not in the local cache, and cannot be downloaded: {refusal}. Fetch it while there is a "
            f"connection (`hf download {source}`), or name a folder."
        )


def _check_head(config: PlayerConfig) -> None:
    """Check that a verifier can use the head of its checkpoint, if it has one."""
    stored = find_config(resolve_model(config.model, "verifier"), config.revision)
    if stored is None:
        return
    if not config.traits.has_score_head and (has_trained_head(stored) or has_other_head(stored)):
        raise ValueError(
            f"A trained classifier, and a verifier of kind `{config.kind}` is a language model. Name the one that it was made "
            "from, or take `verifier.kind: bradley_terry`."
        )
    if has_other_head(stored):
        raise ValueError(
            f"A trained classifier with {stored.num_labels} labels, and a verifier has one logit. Name the language model "
            "that it was made from, or give it a new head (`AutoModelForSequenceClassification.from_pretrained(..., "
            "num_labels=1, ignore_mismatched_sizes=True)`), save that and name its folder."
        )


def _check_kept_head(config: VerifierConfig) -> Iterator[str]:
    """List a mistake if `verifier.head` is `keep` and there is no head to keep."""
    if config.head == "new" or not config.traits.has_score_head:
        return
    if config.init == "head_only":
        yield "`verifier.head` is `keep`, but `verifier.init: head_only` gives every round a new head; take `full` or `warm`."
    elif config.is_made:
        yield "`verifier.head` is `keep`, but `scratch` and `warmup` make a language model without a head; take `new`."
    else:
        stored = find_config(resolve_model(config.model, "verifier"), config.revision)
        if stored is not None and not has_trained_head(stored):
            yield (
                f"`verifier.head` is `keep`, but `{config.model}` is no sequence classifier with one logit "
                f"(it is `{', '.join(stored.architectures or ['a model'])}`); take `new`, or name a checkpoint with a trained head."
            )


def _is_hub_id(source: str) -> bool:
    try:
        validate_repo_id(source)
    except HFValidationError:
        return False
    return True

"""The expected score at the box, for tokenizers that split it in various ways."""

import pytest
import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pvg_hf.analyses.form import CLOSING, OPENING, write_evaluation
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.models.prover_model import load_prover
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.scoring.expected_score import SPELLINGS, Box, BoxReader
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune

# As Qwen's: a closing brace and the line break behind it are one token.
SPLIT = r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+|[^\r\n\p{L}\p{N}]?\p{L}+"
BEFORE = f"claim good?{OPENING}\nfine\n{CLOSING}\n\\boxed{{"
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def make_tokenizer(*, split_digits: bool) -> PreTrainedTokenizerFast:
    """A tokenizer of merged bytes; without `split_digits`, the brace and all that follows it may be one token."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT if split_digits else r"\S+\s*"), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    texts = [f"{OPENING}\nfine\n{CLOSING}\n\\boxed{{{spelling}}}{end}" for spelling in SPELLINGS for end in ("", "\n")]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "</s>"]
    tokenizer.train_from_iterator(
        texts * 50, trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")


def make_model(tokenizer) -> LlamaForCausalLM:
    torch.manual_seed(0)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **SIZES, **ids)).eval()


def by_hand(model, tokenizer, beginning: list[int], start: str, temperature: float) -> float:
    """
    Sum over all continuations token by token, read as text; `start` is what the first tokens have still to write.
    """
    targets = {f"{start}{spelling}}}": score for spelling, score in SPELLINGS.items()}
    total, ways = 0.0, [((), 1.0)]
    while ways:
        path, reached = ways.pop()
        with torch.no_grad():
            logits = model(torch.tensor([[*beginning, *path]])).logits[0, -1]
        probabilities = torch.softmax(logits / temperature, -1)
        for token in range(2, len(tokenizer)):
            text = tokenizer.decode([*path, token])
            probability = reached * probabilities[token].item()
            written = [score for target, score in targets.items() if text.startswith(target)]
            if written:
                total += written[0] * probability
            elif any(target.startswith(text) for target in targets):
                ways.append(((*path, token), probability))
    return total


@pytest.mark.parametrize("split_digits", [True, False])
@pytest.mark.parametrize("content", ["1}\n", "0.5}", "1.0}", "maybe}"])
def test_expected_score_by_hand(split_digits, content):
    tokenizer = make_tokenizer(split_digits=split_digits)
    model = make_model(tokenizer)
    whole = tokenizer(BEFORE + content)["input_ids"]
    beginning = whole[: next(end for end in range(len(whole)) if "{" in tokenizer.decode(whole[: end + 1]))]
    rest = BEFORE.removeprefix(tokenizer.decode(beginning))  # "{", where the brace has a token with what follows it
    if tokenizer.decode(whole[: len(beginning) + 1]) == BEFORE:
        beginning, rest = whole[: len(beginning) + 1], ""
    expected = by_hand(model, tokenizer, beginning, rest, 0.8)
    assert expected > 0
    other = Box("good?" + BEFORE, "good?" + BEFORE + content)  # longer, and in the same batch
    assert BoxReader(model, tokenizer, 0.8)([other, Box(BEFORE, BEFORE + content)])[1] == pytest.approx(
        expected, rel=1e-3
    )


def test_a_brace_may_be_one_token_with_the_score_and_a_line_break_with_the_closing_brace():
    merged, split = (make_tokenizer(split_digits=split_digits) for split_digits in (False, True))
    assert "{" not in merged.convert_ids_to_tokens(merged("\\boxed{1}\n")["input_ids"])
    assert "}Ċ" in split.convert_ids_to_tokens(split("\\boxed{1}\n")["input_ids"])


def test_the_expected_score_agrees_with_the_sampled_score(tmp_path):
    """The model ends an evaluation with the box or with a line after it, and sometimes writes 1.0 for 1."""
    tokenizer = make_tokenizer(split_digits=True)
    model = make_model(tokenizer)
    analyses = [write_evaluation("fine", score).removesuffix("}") for score in (0, 0.5, 1)]
    texts = [f"{text}{end}" for text in [*analyses, analyses[-1] + ".0"] for end in ("}", "}\n", "}\nfine " * 8)]
    rows = [{"prompt": "claim good?", "completion": text} for text in texts] * 4
    settings = FineTuning(150, 16, 1e-2, 128, seed=0, output_dir=str(tmp_path), use_cpu=True, show_progress=False)
    fine_tune(model, tokenizer, Dataset.from_list(rows), settings)
    asked = ScoreVerifierSettings("{{ problem }} {{ proof }}?", "{{ analysis }}", 64, 0.8)
    n = 64
    sampled, expected = (
        GenerativeVerifier(model, tokenizer, asked, num_analyses=n, estimate=estimate, show_progress=False)
        for estimate in ("sampled", "expected")
    )
    mean = sampled(["claim"], ["good"])[0]
    assert 0 < sampled.num_unreadable < n  # those that were cut
    assert 0.2 < mean < 0.8
    assert abs(mean - expected(["claim"], ["good"])[0]) < 4 * 0.5 / n**0.5


def test_no_evaluations_give_no_expected_scores(tiny_prover):
    assert BoxReader(*load_prover(tiny_prover), 0.8)([]) == []

import logging
from pathlib import Path

import pytest
import torch
from peft import PeftModel, get_peft_model
from tokenizers import processors
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from pvg_hf.config.player_sections import LoraConfig
from pvg_hf.models.prover_model import load_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_classifier, lora_for_verifier
from pvg_hf.scoring import VerifierScorer
from pvg_hf.scoring.reader import SHARING, can_share
from tools.pretraining.tokenizers import build_arithmetic_tokenizer

PROBLEM = "Ana has 3 pens.\nBen has 2 more than Ana.\nHow many pens does Ben have?"
PROBLEMS = [
    PROBLEM,
    PROBLEM,
    "Ben has 12 coins.\nEli has 4 fewer than Ben.\nHow many coins does Eli have?",
    PROBLEM,
    PROBLEM,
]
SOLUTIONS = [
    "Ana has 3\nBen has 2 more than Ana: 3 + 2 = 5\n#### 5",
    "Ana has 3\n#### 3",
    "Eli has 12 - 4 = 8\n#### 8",
    "",
    "#### 6",
]
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def _decoder(model_type: str, tokenizer, num_labels: int = 1) -> PreTrainedModel:
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {**SIZES, "num_key_value_heads": 2, "initializer_range": 0.2}
    config = AutoConfig.for_model(model_type, vocab_size=len(tokenizer), num_labels=num_labels, **sizes, **ids)
    return AutoModelForSequenceClassification.from_config(config)


def _verifier(kind: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, VerifierInput]:
    torch.manual_seed(0)
    tokenizer = build_arithmetic_tokenizer()
    if kind == "bert":
        tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            "[CLS] $A [SEP]",
            special_tokens=[(token, tokenizer.convert_tokens_to_ids(token)) for token in ("[CLS]", "[SEP]")],
        )
        config = BertConfig(vocab_size=len(tokenizer), num_labels=1, pad_token_id=0, initializer_range=0.2, **SIZES)
        return BertForSequenceClassification(config), tokenizer, _input(None)
    if kind == "pad is end":
        tokenizer.pad_token = tokenizer.eos_token
    return _decoder("llama" if kind == "pad is end" else kind, tokenizer), tokenizer, _input("</s>")


def _input(end_token: str | None, max_length: int = 128) -> VerifierInput:
    return VerifierInput("{{ problem }}\n{{ solution }}", end_token, max_length)


@torch.inference_mode()
def _score_by_hand(model, tokenizer, end_token: str | None, problem: str, solution: str) -> float:
    """One text in one forward, without padding."""
    ids = tokenizer(f"{problem}\n{solution}")["input_ids"] + ([] if end_token is None else [tokenizer.eos_token_id])
    return model.eval()(input_ids=torch.tensor([ids])).logits.item()


@pytest.mark.gpu
@pytest.mark.parametrize("tokens_per_batch", [1, 4096])
def test_scores_of_a_gpu_are_those_of_a_cpu(tokens_per_batch):
    model, tokenizer, verifier_input = _verifier("qwen2")
    by_hand = [_score_by_hand(model, tokenizer, "</s>", *texts) for texts in zip(PROBLEMS, SOLUTIONS, strict=True)]
    scorer = VerifierScorer(model.to("cuda"), tokenizer, verifier_input, tokens_per_batch=tokens_per_batch)
    assert scorer(PROBLEMS, SOLUTIONS) == pytest.approx(by_hand, abs=1e-3)


@pytest.mark.parametrize("tokens_per_batch", [1, 64, 4096])
@pytest.mark.parametrize("kind", [*sorted(SHARING), "bert", "pad is end"])
def test_scores_are_those_of_plain_forwards(kind, tokens_per_batch):
    model, tokenizer, verifier_input = _verifier(kind)
    scores = VerifierScorer(model, tokenizer, verifier_input, tokens_per_batch=tokens_per_batch)(PROBLEMS, SOLUTIONS)
    by_hand = [
        _score_by_hand(model, tokenizer, verifier_input.end_token, *texts)
        for texts in zip(PROBLEMS, SOLUTIONS, strict=True)
    ]
    assert scores == pytest.approx(by_hand, abs=1e-4)
    assert len({round(score, 3) for score in by_hand}) == len(by_hand)  # so that a wrong order would be seen


@pytest.mark.parametrize("is_folder", [True, False])
def test_the_score_of_two_logits_is_their_difference(is_folder, tmp_path):
    _, tokenizer, verifier_input = _verifier("llama")
    model = _decoder("llama", tokenizer, num_labels=2)
    texts = [[*tokenizer(f"{p}\n{s}")["input_ids"], tokenizer.eos_token_id] for p, s in zip(PROBLEMS, SOLUTIONS)]
    with torch.no_grad():
        by_hand = [model.eval()(input_ids=torch.tensor([ids])).logits.diff().item() for ids in texts]
    if is_folder:
        model.save_pretrained(tmp_path)
        verifier_input.save_with(tokenizer, tmp_path)
        scorer = VerifierScorer.from_pretrained(tmp_path, device="cpu")
    else:
        scorer = VerifierScorer(model, tokenizer, verifier_input)
    assert scorer(PROBLEMS, SOLUTIONS) == pytest.approx(by_hand, abs=1e-6)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_a_score_does_not_depend_on_its_neighbours(kind):
    scorer = VerifierScorer(*_verifier(kind))
    together = scorer(PROBLEMS, SOLUTIONS)
    alone = [scorer([problem], [solution])[0] for problem, solution in zip(PROBLEMS, SOLUTIONS, strict=True)]
    assert together == pytest.approx(alone, abs=1e-5)
    assert scorer(PROBLEMS[::-1], SOLUTIONS[::-1])[::-1] == pytest.approx(alone, abs=1e-5)


def _count_rows(model) -> list[int]:
    rows: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return rows


def test_identical_texts_are_read_once():
    model, tokenizer, verifier_input = _verifier("llama")
    rows = _count_rows(model)
    scores = VerifierScorer(model, tokenizer, verifier_input, shares_beginnings=False)(
        [PROBLEM] * 5, ["#### 5", "#### 6", "#### 5", "#### 5", "#### 6"]
    )
    assert sum(rows) == 2
    assert scores[0] == scores[2] == scores[3] != scores[1] == scores[4]


def test_texts_with_equal_inputs_are_read_once():
    """Two readings of one input can differ in their last bits, which would break a tie."""
    model, tokenizer, verifier_input = _verifier("llama")
    verifier_input = VerifierInput("{{ problem }}", verifier_input.end_token, verifier_input.max_length)
    rows = _count_rows(model)
    scores = VerifierScorer(model, tokenizer, verifier_input)([PROBLEM] * 3, ["#### 5", "#### 6", "has 6\n#### 6"])
    assert sum(rows) == 1
    assert len(set(scores)) == 1


@pytest.mark.parametrize(("use_cache", "rows_read"), [(False, 6), (True, 5)])
def test_cache_remembers_texts(use_cache, rows_read):
    model, tokenizer, verifier_input = _verifier("llama")
    rows = _count_rows(model)
    scorer = VerifierScorer(model, tokenizer, verifier_input, use_cache=use_cache, shares_beginnings=False)
    first = scorer(PROBLEMS[:3], SOLUTIONS[:3])
    again = scorer(PROBLEMS[2:], SOLUTIONS[2:])  # one text of three was read before
    assert sum(rows) == rows_read
    assert again[0] == pytest.approx(first[2], abs=1e-5)
    if use_cache:
        assert again[0] == first[2]


def test_no_solutions_give_no_scores():
    assert VerifierScorer(*_verifier("llama"))([], []) == []


@pytest.mark.parametrize("use_cache", [False, True])
def test_weights_with_nan_give_an_error_that_names_the_solution(use_cache):
    model, tokenizer, verifier_input = _verifier("llama")
    scorer = VerifierScorer(model, tokenizer, verifier_input, use_cache=use_cache)
    scorer.model.score.weight.fill_(float("nan"))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"solution 0 \('Ana has 3.*\) is nan; 5 of 5 scores are not finite"):
            scorer(PROBLEMS, SOLUTIONS)
    with pytest.raises(ValueError, match=r"solution 0 \('Ana has 3.*\) is nan; 2 of 2 scores"):
        scorer.as_reward_func(problem_column="prompt")(PROBLEMS[:2], SOLUTIONS[1::-1])


def test_an_item_that_is_no_text_is_named():
    scorer = VerifierScorer(*_verifier("llama"))
    with pytest.raises(ValueError, match=r"`problems\[0\]` is None"):
        scorer([None], ["#### 3"])
    with pytest.raises(ValueError, match=r"`solutions\[1\]` is 3"):
        scorer(["p", "p"], ["#### 3", 3])


def test_problems_and_solutions_must_have_equal_numbers():
    with pytest.raises(ValueError, match="5 problems and 2 solutions"):
        VerifierScorer(*_verifier("llama"))(PROBLEMS, SOLUTIONS[:2])


@pytest.mark.parametrize(("texts", "name"), [(("Q", "a"), "problems"), ((["Q"], "a"), "solutions")])
def test_a_text_in_place_of_a_list_is_refused(texts, name):
    with pytest.raises(ValueError, match=f"`{name}` .*list of texts"):
        VerifierScorer(*_verifier("llama"))(*texts)


@pytest.mark.parametrize(("kind", "end_token"), [("llama", "</s>"), ("llama", None), ("bert", None)])
def test_long_inputs_are_cut_and_counted(kind, end_token, caplog):
    model, tokenizer, _ = _verifier(kind)
    (full,) = _input(end_token).encode(tokenizer, [PROBLEM], [SOLUTIONS[0]])
    limit = len(full) - 4
    scorer = VerifierScorer(model, tokenizer, _input(end_token, limit))
    with caplog.at_level(logging.WARNING):
        scores = scorer([PROBLEM, PROBLEM, PROBLEM], [SOLUTIONS[0], SOLUTIONS[1], SOLUTIONS[0] + " 5"])
    assert scorer.num_cut == 2
    assert caplog.text.count("was cut") == 1  # logged once, counted always
    has_end = kind == "bert" or end_token is not None
    cut = [*full[: limit - 1], full[-1]] if has_end else full[:limit]
    assert len(cut) == limit
    with torch.inference_mode():
        by_hand = model(input_ids=torch.tensor([cut])).logits.item()
    assert scores[0] == pytest.approx(by_hand, abs=1e-4)
    assert scores[2] == pytest.approx(scores[0], abs=1e-5)  # what differs was cut off
    assert scores[1] == pytest.approx(_score_by_hand(model, tokenizer, end_token, PROBLEM, SOLUTIONS[1]), abs=1e-4)


def test_a_problem_that_fills_the_input_is_refused():
    model, tokenizer, _ = _verifier("llama")
    num_tokens = len(tokenizer(f"{PROBLEM}\n")["input_ids"]) + 1  # the end token
    with pytest.raises(
        ValueError,
        match=rf"`Ana has 3 pens\. Ben has 2 more \.\.\.` fills.* {num_tokens} tokens .* of {num_tokens}\.",
    ):
        VerifierScorer(model, tokenizer, _input("</s>", num_tokens))([PROBLEM], [SOLUTIONS[0]])
    scorer = VerifierScorer(model, tokenizer, _input("</s>", num_tokens + 1))
    assert len(scorer([PROBLEM], [SOLUTIONS[0]])) == scorer.num_cut == 1


def test_more_logits_are_refused():
    model, tokenizer, verifier_input = _verifier("llama")
    model.config.num_labels = 3
    with pytest.raises(ValueError, match="3 logits"):
        VerifierScorer(model, tokenizer, verifier_input)


def test_the_verifier_is_frozen():
    model, tokenizer, verifier_input = _verifier("llama")
    VerifierScorer(model.train(), tokenizer, verifier_input)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


def _save(folder: Path, model, tokenizer, verifier_input) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    verifier_input.save(folder)
    return folder


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_loads_from_a_folder_of_full_weights(kind, tmp_path):
    parts = _verifier(kind)
    scores = VerifierScorer(*parts)(PROBLEMS, SOLUTIONS)
    scorer = VerifierScorer.from_pretrained(_save(tmp_path, *parts), tokens_per_batch=64)
    assert scorer.verifier_input == parts[2]
    assert scorer.tokens_per_batch == 64
    assert scorer(PROBLEMS, SOLUTIONS) == pytest.approx(scores, abs=1e-5)


def test_loads_from_a_folder_of_an_adapter_with_its_head(tmp_path, tiny_prover):
    """The base named by the adapter is a language model without a score head."""
    base, tokenizer = load_classifier(str(tiny_prover)), load_prover(tiny_prover)[1]
    torch.manual_seed(1)
    model = get_peft_model(base, lora_for_verifier(LoraConfig(r=4), base))
    draw_head(model, seed=3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    scores = VerifierScorer(model, tokenizer, _input("</s>"))(PROBLEMS, SOLUTIONS)
    folder = _save(tmp_path, model, tokenizer, _input("</s>"))
    torch.manual_seed(2)  # random numbers drawn while loading must not matter
    scorer = VerifierScorer.from_pretrained(folder)
    assert isinstance(scorer.model, PeftModel)
    assert scorer(PROBLEMS, SOLUTIONS) == pytest.approx(scores, abs=1e-5)
    plain = VerifierScorer(load_classifier(str(tiny_prover)), tokenizer, _input("</s>"))(PROBLEMS, SOLUTIONS)
    assert scores != pytest.approx(plain, abs=1e-2)


def test_a_folder_without_a_verifier_is_refused(tiny_prover):
    with pytest.raises(ValueError, match=r"no verifier_input\.json"):
        VerifierScorer.from_pretrained(tiny_prover)


def _count_tokens(model) -> list[int]:
    tokens: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: tokens.append(
            int(kwargs["attention_mask"][:, -kwargs["input_ids"].shape[1] :].sum())
        ),
        with_kwargs=True,
    )
    return tokens


@pytest.mark.parametrize("shares_beginnings", [True, False])
def test_a_problem_is_read_once_for_its_solutions(shares_beginnings):
    model, tokenizer, verifier_input = _verifier("llama")
    tokens = _count_tokens(model)
    solutions = ["has 3\n#### 3", "has 2\n#### 2", "has 5\n#### 5"]
    VerifierScorer(model, tokenizer, verifier_input, shares_beginnings=shares_beginnings)([PROBLEM] * 3, solutions)
    shared = len(tokenizer(f"{PROBLEM}\nhas")["input_ids"])
    own = len(tokenizer(" 3\n#### 3")["input_ids"]) + 1  # the end token
    assert sum(tokens) == (shared + 3 * own if shares_beginnings else 3 * (shared + own))


def test_adapters_share_beginnings(tiny_prover):
    base, tokenizer = load_classifier(str(tiny_prover)), load_prover(tiny_prover)[1]
    model = get_peft_model(base, lora_for_verifier(LoraConfig(r=4), base))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or name.endswith("score.modules_to_save.default.weight"):
                parameter.normal_()
    assert can_share(model)
    shared = VerifierScorer(model, tokenizer, _input("</s>"))(PROBLEMS, SOLUTIONS)
    plain = VerifierScorer(model, tokenizer, _input("</s>"), shares_beginnings=False)(PROBLEMS, SOLUTIONS)
    assert shared == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("kind", ["bert", "sliding"])
def test_inputs_without_a_shared_beginning_are_read_whole(kind):
    model = _verifier("bert")[0] if kind == "bert" else _decoder("mistral", build_arithmetic_tokenizer())
    if kind == "sliding":
        model.config.sliding_window = 8
    assert not can_share(model)


def test_many_texts_are_tokenised_chunk_by_chunk(monkeypatch):
    monkeypatch.setattr("pvg_hf.scoring.discriminative_verifier.TEXTS_PER_CHUNK", 2)
    model, tokenizer, verifier_input = _verifier("llama")
    scorer = VerifierScorer(model, tokenizer, verifier_input)
    by_hand = [_score_by_hand(model, tokenizer, "</s>", *texts) for texts in zip(PROBLEMS, SOLUTIONS, strict=True)]
    assert scorer(PROBLEMS, SOLUTIONS) == pytest.approx(by_hand, abs=1e-4)


def test_a_batch_that_does_not_fit_in_memory_is_halved(caplog):
    model, tokenizer, verifier_input = _verifier("llama")
    by_hand = [_score_by_hand(model, tokenizer, "</s>", *texts) for texts in zip(PROBLEMS, SOLUTIONS, strict=True)]

    def refuse(module, args, kwargs):
        if len(kwargs["input_ids"]) > 2:
            raise torch.OutOfMemoryError("no room for a third row")

    model.register_forward_pre_hook(refuse, with_kwargs=True)
    scorer = VerifierScorer(model, tokenizer, verifier_input, tokens_per_batch=4096)
    with caplog.at_level(logging.WARNING):
        assert scorer(PROBLEMS, SOLUTIONS) == pytest.approx(by_hand, abs=1e-4)
    assert scorer.tokens_per_batch < 4096
    assert "did not fit in memory" in caplog.text


def test_a_single_input_that_does_not_fit_is_an_error():
    model, tokenizer, verifier_input = _verifier("llama")

    def refuse(module, args, kwargs):
        raise torch.OutOfMemoryError("no room at all")

    model.register_forward_pre_hook(refuse, with_kwargs=True)
    with pytest.raises(torch.OutOfMemoryError):
        VerifierScorer(model, tokenizer, verifier_input)([PROBLEM], [SOLUTIONS[0]])

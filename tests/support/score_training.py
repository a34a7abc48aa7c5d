"""
A verifier with a small vocabulary for tests of `ScoreVerifierTrainer`: a sentence of the format, or a box, is one
token.
"""

import itertools
import re
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pvg_hf.analyses.form import CLOSING, OPENING
from pvg_hf.trainers.common.supervised import FineTuning, fine_tune
from pvg_hf.trainers.generative.config import ScoreVerifierConfig
from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer

BOXES = ("\\boxed{0}", "\\boxed{0.5}", "\\boxed{1}", "\\boxed{2}")
PROOFS = {"bad": 0.0, "short": 0.5, "good": 1.0}  # each with its score
WORDS = (OPENING, CLOSING, *BOXES, *PROOFS, "claim", "?", "!", "fine", "flaw", " ")
PROMPTS = {
    "evaluate_prompt": "{{ problem }} {{ proof }}?",
    "judge_prompt": "{{ problem }} {{ proof }} {{ analysis }}!",
}


def make_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: index for index, word in enumerate(("<pad>", "</s>", "<unk>", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    pieces = "|".join(map(re.escape, WORDS))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def save_evaluator(folder: Path) -> str:
    """Save a model that keeps the format in half of its evaluations, and boxes the right score in half of them."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes, **ids))
    rows = [
        {"prompt": f"claim {proof}?", "completion": f"{opening}{word}{CLOSING}{box}{tokenizer.eos_token}"}
        for proof, opening, word in itertools.product(PROOFS, (OPENING, ""), ("fine", "flaw"))
        for box in (*BOXES, *[f"\\boxed{{{PROOFS[proof]:g}}}"] * 2)
    ]
    settings = FineTuning(60, len(rows), 1e-2, 32, 0, str(folder / "training"), use_cpu=True, show_progress=False)
    fine_tune(model, tokenizer, Dataset.from_list(rows), settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def proof_rows(num_rows: int = 12, scores=PROOFS, **columns) -> Dataset:
    """Rows that go through the proofs in turn."""
    proofs = list(itertools.islice(itertools.cycle(PROOFS), num_rows))
    rows = [{"problem": "claim", "proof": proof, "score": scores[proof], **columns} for proof in proofs]
    return Dataset.from_list(rows)


def score_args(tmp_path, **settings) -> ScoreVerifierConfig:
    """Arguments of a silent run on the CPU: three steps of four groups."""
    values = {
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "learning_rate": 3e-3,
        "max_steps": 3,
        "per_device_train_batch_size": 16,
        "per_device_eval_batch_size": 16,
        "max_completion_length": 8,
        **PROMPTS,
    }
    return ScoreVerifierConfig(str(tmp_path / "out"), **{**values, **settings})


def score_trainer(evaluator, tmp_path, *, rows=None, settings=None, **kwargs) -> ScoreVerifierTrainer:
    return ScoreVerifierTrainer(
        evaluator,
        args=score_args(tmp_path, **(settings or {})),
        train_dataset=proof_rows() if rows is None else rows,
        **kwargs,
    )

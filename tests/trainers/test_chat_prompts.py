"""
Players with tokenizers and chat templates like those of published models: prompts with examples, training and writing.
"""

from typing import ClassVar

import pytest
import torch
from datasets import Dataset

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.core.roles import Role
from pvg_hf.models.prover_model import load_prover
from pvg_hf.sampling import Sampler, sample_solutions
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.tasks import PromptBuilder
from tests.conftest import make_tiny_llama
from tests.support.chat_templates import SPECIAL_TOKENS, WRITTEN_TEMPLATES, make_chat_tokenizer
from tests.support.prover_batches import generate
from tests.support.prover_training import loss_lines, prover_trainer
from tests.support.recall_task import RecallTask


class TurnsTask(RecallTask):
    prompts: ClassVar = {
        Role.BASE: "{{ problem }}\nSolution:\n",
    }
    few_shot_examples: ClassVar = (
        {"problem": "Ana sees 2 pens.", "solution": "sees 2\n#### 2"},
        {"problem": "Ana has 9 old pens.", "solution": "has 9\n#### 9"},
    )


@pytest.fixture(scope="module", params=[(t, p) for t in WRITTEN_TEMPLATES for p in SPECIAL_TOKENS], ids=", ".join)
def chatting(request, tmp_path_factory):
    """Folder of a tiny language model, and its tokenizer."""
    tokenizer, folder = make_chat_tokenizer(*request.param), tmp_path_factory.mktemp("chatting")
    make_tiny_llama(tokenizer, max_position_embeddings=2048).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder), tokenizer


@pytest.fixture(scope="module")
def prompts():
    return PromptBuilder(TurnsTask(num_train=4))


def train(chatting, tmp_path, problems, prompt):
    """One step of GRPO on prompts as texts or as chats: the tokens that were read and written, and the log's line."""
    folder, tokenizer = chatting
    rows = Dataset.from_list(
        [{"prompt": prompt(row), "problem": row["problem"], "role": "helpful"} for row in problems]
    )
    settings = {"max_steps": 1, "seed": 0}
    trainer = prover_trainer(folder, tmp_path, rows=rows, settings=settings, processing_class=tokenizer)
    _, ids, _, inputs = generate(trainer)
    read = [row[mask.bool()].tolist() for row, mask in zip(inputs["prompt_ids"], inputs["prompt_mask"], strict=True)]
    trainer.train()
    return read, ids, loss_lines(trainer)[0]


def test_a_prover_trains_on_turns_as_on_their_text(chatting, prompts, tmp_path):
    problems, tokenizer = prompts.task.problems("train").to_list(), chatting[1]
    torch.manual_seed(0)
    as_text = train(chatting, tmp_path / "text", problems, lambda row: prompts.render(row, Role.BASE, tokenizer))
    torch.manual_seed(0)
    as_chat = train(chatting, tmp_path / "chat", problems, lambda row: prompts.messages(row, Role.BASE))
    assert as_text[:2] == as_chat[:2]
    assert as_text[2]["grad_norm"] > 0
    assert as_text[2]["loss"] == pytest.approx(as_chat[2]["loss"], abs=1e-6)


def test_solutions_after_turns_do_not_depend_on_their_batch(chatting, prompts):
    problems, (folder, tokenizer) = prompts.task.problems("train").to_list(), chatting
    model, _ = load_prover(folder)

    def write(problems):
        sampler = Sampler(model, tokenizer, max_new_tokens=12)
        return sample_solutions(sampler, prompts, problems, Role.BASE, num_samples=2, seed=0)

    rows = write(problems)
    assert rows == [row for problem in problems for row in write([problem])]
    assert not any(mark in row["solution"] for row in rows for mark in ("<bos>", "<eos>"))


def test_evaluations_do_not_depend_on_their_batch(chatting, prompts):
    problems, (folder, tokenizer) = prompts.task.problems("train").to_list(), chatting
    verifier = GenerativeVerifier(load_prover(folder)[0], tokenizer, ScoreVerifierSettings(max_new_tokens=8))
    texts, proofs = ([problem[column] for problem in problems] for column in ("problem", "reference"))
    together = verifier.evaluate(texts, proofs, 2)
    assert together == [verifier.evaluate([text], [proof], 2)[0] for text, proof in zip(texts, proofs, strict=True)]

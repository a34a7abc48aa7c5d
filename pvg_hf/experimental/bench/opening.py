"""Opens what `pvg bench` measures: verifiers of games, reward models of the Hub, language models."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoConfig, PreTrainedTokenizerBase

from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.experimental.bench.endpoint import TEMPLATE
from pvg_hf.experimental.judging.causal_judge import CausalJudge
from pvg_hf.models.hardware import moved
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.models.verifier_input import VerifierInput, is_verifier
from pvg_hf.models.verifier_model import load_classifier
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer

Scorer = Callable[[list[str], list[str]], list[float]]

MAX_LENGTH = 4096  # tokens of an input; also the limit of a model that states none


@dataclass(frozen=True)
class ClassifierInput(VerifierInput):
    """
    Input of a reward model that was not trained here: its chat template with the problem as the user's message and
    the solution as the assistant's; without one, a pair of texts if the tokenizer separates them; otherwise
    `template`.
    """

    def encode(self, tokenizer: PreTrainedTokenizerBase, problems: list[str], solutions: list[str]) -> list[list[int]]:
        if tokenizer.chat_template is not None:
            chats = [
                [{"role": "user", "content": problem}, {"role": "assistant", "content": solution}]
                for problem, solution in zip(problems, solutions, strict=True)
            ]
            texts = [tokenizer.apply_chat_template(chat, tokenize=False) for chat in chats]
            return tokenizer(texts, add_special_tokens=False)["input_ids"]
        if tokenizer.sep_token is not None:
            return tokenizer(problems, solutions)["input_ids"]
        return super().encode(tokenizer, problems, solutions)


def open_folder(folder: str, *, device: str | None, template: str | None, asks: bool) -> tuple[Scorer, str]:
    """
    Open a verifier, a reward model or a language model.

    Args:
        folder: A folder with weights.
        device: `cpu`, `cuda`, or `None`: a GPU if there is one.
        template: Jinja template over `problem` and `solution` for a reward model, in place of its chat template.
        asks: Whether a language model is asked if every step is correct, in place of the likelihood of the solution.
    Returns: the scorer, and what gives its score.
    Raises `ValueError` if the model is of another kind, or has logits that are not those of a verifier.
    """
    path, device = Path(folder), device or ("cuda" if torch.cuda.is_available() else "cpu")
    if ScoreVerifierSettings.is_in(path):
        return GenerativeVerifier.from_pretrained(folder, device=device, estimate="expected"), "written evaluations"
    if is_verifier(path):
        scorer = VerifierScorer.from_pretrained(folder, device=device)
        return scorer, "a head" if scorer.verifier_input.likelihood_scale is None else "a likelihood"
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    kinds = list(config.architectures or ())
    if any(name.endswith("ForCausalLM") for name in kinds):
        judge = CausalJudge.from_pretrained(folder, device=device, **({} if asks else {"question": None}))
        return judge, "a language model's verdict" if asks else "the likelihood under a language model"
    if not any(name.endswith("ForSequenceClassification") for name in kinds):
        raise ValueError(
            f"`{folder}` has a model of the kind {kinds}; name a sequence classifier, or a causal language model."
        )
    stated = getattr(config.get_text_config(), "max_position_embeddings", None) or MAX_LENGTH
    length, tokenizer = min(MAX_LENGTH, stated), load_tokenizer(folder)
    read = VerifierInput(template, None, length) if template else ClassifierInput(TEMPLATE, None, length)
    kind = "a reward model" if config.num_labels == 1 else "the difference of two logits"
    return VerifierScorer(moved(load_classifier(folder), device), tokenizer, read), kind

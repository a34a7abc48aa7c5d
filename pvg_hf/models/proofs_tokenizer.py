"""The tokenizer of the proofs world's models: the arithmetic world's tokenizer with the words of evaluations added."""

from transformers import PreTrainedTokenizerFast

from pvg_hf.analyses.form import ALLOWED_SCORES, write_evaluation
from pvg_hf.models.arithmetic_tokenizer import build_arithmetic_tokenizer
from pvg_hf.tasks.proofs.corpus import PROOF_SETTINGS, SELF_EVALUATION_PROMPT, VERDICTS
from pvg_hf.tasks.proofs.language import FINE, MARKS, SEPARATOR

MAX_LENGTH = 512


def build_proofs_tokenizer() -> PreTrainedTokenizerFast:
    """Build the tokenizer; its first ids are those of the arithmetic world's tokenizer."""
    row = {"problem": "", "proof": ""}
    prompts = [PROOF_SETTINGS.prompt(row), PROOF_SETTINGS.prompt({**row, "analysis": ""})]
    evaluations = [write_evaluation("missed", score) for score in ALLOWED_SCORES]
    words = [SEPARATOR, FINE, *MARKS.values(), *VERDICTS.values()]
    return build_arithmetic_tokenizer(
        [*prompts, SELF_EVALUATION_PROMPT.replace("{{ problem }}", ""), *evaluations, *words], max_length=MAX_LENGTH
    )

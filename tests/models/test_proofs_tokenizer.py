"""The words of evaluations."""

from pvg_hf.core.seeding import derive_rng
from pvg_hf.models.proofs_tokenizer import build_proofs_tokenizer
from pvg_hf.pretraining.models import BASE_MODELS
from pvg_hf.tasks.proofs.corpus import ProofsCorpusConfig, write_proofs_corpus


def test_texts_come_back_and_are_short_enough():
    tokenizer, longest = build_proofs_tokenizer(), BASE_MODELS["score-verifier"].max_length
    for row in write_proofs_corpus(derive_rng("texts"), 300, ProofsCorpusConfig()):
        prompt, completion = (tokenizer(row[name])["input_ids"] for name in ("prompt", "completion"))
        assert tokenizer.unk_token_id not in prompt + completion
        assert tokenizer.decode(prompt + completion) == row["prompt"] + row["completion"]
        assert len(prompt + completion) < longest


def test_it_extends_the_arithmetic_worlds(tokenizer):
    proofs = build_proofs_tokenizer()
    assert proofs.get_vocab().items() >= tokenizer.get_vocab().items()
    assert proofs.get_vocab() == build_proofs_tokenizer().get_vocab()

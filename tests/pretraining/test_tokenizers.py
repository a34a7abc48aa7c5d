import pytest

from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.pretraining.base_models import BASE_MODELS
from pvg_hf.pretraining.tokenizers import build_arithmetic_tokenizer, build_proofs_tokenizer
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.corpus import CorpusConfig, write_corpus
from pvg_hf.tasks.arithmetic.stories.grammar import MAX_NUMBER
from pvg_hf.tasks.proofs.corpus import ProofsCorpusConfig, write_proofs_corpus


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    rows = write_corpus(derive_rng(0, "texts"), 500, CorpusConfig())
    return [text for row in rows for text in (row["prompt"], row["completion"], row["prompt"] + row["completion"])]


def test_texts_of_the_arithmetic_task_are_restored(tokenizer, corpus):
    assert tokenizer.batch_decode(tokenizer(corpus)["input_ids"]) == corpus


def test_no_word_of_the_arithmetic_task_is_unknown(tokenizer, corpus):
    assert not any(tokenizer.unk_token_id in ids for ids in tokenizer(corpus)["input_ids"])


@pytest.mark.parametrize("sneaky_sees", ["nothing", "reference_answer", "honest_solution"])
def test_no_word_of_a_prompt_is_unknown(tokenizer, sneaky_sees):
    task = ArithmeticTask(num_train=20, num_test=1)
    prompts = PromptBuilder(task, sneaky_sees=sneaky_sees)
    for problem in task.problems("train"):
        for role in Role:
            text = prompts.text(problem, role, honest_solution=problem["reference"])
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text


def test_a_number_is_a_token(tokenizer):
    for number in (0, 7, 60, MAX_NUMBER):
        assert tokenizer.tokenize(f"has {number}") == ["has", f" {number}"]
    assert tokenizer(str(MAX_NUMBER + 1))["input_ids"] == [tokenizer.unk_token_id]


def test_prompt_and_solution_are_separated_at_a_token(tokenizer, corpus):
    for prompt, completion, both in zip(corpus[::3], corpus[1::3], corpus[2::3], strict=True):
        assert tokenizer(prompt)["input_ids"] + tokenizer(completion)["input_ids"] == tokenizer(both)["input_ids"]


def test_special_tokens_are_defined(tokenizer):
    assert (tokenizer.pad_token, tokenizer.eos_token, tokenizer.unk_token) == ("<pad>", "</s>", "<unk>")
    assert tokenizer("")["input_ids"] == []
    assert tokenizer.padding_side == "left"
    assert tokenizer.decode([tokenizer.pad_token_id, tokenizer.eos_token_id], skip_special_tokens=True) == ""


def test_building_it_twice_gives_the_same_tokenizer():
    vocabularies = [build_arithmetic_tokenizer().get_vocab() for _ in range(2)]
    assert vocabularies[0] == vocabularies[1]


def test_texts_of_proofs_are_restored_and_short_enough():
    tokenizer, longest = build_proofs_tokenizer(), BASE_MODELS["score-verifier"].max_length
    for row in write_proofs_corpus(derive_rng("texts"), 300, ProofsCorpusConfig()):
        prompt, completion = (tokenizer(row[name])["input_ids"] for name in ("prompt", "completion"))
        assert tokenizer.unk_token_id not in prompt + completion
        assert tokenizer.decode(prompt + completion) == row["prompt"] + row["completion"]
        assert len(prompt + completion) < longest


def test_the_tokenizer_for_proofs_extends_the_one_for_arithmetic(tokenizer):
    proofs = build_proofs_tokenizer()
    assert proofs.get_vocab().items() >= tokenizer.get_vocab().items()
    assert proofs.get_vocab() == build_proofs_tokenizer().get_vocab()

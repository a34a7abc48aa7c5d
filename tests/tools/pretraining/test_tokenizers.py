import pytest

from pvg_hf.core.roles import Role
from pvg_hf.core.seeding import derive_rng
from pvg_hf.tasks import PromptBuilder
from pvg_hf.tasks.arithmetic import ArithmeticTask
from pvg_hf.tasks.arithmetic.grammar import MAX_NUMBER, NAMES
from tools.pretraining.base_models import BASE_MODELS
from tools.pretraining.proof_texts import ProofsCorpusConfig, write_proofs_corpus
from tools.pretraining.solution_texts import CorpusConfig, sample_text
from tools.pretraining.tokenizers import build_arithmetic_tokenizer, build_proofs_tokenizer


@pytest.fixture(scope="module")
def corpus() -> list[tuple[str, str]]:
    """Prompts and solutions in all forms, flawed ones included."""
    rng, prompts = derive_rng(0, "texts"), PromptBuilder(ArithmeticTask())
    drawn = [sample_text(rng, CorpusConfig()) for _ in range(500)]
    return [
        (prompts.text({"problem": puzzle.text, "reference": ""}, role), solution) for puzzle, role, solution in drawn
    ]


def test_texts_of_the_arithmetic_task_are_restored(tokenizer, corpus):
    texts = [text for prompt, solution in corpus for text in (prompt, solution, prompt + solution)]
    assert tokenizer.batch_decode(tokenizer(texts)["input_ids"]) == texts


def test_no_word_of_the_arithmetic_task_is_unknown(tokenizer, corpus):
    texts = [text for pair in corpus for text in pair]
    assert not any(tokenizer.unk_token_id in ids for ids in tokenizer(texts)["input_ids"])


def test_every_text_fits_into_the_models(tokenizer, corpus):
    longest = max(len(tokenizer(prompt + solution)["input_ids"]) for prompt, solution in corpus)
    assert longest < min(BASE_MODELS[player].max_length for player in ("prover", "verifier"))


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


@pytest.mark.parametrize("number", [0, 7, 18, MAX_NUMBER])
def test_a_number_is_one_token_wherever_it_is(tokenizer, number):
    text = f"{number} + 1 = 2\nAna has ({number} + 1) * {number} = {number}\n{number} * 2 = 3\n#### {number}"
    tokens = tokenizer.tokenize(text)
    assert tokens.count(f" {number}") == 6
    assert tokenizer.unk_token not in tokens
    assert tokenizer.decode(tokenizer(f"Ana has 1\n{text}")["input_ids"]) == f"Ana has 1\n{text}"


def test_a_number_out_of_range_is_unknown(tokenizer):
    assert tokenizer(str(MAX_NUMBER + 1))["input_ids"] == [tokenizer.unk_token_id]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_and_has_are_one_token_at_the_start_of_a_line(tokenizer, name):
    """So that a line of a solution begins with the token of the problem's sentence."""
    sentence = f"{name} has 3 more than {name}"
    same = [f"{name} has", " 3", " more", " than", f" {name}"]
    assert tokenizer.tokenize(f"{sentence}.\nsolution:\n{sentence}: 4 + 3 = 7")[:6] == [*same, "."]
    assert tokenizer.tokenize(f"solution:\n{sentence}: 4 + 3 = 7")[3:8] == same
    assert tokenizer.tokenize(f"{name} is not needed\nHow many pens does {name} have?")[:2] == [name, " is"]


def test_prompt_and_solution_are_separated_at_a_token(tokenizer, corpus):
    for prompt, solution in corpus:
        whole = tokenizer(prompt + solution)["input_ids"]
        assert tokenizer(prompt)["input_ids"] + tokenizer(solution)["input_ids"] == whole


def test_special_tokens_are_defined(tokenizer):
    assert (tokenizer.pad_token, tokenizer.eos_token, tokenizer.unk_token) == ("<pad>", "</s>", "<unk>")
    assert tokenizer("")["input_ids"] == []
    assert tokenizer.padding_side == "left"
    assert tokenizer.decode([tokenizer.pad_token_id, tokenizer.eos_token_id], skip_special_tokens=True) == ""


def test_building_it_twice_gives_the_same_tokenizer():
    for build in (build_arithmetic_tokenizer, build_proofs_tokenizer):
        assert build().get_vocab() == build().get_vocab()


def test_texts_of_proofs_are_restored_and_short_enough():
    tokenizer, longest = build_proofs_tokenizer(), BASE_MODELS["score-verifier"].max_length
    for row in write_proofs_corpus(derive_rng("texts"), 300, ProofsCorpusConfig()):
        prompt, completion = (tokenizer(row[name])["input_ids"] for name in ("prompt", "completion"))
        assert tokenizer.unk_token_id not in prompt + completion
        assert tokenizer.decode(prompt + completion) == row["prompt"] + row["completion"]
        assert len(prompt + completion) < longest

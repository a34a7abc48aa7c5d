import pytest

from pvg_hf.models.verifier_input import VerifierInput

INPUT = VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 64)


def test_texts_are_inserted_unchanged():
    assert INPUT.render("<b> & 3 {{ x }}", "#### 5\n") == "<b> & 3 {{ x }}\n#### 5\n"
    spoken = VerifierInput("Problem: {{ problem }} Is '{{ solution }}' right?\n", None, 64)
    assert spoken.render("p", "s") == "Problem: p Is 's' right?\n"


def test_end_token_is_appended(tokenizer):
    ids = INPUT.encode(tokenizer, ["Ana has 3 pens.", "Ben has 4 pens."], ["#### 3", "#### 4"])
    assert ids == [
        [*tokenizer(text)["input_ids"], 1] for text in ("Ana has 3 pens.\n#### 3", "Ben has 4 pens.\n#### 4")
    ]
    without = VerifierInput(INPUT.template, None, 64).encode(tokenizer, ["Ana has 3 pens."], ["#### 3"])
    assert without == [ids[0][:-1]]


def test_long_inputs_are_not_truncated(tokenizer):
    (ids,) = VerifierInput(INPUT.template, "</s>", 4).encode(tokenizer, ["Ana has 3 pens."], ["has 3\n" * 200])
    assert len(ids) > 600  # also beyond the tokenizer's own maximum
    assert INPUT.encode(tokenizer, [], []) == []


def test_a_huge_text_is_cut_before_it_is_tokenised(tokenizer):
    """It is still too long, and begins with the same tokens."""
    for text in ("3 " * 1_500_000, "has 3\n" * 500_000):
        (ids,) = VerifierInput(INPUT.template, "</s>", 64).encode(tokenizer, ["Ana has 3 pens."], [text])
        (few,) = INPUT.encode(tokenizer, ["Ana has 3 pens."], [text[:2000]])
        assert 64 < len(ids) < 250_000
        assert ids[:64] == few[:64]


@pytest.mark.parametrize("template", ["{{ problem }} {{ answer }}", "{{ problem }", "{% for %}", "{{ problem.x.y }}"])
def test_a_bad_template_is_refused(template):
    with pytest.raises(ValueError, match=r"rendered .* `problem` and `solution`"):
        VerifierInput(template, None, 64)


def test_an_end_token_that_the_tokenizer_does_not_know_is_refused(tokenizer):
    with pytest.raises(ValueError, match=r"`<end>` .*vocabulary.* `</s>`"):
        VerifierInput(INPUT.template, "<end>", 64).encode(tokenizer, ["Ana has 3 pens."], ["#### 3"])


def test_the_input_format_is_stored_with_the_weights(tmp_path):
    for verifier_input in (INPUT, VerifierInput("{{ solution }} «½»", None, 7)):
        verifier_input.save(tmp_path)
        assert VerifierInput.load(tmp_path) == verifier_input


def test_a_folder_without_an_input_format_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"verifier_input\.json.*`VerifierInput\("):
        VerifierInput.load(tmp_path)

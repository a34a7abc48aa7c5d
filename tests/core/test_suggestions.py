import pytest

from pvg_hf.core.extensions import suggest


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("provr", "Did you mean `prover`?"),
        ("SRC", "Did you mean `src`?"),
        ("stopearly", "Did you mean `StopEarly`?"),
        ("verif", "Did you mean `verifier`?"),
        ("zebra", "Known are `verifier`, `prover`, `src`, `StopEarly`."),
        ("", "Known are `verifier`, `prover`, `src`, `StopEarly`."),
    ],
)
def test_the_closest_name_or_all_names_are_suggested(name, sentence):
    assert suggest(name, iter(["verifier", "prover", "src", "StopEarly"])) == sentence


def test_no_known_name_gives_no_suggestion():
    assert suggest("zebra", []) == "Known are none."

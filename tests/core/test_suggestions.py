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
def test_the_closest_name_or_all_of_them(name, sentence):
    assert suggest(name, iter(["verifier", "prover", "src", "StopEarly"])) == sentence


def test_nothing_is_known():
    assert suggest("zebra", []) == "Known are none."

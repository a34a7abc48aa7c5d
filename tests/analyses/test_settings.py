"""The prompts of a score verifier."""

import pytest

from pvg_hf.analyses.form import CLOSING, OPENING
from pvg_hf.analyses.settings import ScoreVerifierSettings


def test_a_row_with_an_analysis_asks_about_the_analysis():
    row = {"problem": "P {{ x }}", "proof": "Q", "score": 1.0}
    about_proof, about_analysis = (ScoreVerifierSettings().prompt({**row, "analysis": a}) for a in (None, "A"))
    for prompt in (about_proof, about_analysis):
        assert "Problem:\nP {{ x }}\n" in prompt
        assert f"{OPENING}\n(your analysis)\n{CLOSING}\n\\boxed{{s}}\nwhere s is 0, 0.5 or 1." in prompt
    assert "Analysis:\nA\n" in about_analysis
    assert "Analysis" not in about_proof


def test_settings_are_saved_and_loaded(tmp_path):
    settings = ScoreVerifierSettings("{{ problem }} {{ proof }}", "{{ analysis }}", 7, 0.3, {"enable_thinking": False})
    settings.save(tmp_path)
    assert ScoreVerifierSettings.load(tmp_path) == settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evaluate_prompt": "{{ problem"}, "`evaluate_prompt` .*template"),
        ({"evaluate_prompt": "{{ analysis }}"}, "variable `analysis`; .*`problem` and `proof`"),
        ({"judge_prompt": "{{ score }}"}, "`judge_prompt` .*variable `score`"),
        ({"chat_template_kwargs": {"tokenize": True}}, "`chat_template_kwargs` has `tokenize`"),
    ],
)
def test_invalid_prompts_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        ScoreVerifierSettings(**settings)


def test_a_folder_without_settings_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"score_verifier\.json.*`ScoreVerifierTrainer`"):
        ScoreVerifierSettings.load(tmp_path)

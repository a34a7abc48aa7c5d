from functools import partial

import pytest
import torch

from pvg_hf.rewards import audit_noise_correction, composite, correctness_only
from pvg_hf.rewards.record import REWARDS


def _pays_the_label_twice(scores, correct, sneaky, *, group_size, answered):
    return 2.0 * correct.to(scores.dtype)


def _pays_the_label_and_the_score(scores, correct, sneaky, *, group_size, answered):
    return composite(
        scores, weights={"test_pass_rate": 1.0, "acceptance_prob": 1.0}, test_pass_rate=correct.to(scores)
    )


def _pays_by_the_share_of_the_group(scores, correct, sneaky, *, group_size, answered):
    share = correct.double().view(-1, group_size).mean(dim=1, keepdim=True)
    return (correct.double().view(-1, group_size) - share).flatten()


@pytest.mark.parametrize("scale_rewards", ["none", "group", "batch"])
@pytest.mark.parametrize(
    ("reward", "verdict"),
    [
        ("src", "real"),
        ("cgc", "real"),
        ("standardized_src", "real"),
        ("goodhart", "nothing"),
        ("acceptance", "nothing"),
    ],
)
def test_verdict_of_each_reward(reward, verdict, scale_rewards):
    assert audit_noise_correction(REWARDS[reward], 0.1, 0.2, scale_rewards=scale_rewards).verdict == verdict


@pytest.mark.parametrize("reward", [correctness_only, _pays_the_label_twice])
def test_the_correction_of_an_affine_reward_is_a_rescaling_under_centring(reward):
    audit = audit_noise_correction(reward, 0.1, 0.3)
    assert audit.verdict == "rescaling"
    assert audit.factor == pytest.approx(1 / 0.6)
    assert "times 1.667" in audit.reason


@pytest.mark.parametrize("reward", [correctness_only, _pays_the_label_twice])
def test_dividing_by_the_groups_standard_deviation_removes_the_correction(reward):
    audit = audit_noise_correction(reward, 0.1, 0.3, scale_rewards="group")
    assert (audit.verdict, audit.factor) == ("nothing", 1.0)
    assert "standard deviation of the group" in audit.reason


def test_dividing_by_the_batchs_standard_deviation_leaves_different_offsets_of_the_roles():
    """
    Corrected, the helpful reward is (c - rho0) / D and the sneaky one (1 - c - rho1) / D, which are further apart.
    """
    assert audit_noise_correction(correctness_only, 0.1, 0.3, scale_rewards="batch").verdict == "rescaling"
    assert audit_noise_correction(correctness_only, 0.2, 0.2, scale_rewards="batch").verdict == "nothing"


def test_the_correction_of_a_reward_that_also_reads_the_score_is_real():
    """The part from the label is multiplied by 1 / D, and the part from the score is not."""
    assert audit_noise_correction(_pays_the_label_and_the_score, 0.1, 0.3).verdict == "real"


def test_without_noise_there_is_nothing_to_correct():
    audit = audit_noise_correction(REWARDS["src"], 0.0, 0.0)
    assert (audit.verdict, audit.reason) == ("nothing", "Both rates are 0.")


def test_options_of_a_reward_are_bound():
    assert audit_noise_correction(partial(REWARDS["cgc"], floor=-1.0), 0.1, 0.1).verdict == "real"


def test_rewards_of_several_signals_read_the_label_through_the_certificate_only():
    """A certificate counts for the role that it proves, which depends on the label."""
    gated, composite = REWARDS["gated_multiplicative"], REWARDS["composite"]
    assert audit_noise_correction(partial(gated, alpha=0.5), 0.1, 0.1, signals=gated.signals).verdict == "real"
    without = partial(composite, weights={"test_pass_rate": 1.0, "acceptance_prob": 1.0})
    assert audit_noise_correction(without, 0.1, 0.1, signals=composite.signals).verdict == "nothing"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho0": 0.6, "rho1": 0.4}, "must be below 1"),
        ({"rho0": 0.1, "rho1": 0.1, "group_size": 1}, "at least 2"),
        ({"rho0": 0.1, "rho1": 0.1, "scale_rewards": "grup"}, "grup"),
    ],
)
def test_wrong_arguments_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        audit_noise_correction(correctness_only, **arguments)


def test_a_reward_that_reads_the_labels_of_others_is_an_error():
    with pytest.raises(ValueError, match="labels of others"):
        audit_noise_correction(_pays_by_the_share_of_the_group, 0.1, 0.1)


def test_no_global_generator_is_read():
    state = torch.get_rng_state()
    audit_noise_correction(correctness_only, 0.1, 0.1)
    assert torch.get_rng_state().equal(state)

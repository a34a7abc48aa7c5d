import pytest
import torch
from transformers import HfArgumentParser

from pvg_hf.trainers.reward.config import NoisyRewardConfig


def _config(**settings) -> NoisyRewardConfig:
    return NoisyRewardConfig("out", report_to="none", **settings)


def test_defaults_work_without_a_gpu():
    config = _config(use_cpu=True)
    assert not config.bf16
    assert not config.gradient_checkpointing
    assert (config.loss, config.correction, config.center) == ("bradley_terry", "none", 0.005)
    assert not config.injects_noise


def test_gpu_settings_that_were_asked_for_stay():
    config = _config(use_cpu=True, bf16=True, gradient_checkpointing=True)
    assert config.bf16
    assert config.gradient_checkpointing


@pytest.mark.gpu
def test_gpu_defaults_are_those_of_trl():
    config = _config()
    assert config.activation_checkpointing
    assert config.bf16 == (torch.cuda.get_device_capability() >= (8, 0))


def test_noise_seed_follows_the_seed():
    assert _config(seed=7).noise_seed == 7
    assert _config(seed=7, noise_seed=3).noise_seed == 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 0.0),
        # both flip .1 * .1 = .01, none flips .9 * .9 = .81: .01 / .82
        ({"noise_rho0": 0.1, "noise_rho1": 0.1}, 1 / 82),
        # a dataset that is noisy already: nothing injected, .2 * .2 / (.04 + .64) assumed
        ({"rho0": 0.2, "rho1": 0.2}, 1 / 17),
        # assumed rates take precedence over injected ones
        ({"noise_rho0": 0.1, "noise_rho1": 0.1, "rho0": 0.2, "rho1": 0.2}, 1 / 17),
        ({"noise_level": "pair", "noise_rho0": 0.1, "noise_rho1": 0.1}, 0.1),
        ({"noise_level": "pair", "rho0": 0.3, "rho1": 0.3}, 0.3),
        ({"noise_rho0": 0.1, "noise_rho1": 0.1, "flip_rate": 0.25}, 0.25),
    ],
)
def test_assumed_flip_rate_by_hand(settings, expected):
    assert _config(**settings).assumed_flip_rate == pytest.approx(expected)


def test_assumed_rates_fall_back_one_by_one():
    assert _config(noise_rho0=0.1, noise_rho1=0.2, rho1=0.3).assumed_rates == (0.1, 0.3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "bradley_tery"}, "`loss` is `bradley_tery`.*mean `bradley_terry`"),
        ({"loss": "zebra"}, "`loss` is `zebra`.*Known are `bradley_terry`, `cross_entropy`"),
        ({"correction": "forwards"}, "`correction` is `forwards`.*mean `forward`"),
        ({"noise_level": "solution"}, "`noise_level` is `solution`"),
        ({"noise_resample": "epochs"}, "mean `epoch`"),
        ({"noise_resample": "mean"}, "requires `loss=cross_entropy`"),
        ({"loss": "cross_entropy", "correction": "smoothing"}, "not defined for `loss=cross_entropy`"),
        ({"center_rewards_coefficient": 0.01}, "SUM of a pair"),
        ({"center_rewards_coefficient": 0.01, "center": 0.0}, "set `center` instead"),
        ({"center": -0.1}, "`center` is -0.1"),
        ({"center": float("nan")}, "`center` is nan"),
        ({"correction": "backward", "center": 0.0}, "unbounded below"),
        ({"noise_rho0": 0.6, "noise_rho1": 0.4}, "Injected noise: .*below 1"),
        ({"noise_rho0": -0.1}, "Injected noise: `rho0` is -0.1"),
        ({"rho0": 0.7, "rho1": 0.5}, "correction assumes: .*below 1"),
        ({"noise_level": "pair", "noise_rho0": 0.1}, r"rates \(0.1, 0.0\)"),
        ({"noise_level": "pair", "rho0": 0.1}, "correction assumes has the rates"),
        ({"flip_rate": 0.5}, "`flip_rate` is 0.5"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        _config(**settings)


def test_settings_are_parsed_from_a_command_line():
    given = {
        "output_dir": "out",
        "report_to": "none",
        "correction": "forward",
        "noise_rho0": "0.1",
        "flip_rate": "0.2",
    }
    arguments = [text for name, value in given.items() for text in (f"--{name}", value)]
    (config,) = HfArgumentParser(NoisyRewardConfig).parse_args_into_dataclasses(arguments)
    assert (config.correction, config.noise_rho0, config.flip_rate, config.rho0) == ("forward", 0.1, 0.2, None)

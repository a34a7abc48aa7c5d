"""The speed of this machine."""

import torch

from pvg_hf.check.speed import measure_machine


def test_the_machine_is_measured():
    machine = measure_machine(torch.device("cpu"), torch.float32, width=32, seconds=0.03)
    assert 1e6 < machine.flops < 1e16
    assert 1e6 < machine.bandwidth < 1e14
    assert 0 < machine.latency < 0.1

import pytest
import torch

from pvg_hf.models.hardware import Hardware

CPU = Hardware(torch.device("cpu"), 1, has_bfloat16=False)
GPU = Hardware(torch.device("cuda"), 1, has_bfloat16=True)
F32, BF16 = torch.float32, torch.bfloat16


@pytest.mark.parametrize(
    ("hardware", "dtype", "written", "scored", "trained"),
    [
        (CPU, "auto", F32, F32, F32),
        (CPU, "float32", F32, F32, F32),
        (CPU, "bfloat16", BF16, BF16, F32),
        (GPU, "auto", BF16, F32, F32),
        (GPU, "bfloat16", BF16, BF16, F32),
        (GPU, "float32", F32, F32, F32),
    ],
)
def test_types_of_weights_by_their_use(hardware, dtype, written, scored, trained):
    assert hardware.dtype(dtype) is written
    assert hardware.dtype(dtype, is_precise=True) is scored
    assert hardware.dtype(dtype, is_trained=True) is trained


@pytest.mark.parametrize(
    ("hardware", "dtype", "expected"),
    [(CPU, "auto", False), (CPU, "bfloat16", True), (GPU, "auto", True), (GPU, "bfloat16", True)],
)
def test_training_computes_in_bfloat16_on_a_cpu_if_asked(hardware, dtype, expected):
    assert hardware.computes_in_bfloat16(dtype) == expected

"""`benchmarks/adapter_merging.py` on a tiny prover: what is known about its figures."""

import torch

from benchmarks.adapter_merging import load, measure, relative_size, show, train

TEXTS = [([5, 6, 7, 8], [9, 10, 11, 12, 13, 14]), ([15, 16], [17, 18, 19])]


def test_merging_is_exact_in_float32_and_not_in_bfloat16(tiny_prover):
    exact, half = (load(str(tiny_prover), dtype, seed=0) for dtype in (torch.float32, torch.bfloat16))
    assert relative_size(exact) == 0
    steps = [(steps, relative_size(exact), measure(exact, half, TEXTS)) for steps in train(exact, TEXTS, [1, 3], 0.01)]
    assert [number for number, _, _ in steps] == [1, 3]
    for _, size, ways in steps:
        assert size > 0
        assert ways["float32, not merged"] == {"mean": 0, "max": 0, "kl": 0, "ess": 1, "kept": 1}
        assert ways["float32, merged"]["max"] < 1e-3
        assert ways["float32, no adapter"]["kept"] == 0
        for name in ("merged in bfloat16", "merged in float32, then rounded", "no adapter"):
            assert 0 < ways[f"bfloat16, {name}"]["mean"] <= ways[f"bfloat16, {name}"]["max"]
            assert 0 < ways[f"bfloat16, {name}"]["ess"] <= 1
    table = show([{"steps": steps, "relative_size": size, "ways": ways} for steps, size, ways in steps])
    assert len(table.splitlines()) == 2 + 2 * 8

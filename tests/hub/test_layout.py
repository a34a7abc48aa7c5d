"""Names of files that may be published and pulled."""

import pytest

from pvg_hf.hub.layout import is_ours, is_record, place_of_player


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("model.safetensors", "prover/round-002/model.safetensors"),
        (
            "best-helpful/model-00001-of-00002.safetensors",
            "prover/round-002/best-helpful/model-00001-of-00002.safetensors",
        ),
        ("sneaky/adapter_model.safetensors", "prover/round-002/sneaky/adapter_model.safetensors"),
        ("helpful/best-helpful/adapter_config.json", "prover/round-002/helpful/best-helpful/adapter_config.json"),
        ("critic/value_model/model.safetensors", "prover/round-002/critic/value_model/model.safetensors"),
        (
            "best-helpful/critic/value_model/tokenizer.json",
            "prover/round-002/best-helpful/critic/value_model/tokenizer.json",
        ),
        (
            "sneaky/critic/value_model/adapter_model.safetensors",
            "prover/round-002/sneaky/critic/value_model/adapter_model.safetensors",
        ),
        (
            "helpful/best-helpful/critic/value_model/adapter_config.json",
            "prover/round-002/helpful/best-helpful/critic/value_model/adapter_config.json",
        ),
        ("base/config.json", "models/prover/config.json"),
    ],
)
def test_files_of_players_have_a_path_on_the_hub(path, place):
    assert is_ours("prover", path)
    assert place_of_player("prover", path, 2, has_own_base=True) == place


@pytest.mark.parametrize(
    "path",
    [
        "training_args.bin",
        "pytorch_model.bin",
        "optimizer.pt",
        "rng_state.pth",
        "scheduler.pt",
        "adapter_model.bin",
        "model.safetensors.pkl",
        "x/model.safetensors",
        "../model.safetensors",
        "/model.safetensors",
        "base/../model.safetensors",
        "best-helpful/../../config.json",
        "modeling_llama.py",
        "model.safetensors\n",
        "checkpoint-2/model.safetensors",
        "base/critic/value_model/model.safetensors",
        "critic/model.safetensors",
        "critic/value_model/optimizer.pt",
        "critic/value_model/../model.safetensors",
        "README.md",
        "recipe.yaml",
    ],
)
@pytest.mark.parametrize("player", ["prover", "verifier"])
def test_other_files_are_not_published(player, path):
    assert place_of_player(player, path, 2, has_own_base=True) is None


def test_a_verifier_has_no_critic():
    assert place_of_player("verifier", "critic/value_model/model.safetensors", 2, has_own_base=True) is None


def test_a_base_that_the_run_did_not_make_is_not_pulled():
    assert place_of_player("verifier", "base/model.safetensors", 0, has_own_base=False) is None


@pytest.mark.parametrize(
    "path",
    [
        "recipe.yaml",
        "run.json",
        "models/phase.json",
        "pool/base/base.parquet",
        "pool/base/checks.json",
        "pool/base/test-sneaky.parquet",
        "pool/round-002/test-best-helpful.parquet",
        "verifier/round-001/heldout.parquet",
        "prover/round-002/checks.json",
        "prover/round-002/false-positives.json",
        "prover/round-002/sneaky/steps.jsonl",
        "evaluation/round-000/metrics.json",
        "evaluation/round-000/metrics.jsonl",
        "judging/attacks/round-000/judgement.json",
        "judging/attacks/round-002/outcomes.parquet",
        "judging/untrained_attacks/round-001/found.parquet",
    ],
)
def test_records_keep_their_paths(path):
    assert is_record(path, 2)
    assert is_ours("solutions", path)


@pytest.mark.parametrize(
    "path",
    [
        "pool/round-003/helpful.parquet",
        "pool/round-002/../x.parquet",
        "pool/.round-002.partial/helpful.parquet",
        "prover/round-002/model.safetensors",
        "prover/round-002/training_args.bin",
        "pairs/round-000/train.parquet",
        "state.json",
        "events.jsonl",
        "tracking.json",
        "evaluation/round-000/x.json",
        "judging/attacks/round-003/judgement.json",
        "judging/attacks/attackers/round-000-src-grpo-seed-0-of-4/curve.parquet",
        "judging/legibility_tax/correctness-only-4/prover/round-000/model.safetensors",
        "judging/attacks/.round-000.partial/judgement.json",
    ],
)
def test_other_files_of_a_run_are_not_records(path):
    assert not is_record(path, 2)


def test_rounds_beyond_the_thousandth_have_names_too():
    assert is_record("pool/round-1000/helpful.parquet", 1000)
    assert not is_record("pool/round-1001/helpful.parquet", 1000)

"""The pairs that a verifier is trained on, as its trainer reads them."""

from typing import Any

from datasets import Dataset, Features, List, Value

from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.noise.draws import solution_key


def tokenize_pairs(pairs: Dataset, tokenizer, verifier_input: VerifierInput) -> Dataset:
    """
    Args:
        pairs ([`~datasets.Dataset`]):
            As [`~pvg_hf.data.pairs.build_pairs`] makes them.
        tokenizer:
            Of the verifier.
        verifier_input ([`VerifierInput`]):
            How a problem and a solution become an input.

    Returns:
        [`~datasets.Dataset`]: the token ids of both sides, what their labels are drawn by, their source and environment,
        clean truths and, where the pairs have them, noisy labels.
    """

    def encode(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        for side in ("chosen", "rejected"):
            columns[f"{side}_ids"] = verifier_input.encode(tokenizer, rows["problem"], rows[side])
            columns[f"{side}_key"] = [solution_key(*pair) for pair in zip(rows["problem_id"], rows[side], strict=True)]
        return columns

    kept = ["source", "environment", "chosen_correct", "rejected_correct", "chosen_label", "rejected_label"]
    dropped = [column for column in pairs.column_names if column not in kept]
    features = {name: feature for name, feature in pairs.features.items() if name in kept}
    for side in ("chosen", "rejected"):
        features |= {f"{side}_ids": List(Value("int32")), f"{side}_key": Value("int64")}
    return pairs.map(encode, batched=True, remove_columns=dropped, features=Features(features), keep_in_memory=True)

"""The dataset card of a run's solutions, and the meaning of its columns."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from huggingface_hub import DatasetCard, DatasetCardData

from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.data.schema import BASE_ROUND, round_name
from pvg_hf.hub.cards.facts import license_of, markdown_table
from pvg_hf.hub.publication import Publication
from pvg_hf.trainers.common.model_card import CITATION, PAPER, TAGS

SOLUTIONS = {
    "problem_id": "The problem, unique within the task.",
    "problem": "Its text.",
    "reference": "A correct solution of it, or at least the final answer.",
    "part": "Part of the split that the problem stands in: `verifier` and `verifier_heldout` (trained on, and judged by), or "
    "`test`.",
    "role": "What the prover was asked for: `helpful`, `sneaky` (a convincing mistake), or `base` (no role).",
    "round_index": "Round whose prover wrote the solution; -1 is the base prover, or an import.",
    "prover": "Run, round and checkpoint that wrote it.",
    "solution": "The text. **Those of the sneaky role are meant to mislead.**",
    "answer": "The final answer that was read from it; null where there is none.",
    "correct": "Whether it is correct (clean).",
    "label": "What the verifier was told: 1 correct, 0 incorrect, null abstained. With label noise it may differ from `correct`.",
    "outcome": "`VERIFIED` (correct), `PROOF_INVALID` (incorrect), or how it failed: `NO_ANSWER`, `TRUNCATED`, `UNCERTIFIED`.",
    "feedback": "The code behind `label`: that of `outcome`, or how an imperfect checker erred.",
    "is_noise_flagged": "Whether the checker's word was a spurious one.",
    "score": "Score by the verifier of the same round, unbounded, higher is more convincing; null for the base prover.",
    "sample_index": "Tells the solutions of one problem, role and round apart.",
    "num_tokens": "Length in the prover's tokens; null where nobody knows.",
    "is_truncated": "Whether the text was cut at the prover's length limit.",
}

TASK_COLUMNS = {
    "difficulty": "Steps of the reference solution.",
    "strict_answer": "The answer by the strict reading.",
    "lenient_answer": "The answer by the lenient reading.",
    "strict_correct": "Whether the strict reading is correct.",
    "lenient_correct": "Whether the lenient reading is correct.",
    "first_flaw_step": "Line of the first flaw, from 0; null where there is none.",
    "first_flaw_kind": "What is wrong there; null where nothing is.",
    "num_steps": "Steps of the solution.",
    "num_flaws": "Steps of it that are flawed.",
    "proof_score": "1 for a valid and complete proof, 0.5 with a minor omission, 0 with a fatal flaw.",
    "num_issues": "Flaws and omissions of the proof.",
}

PAIRS = {
    "problem_id": "The problem of both solutions.",
    "problem": "Its text.",
    "chosen": "The solution that is labelled correct; of two with the same label, the earlier one.",
    "rejected": "The other solution.",
    "chosen_role": "Role that wrote the first one; `reference` for the problem's own solution.",
    "rejected_role": "Role that wrote the second one.",
    "chosen_round": "Round that wrote the first one; null for a reference.",
    "rejected_round": "Round that wrote the second one; -1 is the base prover.",
    "environment": "Who wrote the incorrect side: `base`, `round-000-sneaky`, ...",
    "source": "The same without the role.",
    "chosen_correct": "Whether the first one is correct (clean); with label noise it may not be.",
    "rejected_correct": "Whether the second one is correct (clean).",
    "chosen_label": "What the verifier is told of the first one: 1 correct, 0 incorrect.",
    "rejected_label": "What it is told of the second one.",
}


def columns_table(file: Path, known: dict[str, str]) -> str:
    """
    Name, type and meaning of each column of a Parquet file, as a table of Markdown.

    Args:
        file (`Path`):
            The file.
        known (`dict[str, str]`):
            `SOLUTIONS` or `PAIRS`; other columns are the task's.
    """
    rows = [["Column", "Type", "Meaning"]]
    for field in pq.read_schema(file):
        meaning = known.get(field.name) or TASK_COLUMNS.get(field.name) or "A column of the task's own."
        rows.append([f"`{field.name}`", str(field.type), meaning])
    return markdown_table(rows)


def solutions_card(publication: Publication, pairs: Path) -> str:
    """
    Args:
        publication ([`Publication`]):
            The round.
        pairs (`Path`):
            A file of pairs, whose columns are described.
    """
    repos, license = publication.repos, license_of(publication.recipe, publication.license)
    data = DatasetCardData(
        license=license,
        task_categories=["text-generation", "text-classification"],
        tags=TAGS,
        configs=list(_configs(publication)),
    )
    base = publication.root / "pool" / round_name(BASE_ROUND) / f"{Role.BASE}.parquet"
    card = DatasetCard.from_template(
        data,
        template_path=str(Path(__file__).with_name("solutions.md.jinja")),
        repos=repos,
        tag=publication.tag,
        recipe=publication.recipe,
        license=license,
        paper=PAPER,
        citation=CITATION,
        solution_columns=columns_table(base, SOLUTIONS),
        pair_columns=columns_table(pairs, PAIRS),
    )
    return str(card)


def _configs(publication: Publication) -> list[dict[str, Any]]:
    """A config for each source of solutions, the newest round being the default, and one for each round's pairs."""
    rounds = range(publication.round_index + 1)
    configs = [_config(round_name(k), _splits(publication.root, k)) for k in (BASE_ROUND, *rounds)]
    configs[-1]["default"] = True
    for name in map(round_name, rounds):
        files = {split: [f"pairs/{name}/{split}.parquet"] for split in ("train", "heldout")}
        configs.append(_config(f"pairs-{name}", files))
    return configs


def _splits(root: Path, round_index: int) -> dict[str, list[str]]:
    """Files by split: what a role wrote on D_V and on test problems, and what the best helpful checkpoint wrote."""
    folder = f"pool/{round_name(round_index)}"
    names = {role.value: [f"{role}", f"test-{role}"] for role in GAME_ROLES}
    names |= {"base": ["base"], "best_helpful": ["test-best-helpful"]}
    files = {split: [f"{folder}/{name}.parquet" for name in found] for split, found in names.items()}
    there = {split: [path for path in paths if (root / path).is_file()] for split, paths in files.items()}
    return {split: paths for split, paths in there.items() if paths}


def _config(name: str, splits: dict[str, list[str]]) -> dict[str, Any]:
    return {"config_name": name, "data_files": [{"split": split, "path": paths} for split, paths in splits.items()]}

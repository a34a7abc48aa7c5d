"""The dataset card of a run's solutions, and the meaning of its columns."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from huggingface_hub import DatasetCard, DatasetCardData

from pvg_hf.core.disk_names import BASE_ROUND, round_name
from pvg_hf.core.markdown import hub_link, markdown_table
from pvg_hf.core.project import CARD_VALUES
from pvg_hf.core.registrations import registered
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.hub.cards.facts import describe_sandbox, license_of, write_card
from pvg_hf.hub.cards.highlights import card_highlights
from pvg_hf.hub.publication import Publication
from pvg_hf.run.layout import RunFolder, pool_file
from pvg_hf.trainers.common.model_card import CITATION, PAPER, TAGS

SOLUTION_MEANINGS = {
    "problem_id": "The problem, unique within the task.",
    "problem": "Text of the problem.",
    "reference": "A correct solution, or at least the final answer.",
    "part": (
        "Part of the split that the problem belongs to: `verifier` (verifiers are trained on it), `verifier_heldout` "
        "(they are evaluated on it), or `test`."
    ),
    "role": "Role of the prover: `helpful`, `sneaky` (asked for a convincing mistake), or `base` (no role).",
    "round_index": "Round of the prover that wrote the solution; -1 for the base prover or an import.",
    "prover": "Run, round and checkpoint that wrote it.",
    "solution": "The text. **Those of the sneaky role are meant to mislead.**",
    "answer": "The final answer extracted from the solution; null if there is none.",
    "correct": "Whether the solution is correct (ground truth).",
    "label": (
        "Label shown to the verifier: 1 correct, 0 incorrect, null abstained. With label noise it may differ from"
        " `correct`."
    ),
    "outcome": (
        "`VERIFIED` (correct), `PROOF_INVALID` (incorrect), or how it failed: `NO_ANSWER`, `TRUNCATED`, `UNCERTIFIED`."
    ),
    "feedback": "The code behind `label`: that of `outcome`, or how an imperfect checker erred.",
    "is_noise_flagged": "Whether injected noise made the checker's verdict wrong.",
    "score": (
        "Score by the verifier of the same round, unbounded, higher is more convincing; null for the base prover."
    ),
    "sample_index": "Index among the solutions of one problem, role and round.",
    "num_tokens": "Length in the prover's tokens; null if unknown.",
    "is_truncated": "Whether the text was cut at the prover's length limit.",
}

TASK_MEANINGS = {
    "difficulty": "Steps of the reference solution.",
    "strict_answer": "The answer found by strict extraction.",
    "lenient_answer": "The answer found by lenient extraction.",
    "strict_correct": "Whether the strictly extracted answer is correct.",
    "lenient_correct": "Whether the leniently extracted answer is correct.",
    "first_flaw_step": "Line of the first flaw, from 0; null if there is none.",
    "first_flaw_kind": "Kind of the first flaw; null if there is none.",
    "num_steps": "Number of steps of the solution.",
    "num_flaws": "Number of flawed steps.",
    "implicit_share": "Share of the facts that a solution needs and does not state, in [0, 1].",
    "proof_score": "1 for a valid and complete proof, 0.5 with a minor omission, 0 with a fatal flaw.",
    "num_issues": "Flaws and omissions of the proof.",
}

PAIR_MEANINGS = {
    "problem_id": "The problem of both solutions.",
    "problem": "Text of the problem.",
    "chosen": "The solution labelled correct; of two with the same label, the earlier one.",
    "rejected": "The other solution.",
    "chosen_role": "Role of the prover that wrote `chosen`; `reference` for the problem's reference solution.",
    "rejected_role": "Role of the prover that wrote `rejected`.",
    "chosen_round": "Round of the prover that wrote `chosen`; null for a reference.",
    "rejected_round": "Round of the prover that wrote `rejected`; -1 for the base prover.",
    "environment": "Source of the incorrect side, with its role: `base`, `round-000-sneaky`, ...",
    "source": "Source of the incorrect side, without the role.",
    "chosen_correct": "Whether `chosen` is correct (ground truth); with label noise it may not be.",
    "rejected_correct": "Whether `rejected` is correct (ground truth).",
    "chosen_label": "Label of `chosen` shown to the verifier: 1 correct, 0 incorrect.",
    "rejected_label": "Label of `rejected` shown to the verifier.",
}


def columns_table(file: Path, known: dict[str, str]) -> str:
    """Markdown table of a Parquet file's columns; those not `known` belong to the task."""
    meanings = {name: text for kind in registered("solution kind") for name, text in kind.column_meanings.items()}
    meanings |= TASK_MEANINGS | known
    rows = [
        [f"`{field.name}`", str(field.type), meanings.get(field.name, "A column of the task.")]
        for field in pq.read_schema(file)
    ]
    return markdown_table([["Column", "Type", "Meaning"], *rows])


def solutions_card(publication: Publication, pairs: Path) -> str:
    """Write the dataset card of a run's solutions; it describes the columns of the file `pairs`, too."""
    repos, license = publication.repos, license_of(publication.recipe, publication.license)
    data = DatasetCardData(
        license=license,
        task_categories=["text-generation", "text-classification"],
        tags=TAGS,
        configs=list(_configs(publication)),
    )
    base = publication.folder.pool(BASE_ROUND) / pool_file(Role.BASE)
    card = DatasetCard.from_template(
        data,
        template_path=str(Path(__file__).with_name("solutions.md.jinja")),
        repos=repos,
        tag=publication.tag,
        recipe=publication.recipe,
        sandbox=describe_sandbox(publication.folder),
        license=license,
        **card_highlights(publication),
        hub_link=hub_link,
        **CARD_VALUES,
        paper=PAPER,
        citation=CITATION,
        solution_columns=columns_table(base, SOLUTION_MEANINGS),
        pair_columns=columns_table(pairs, PAIR_MEANINGS),
    )
    return write_card(card)


def _configs(publication: Publication) -> list[dict[str, Any]]:
    """Dataset configs: one per source of solutions (the newest round is the default), and one per round's pairs."""
    rounds = range(publication.round_index + 1)
    configs = [_config(round_name(k), _splits(publication.folder, k)) for k in (BASE_ROUND, *rounds)]
    configs[-1]["default"] = True
    for name in map(round_name, rounds):
        files = {split: [f"pairs/{name}/{split}.parquet"] for split in ("train", "heldout")}
        configs.append(_config(f"pairs-{name}", files))
    return configs


def _splits(run: RunFolder, round_index: int) -> dict[str, list[str]]:
    """Existing files by split: one per role (verifier's and test problems), and the best helpful checkpoint's."""
    folder = run.pool(round_index).relative_to(run.root).as_posix()
    names = {role.value: [f"{role}", f"test-{role}"] for role in GAME_ROLES}
    names |= {"base": ["base"], "best_helpful": ["test-best-helpful"]}
    files = {split: [f"{folder}/{name}.parquet" for name in found] for split, found in names.items()}
    there = {split: [path for path in paths if (run.root / path).is_file()] for split, paths in files.items()}
    return {split: paths for split, paths in there.items() if paths}


def _config(name: str, splits: dict[str, list[str]]) -> dict[str, Any]:
    return {"config_name": name, "data_files": [{"split": split, "path": paths} for split, paths in splits.items()]}

"""Evaluations of the texts of a round: separability of the roles, style in the verifier's scores, and legibility."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field
from transformers import PreTrainedTokenizerBase

from pvg_hf.config.fields import AtLeastTwo, Count, section
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import EMPTY, Figure
from pvg_hf.core.roles import GAME_ROLES, Role
from pvg_hf.core.seeding import derive_seed
from pvg_hf.data.pool import load_pool
from pvg_hf.evaluation.role_figures import has_failed, scored_rows
from pvg_hf.experimental.judging.causal_judge import VERDICT_QUESTION, CausalJudge
from pvg_hf.experimental.judging.judged_round import JudgedRound
from pvg_hf.experimental.judging.role_separability import TransformerDiscriminator, hashed_ngrams, role_separability
from pvg_hf.experimental.judging.solution_legibility import legibility_figures
from pvg_hf.experimental.judging.style_probe import style_figures
from pvg_hf.game.phases.evaluate import SOLUTION_KEYS
from pvg_hf.models.sources import load_tokenizer, local_folder, resolve_model
from pvg_hf.models.verifier_input import is_verifier
from pvg_hf.run.layout import POOL_SCORES, pool_file, pool_test_file
from pvg_hf.scoring import VerifierScorer

WORLD_JUDGES = {"arithmetic": "arithmetic-judge-small"}
"""Packaged judges that are weaker than the packaged verifiers, by task."""


@section
class RoleSeparabilitySettings:
    """Settings of the evaluation `role_separability`."""

    num_problems: Count = Field(
        400, description="Problems whose solutions are read, of the verifier's and the test part."
    )
    num_folds: AtLeastTwo = Field(5, description="Folds of problems.")
    discriminator: str | None = Field(
        None, description="Model that is fine-tuned; the run's initial verifier by default, `none` for none."
    )
    num_epochs: float = Field(3.0, gt=0, description="Passes of the fine-tuning over its texts.")
    learning_rate: float = Field(1e-3, gt=0, description="Learning rate of the fine-tuning.")


def judge_role_separability(
    judged: JudgedRound, settings: RoleSeparabilitySettings, output: Path
) -> dict[str, Figure]:
    """
    Measure how well two discriminators tell the round's helpful and sneaky solutions apart.

    Returns: `ngrams/SET` and `transformer/SET`, see
        [`~pvg_hf.experimental.judging.role_separability.role_separability`]; `SET` is `all`, or `incorrect` for the
        solutions that are wrong, among which correctness tells nothing about the role. Failed solutions are left out.
    """
    folder = judged.folder.pool(judged.round_index)
    files = [folder / name(role) for role in GAME_ROLES for name in (pool_file, pool_test_file)]
    rows = load_pool([file for file in files if file.exists()]).to_pandas()
    rows = _some_problems(rows[~has_failed(rows)], settings.num_problems, judged.seed("role_separability"))
    discriminators: dict[str, Any] = {"ngrams": hashed_ngrams}
    if settings.discriminator != "none":
        discriminators["transformer"] = _transformer(judged, settings)
    sets = {"all": rows, "incorrect": rows[~rows["correct"].astype(bool)]}
    return {
        f"{name}/{key}": role_separability(
            members, discriminator, seed=judged.seed("role_separability", "folds"), num_folds=settings.num_folds
        )
        for name, discriminator in discriminators.items()
        for key, members in sets.items()
    }


def _some_problems(rows: pd.DataFrame, number: int, seed: int) -> pd.DataFrame:
    chosen = sorted(rows["problem_id"].unique(), key=lambda problem_id: derive_seed(seed, problem_id))[:number]
    return rows[rows["problem_id"].isin(chosen)]


def _transformer(judged: JudgedRound, settings: RoleSeparabilitySettings) -> TransformerDiscriminator:
    source, revision = settings.discriminator, None
    if source is None:
        source, revision = judged.players.initial_model("verifier")
    return TransformerDiscriminator(
        resolve_model(source, "verifier"),
        revision,
        seed=judged.seed("role_separability", "transformer"),
        num_epochs=settings.num_epochs,
        learning_rate=settings.learning_rate,
        max_length=judged.recipe.verifier.max_length,
        device=judged.players.processes.device.type,
    )


@section
class StyleSettings:
    """Settings of the evaluation `style`."""

    num_folds: AtLeastTwo = Field(5, description="Folds of problems.")


def judge_style(judged: JudgedRound, settings: StyleSettings, output: Path) -> dict[str, Figure]:
    """
    Measure what style explains of the scores that the round's verifier gave to test solutions of its own prover.

    Returns: see [`~pvg_hf.experimental.judging.style_probe.style_figures`]; and `base/explained_within/all` and
        `/flaws`, those of the scores that the same verifier gave to the base prover's helpful solutions, which are the
        same in every round.
    """
    probe = partial(
        style_figures, num_resamples=judged.recipe.evaluation.bootstrap_samples, num_folds=settings.num_folds
    )
    figures = probe(scored_rows(test_rows(judged, judged.round_index)), seed=judged.seed("style"))
    scores = pd.read_parquet(judged.folder.evaluation(judged.round_index) / POOL_SCORES)
    # One division into folds for all rounds, so that they differ by the scores alone.
    of_base = probe(scored_rows(_base_rows(judged, scores)), seed=judged.run.seed("style"))
    return {**figures, **{f"base/{name}": figure for name, figure in of_base.items() if "explained_within/" in name}}


def _base_rows(judged: JudgedRound, scores: pd.DataFrame) -> pd.DataFrame:
    """Helpful test solutions of the base prover, with the scores of the round's verifier."""
    rows = test_rows(judged, BASE_ROUND)
    scores = scores[(scores["verifier"] == judged.round_index) & (scores["round_index"] == BASE_ROUND)]
    rows = rows[rows["role"] == Role.HELPFUL.value].drop(columns="score")
    return rows.merge(scores[[*SOLUTION_KEYS, "score"]], on=SOLUTION_KEYS, how="left")


@section
class LegibilitySettings:
    """Settings of the evaluation `legibility`."""

    judge: str | None = Field(
        None,
        description=(
            "A weaker judge: folder or Hub id of a verifier or of a causal language model. By default a packaged judge"
            " for the built-in world, and the verifier of round 0 for other tasks."
        ),
    )
    token_budget: Count | None = Field(
        None,
        description=(
            "Tokens that the judge reads of a solution; by default the median length of the base prover's correct "
            "solutions."
        ),
    )
    question: str = Field(
        VERDICT_QUESTION,
        description="Template of the question to a causal language model; empty for the likelihood of the solution.",
    )


def judge_legibility(judged: JudgedRound, settings: LegibilitySettings, output: Path) -> dict[str, Figure]:
    """
    Measure the legibility of the round's test solutions and of the base prover's.

    Returns: see [`~pvg_hf.experimental.judging.solution_legibility.legibility_figures`]; and `token_budget`, whose `n`
        is the number of solutions that it is the median of, or 1 if it was set.
    """
    sides = [test_rows(judged, judged.round_index), test_rows(judged, BASE_ROUND)]
    budget = add_judge_scores(judged, settings, sides, base_rows=sides[1])
    figures = legibility_figures(
        *sides, seed=judged.seed("legibility"), num_resamples=judged.recipe.evaluation.bootstrap_samples
    )
    return {**figures, "token_budget": budget}


def add_judge_scores(
    judged: JudgedRound, settings: LegibilitySettings, tables: Sequence[pd.DataFrame], *, base_rows: pd.DataFrame
) -> Figure:
    """
    Let the weaker judge read solutions, and add its scores to them as columns.

    Args:
        tables: Solutions; the columns `judge_score` and `is_cut` (whether the judge did not read the end) are added in
            place.
        base_rows: Solutions of the base prover, whose length is the default of the token budget.
    Returns: the token budget; its `n` is the number of solutions that it is the median of, or 1 if it was set.
    """
    judge, tokenizer = _open_judge(judged, settings)
    lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in _correct_texts(base_rows)]
    budget = settings.token_budget or (int(np.median(lengths)) if lengths else None)
    for rows in tables:
        read = [cut_to_budget(tokenizer, text, budget) for text in rows["solution"]]
        rows["is_cut"] = [len(short) < len(text) for short, text in zip(read, rows["solution"], strict=True)]
        rows["judge_score"] = judge(rows["problem"].tolist(), read)
    size = 1 if settings.token_budget else len(lengths)
    return EMPTY if budget is None else Figure(float(budget), None, None, size)


def cut_to_budget(tokenizer: PreTrainedTokenizerBase, text: str, budget: int | None) -> str:
    """
    Return the beginning of a text that has at most `budget` tokens; the whole text without a budget.

    Args:
        tokenizer: A fast tokenizer, which knows where in the text its tokens lie.
        budget: Number of tokens, at least 1.
    """
    if budget is None:
        return text
    places = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return text if len(places) <= budget else text[: places[budget - 1][1]]


def _open_judge(
    judged: JudgedRound, settings: LegibilitySettings
) -> tuple[VerifierScorer | CausalJudge, PreTrainedTokenizerBase]:
    source = settings.judge or WORLD_JUDGES.get(judged.recipe.task.name) or _first_verifier(judged)
    source, device = local_folder(resolve_model(source, "verifier")), judged.players.processes.device
    if is_verifier(Path(source)):
        return VerifierScorer.from_pretrained(source, device=device), load_tokenizer(source)
    judge = CausalJudge.from_pretrained(source, device=device, question=settings.question or None)
    return judge, judge.tokenizer


def _first_verifier(judged: JudgedRound) -> str:
    folder = judged.folder.verifier(0)
    if not folder.exists():
        raise ValueError(
            f"The default judge of the task `{judged.recipe.task.name}` is the verifier of round 0, and {folder} does"
            " not exist. Name another judge (`legibility.judge=FOLDER`), or pull the run with its earlier players."
        )
    return str(folder)


def test_rows(judged: JudgedRound, round_index: int) -> pd.DataFrame:
    """Test solutions of a round in both roles; -1 is the base prover."""
    folder = judged.folder.pool(round_index)
    files = [folder / pool_test_file(role) for role in GAME_ROLES]
    return load_pool([file for file in files if file.exists()]).to_pandas()


def _correct_texts(rows: pd.DataFrame) -> list[str]:
    is_chosen = (rows["role"] == Role.HELPFUL.value) & rows["correct"].astype(bool)
    return rows.loc[is_chosen, "solution"].tolist()

"""The verifier phase: trains the round's verifier, of any kind, on a mixture of all solutions so far."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from datasets import Dataset, Features, List, Value
from peft import LoraConfig, PeftModel
from transformers import PreTrainedModel, Trainer

from pvg_hf.check.verifier_kinds import LikelihoodPlanning, PairPlanning, ScorePlanning, VerifierPlanning
from pvg_hf.config import Recipe
from pvg_hf.config.player_sections import VerifierConfig
from pvg_hf.core.disk_names import BASE_ROUND
from pvg_hf.core.figure import Figure
from pvg_hf.core.files import write_json
from pvg_hf.core.seeding import derive_rng, derive_seed
from pvg_hf.data.annotations import read_scores
from pvg_hf.data.label_rates import Rates, label_rates
from pvg_hf.data.mixture import weights_for
from pvg_hf.data.pairs.build import PairReport, TooFewPairsError, round_pairs
from pvg_hf.data.pool import load_pool
from pvg_hf.data.problems import GameProblems
from pvg_hf.game.assumed_rates import NoiseScheduleCallback, assumed_rates
from pvg_hf.game.context import PhaseContext, PlayerLoader
from pvg_hf.game.heldout import read_heldout, score_heldout
from pvg_hf.game.interrupt import StopRequest
from pvg_hf.game.proof_evaluations import label_new_proofs, open_meta_verifier, record_test_evaluations
from pvg_hf.game.training import BestStepCallback, run_trainer, save_player
from pvg_hf.models.adapters import load_adapter_weights
from pvg_hf.models.prover_model import load_prover, lora_for_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.sources import load_tokenizer
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier, load_verifier, lora_for_verifier
from pvg_hf.noise.draws import solution_key
from pvg_hf.run.layout import CHECKPOINTS, LABELS, PAIRS, VALIDATION, RunFolder
from pvg_hf.scoring import GenerativeVerifier, VerifierScorer
from pvg_hf.scoring.auto_label import read_labels
from pvg_hf.tasks.base import PROOF_SCORE, RatesAnalyses, Task
from pvg_hf.trainers.arguments import score_arguments, verifier_arguments
from pvg_hf.trainers.common.step_checks import FiniteLossCallback
from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer
from pvg_hf.trainers.reward.config import NoisyRewardConfig
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

_COLUMNS = ["problem_id", "problem", "proof", "score", "round_index"]

Row = dict[str, Any]

FEW_PROBLEMS = 20  # held-out problems; with fewer, possibly none of them has a pair


def run_verifier(context: PhaseContext, output: Path) -> str:
    """Write the verifier with its tokenizer, input format and calibration, and its scores of held-out solutions."""
    return context.recipe.verifier.implementation().train(context, output)


class VerifierKind(VerifierPlanning, Protocol):
    """
    A kind of verifier: everything that pvg_hf asks of it, besides its `VerifierTraits`, which name the class.

    How it is trained, loaded, stored and evaluated is here; [`VerifierPlanning`] says what its training and scores
    take, and which settings fit it.
    """

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the round's verifier and its scores of held-out solutions, and return the phase's one-line summary."""

    def open(
        self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None
    ) -> VerifierScorer | GenerativeVerifier:
        """
        Load the verifier in `folder` as a scorer. With `verifier.shares_base`, it shares the base model of
        `base_owner`.
        """

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """
        Copy settings stored with the model at `source`, such as prompts, to the folder of its fine-tuned weights.
        """

    def label_solutions(
        self, players: PlayerLoader, stop: StopRequest, scorer: VerifierScorer | GenerativeVerifier, output: Path
    ) -> dict[str, float | None]:
        """Label the new solutions in `output`, and return figures on the labels; a kind may assign none."""
        return {}

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        """Figures of a round that only this kind has."""
        return {}


class PairVerifier(PairPlanning, VerifierKind):
    """A verifier that is trained on pairs: a language model with a score head."""

    def train(self, context: PhaseContext, output: Path) -> str:
        """
        Write the verifier with its tokenizer, input template and calibration, and its scores of held-out solutions.
        """
        config = context.recipe.verifier
        source, revision = context.players.initial_model("verifier")
        tokenizer = load_tokenizer(source, revision)
        verifier_input = VerifierInput.of(config, tokenizer.eos_token)
        files = context.folder.training_pools(context.round_index)
        pairs, report = round_pairs(context.recipe, files, context.round_index, "verifier")
        least = context.recipe.watchdogs.least_pairs(len(context.problems.parts["verifier"]))
        if report.num_pairs < least:
            raise TooFewPairsError(report, f" A verifier needs {least} pairs (`watchdogs.min_pairs`).")
        heldout_pairs, heldout_report = _heldout_pairs(context.recipe, files, context.round_index, context.problems)
        heldout = read_heldout(files, heldout_pairs, context.recipe.data, context.problems)
        assumed = assumed_rates(context, "verifier")
        model = _initial_pair_verifier(context.players, context.round_index, verifier_input)
        trainer = NoisyRewardTrainer(
            model=model,
            args=_pair_arguments(context, output / CHECKPOINTS, assumed.rates),
            train_dataset=tokenize_pairs(pairs, tokenizer, verifier_input),
            # In the order of their labels, like those of the training.
            eval_dataset=tokenize_pairs(heldout_pairs, tokenizer, verifier_input) if config.eval_steps else None,
            processing_class=tokenizer,
            verifier_input=verifier_input,
            peft_config=_new_adapter(config, model, revision),
            callbacks=[FiniteLossCallback(), BestStepCallback(config.patience), *_noise_callbacks(context.recipe)],
        )
        is_continued = (
            config.init == "warm" and context.round_index > 0
        )  # the last round's verifier is trained further
        if config.traits.has_score_head and config.head == "new" and not is_continued:
            # The same in every round, so that all rounds have the same initial weights (Kirchner et al. 2024).
            assert isinstance(trainer.model, PreTrainedModel | PeftModel)
            draw_head(trainer.model, derive_seed(context.recipe.seed, "verifier", "head"))
        run_trainer(context, trainer, prefix="verifier")
        kept = _record_validations(context, trainer, output)
        counts = {
            **report.as_metrics(),
            **heldout_report.as_metrics("heldout_pairs"),
            "pairs/over_max_length": trainer.num_filtered_pairs["train"],
        }
        context.record({**counts, **assumed.figures})
        if context.processes.is_main_process:
            write_json(output / PAIRS, counts)
        save_player(trainer, output, player="verifier", run=context.folder.root)
        line = score_heldout(context, context.players.pair_verifier(output), output, heldout)
        return f"{assumed.line}{report.num_pairs} pairs, {kept}{line}"

    def open(self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None) -> VerifierScorer:
        return players.pair_verifier(folder, base_owner=base_owner)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        """Store nothing: the input template comes from the recipe and is saved with the trained verifier."""


class LikelihoodVerifier(LikelihoodPlanning, PairVerifier):
    """A verifier that is trained on pairs, and scores by likelihood."""


def _pair_arguments(context: PhaseContext, output: Path, assumed: Rates) -> NoisyRewardConfig:
    recipe = context.recipe
    return verifier_arguments(
        recipe,
        context.players.trainer_run(output, context.seed("trainer")),
        label_rates=label_rates(recipe, context.round_index, "verifier", context.problems.parts["verifier"]),
        assumed_rates=assumed,
        # With `resample: fixed`, flips must be the same in all rounds, and the same as those of the pool's labels.
        noise_seed=recipe.seed if recipe.noise.resample == "fixed" else context.seed("noise"),
    )


def _noise_callbacks(recipe: Recipe) -> list[NoiseScheduleCallback]:
    if not (recipe.noise.is_for_verifier and recipe.noise.is_by_step):
        return []
    # Soft labels of pairs are label smoothing: it uses the assumed rates, and flips no labels.
    is_smoothing = recipe.noise.soft_labels and recipe.verifier.loss == "bradley_terry"
    sets_assumed = recipe.rates.source == "noise"
    return [NoiseScheduleCallback(recipe.noise, sets_injected=not is_smoothing, sets_assumed=sets_assumed)]


def _heldout_pairs(
    recipe: Recipe, files: Sequence[Path], round_index: int, problems: GameProblems
) -> tuple[Dataset, PairReport]:
    """Build the held-out pairs. This happens before the training, so that an empty set fails early."""
    try:
        return round_pairs(recipe, files, round_index, "verifier_heldout")
    except TooFewPairsError as err:
        num_problems = len(problems.parts["verifier_heldout"])
        more = (
            f" It has {num_problems} problems; use more (`task`), or raise `split.heldout_share`."
            if num_problems < FEW_PROBLEMS
            else ""
        )
        raise ValueError(f"The verifier cannot be evaluated on D_V's held-out part: {err}{more}") from err


def _initial_pair_verifier(players: PlayerLoader, round_index: int, verifier_input: VerifierInput):
    """Weights that the round starts from: the initial ones (Kirchner et al. 2024), or the last round's."""
    config = players.recipe.verifier
    dtype = players.dtype("verifier", is_trained=config.lora is None)
    last = players.last_verifier(round_index)
    if last is None:
        source, revision = players.initial_model("verifier")
        return load_initial_verifier(
            source,
            revision=revision,
            dtype=dtype,
            quantization=config.quantization,
            likelihood_scale=verifier_input.likelihood_scale,
        )
    model, _ = load_verifier(last, dtype=dtype, is_trainable=True)
    return model


def _new_adapter(config: VerifierConfig, model, revision: str | None) -> LoraConfig | None:
    """Configuration of a new adapter; `None` if there is none, or the last round's adapter is trained further."""
    if config.lora is None or isinstance(model, PeftModel):
        return None
    return lora_for_verifier(config.lora, model, revision)


class ScoreVerifier(ScorePlanning, VerifierKind):
    """A language model that writes an analysis and predicts a score, trained on single proofs."""

    def train(self, context: PhaseContext, output: Path) -> str:
        """Write the verifier with its tokenizer, prompts and calibration, and its scores of held-out proofs."""
        config, players, round_index = context.recipe.verifier, context.players, context.round_index
        files = context.folder.training_pools(round_index)
        heldout_pairs, _ = _heldout_pairs(context.recipe, files, round_index, context.problems)
        heldout = read_heldout(files, heldout_pairs, context.recipe.data, context.problems)
        initial, revision = players.initial_model("verifier")
        prompts = config.score_settings.prompts_for(*players.verifier_source(round_index))
        args = score_arguments(config, players.trainer_run(output / CHECKPOINTS, context.seed("trainer")), prompts)
        model, tokenizer = _initial_score_verifier(players, round_index)
        model.config._name_or_path = initial  # TRL loads the KL reference from here
        trainer = ScoreVerifierTrainer(
            model,
            args=args,
            train_dataset=training_proofs(context),
            eval_dataset=heldout_proofs(
                context.folder, round_index, config.score_settings.eval_proofs, seed=context.seed("validation")
            ),
            meta_verifier=open_meta_verifier(players, round_index, context.problems.task),
            processing_class=tokenizer,
            peft_config=lora_for_prover(config.lora, revision) if config.lora else None,
            callbacks=[FiniteLossCallback(), BestStepCallback()],
        )
        if config.lora and (last := players.last_verifier(round_index)):
            assert isinstance(trainer.model, PeftModel)
            load_adapter_weights(trainer.model, last)  # a fresh one, so that the KL reference is the initial verifier
        run_trainer(context, trainer, prefix="verifier")
        kept = _record_validations(context, trainer, output)
        save_player(trainer, output, player="verifier", run=context.folder.root)
        line = score_heldout(context, players.score_verifier(output), output, heldout)
        return f"{kept}{line}"

    def open(self, players: PlayerLoader, folder: Path, *, base_owner: PreTrainedModel | None) -> GenerativeVerifier:
        return players.score_verifier(folder)

    def store_initial(self, config: VerifierConfig, source: str, output: Path) -> None:
        config.score_settings.prompts_for(source, config.revision).save(output)

    def label_solutions(
        self, players: PlayerLoader, stop: StopRequest, scorer: VerifierScorer | GenerativeVerifier, output: Path
    ) -> dict[str, float | None]:
        if players.recipe.verifier.score_settings.labels != "auto":
            return {}
        assert isinstance(scorer, GenerativeVerifier)
        return label_new_proofs(players, stop, scorer, output)

    def evaluate(self, context: PhaseContext, output: Path) -> dict[str, Figure]:
        return record_test_evaluations(context, output)


def _record_validations(context: PhaseContext, trainer: Trainer, output: Path) -> str:
    """Record the validations by step, and which step was kept; return a part of the phase's summary."""
    metric, kept = trainer.args.metric_for_best_model, trainer.state.best_global_step
    if metric is None or kept is None:
        return ""
    values = {str(line["step"]): line[metric] for line in trainer.state.log_history if metric in line}
    name, best = metric.removeprefix("eval_"), values[str(kept)]
    context.record({f"verifier/best_validation_{name}": best, "verifier/kept_step": kept})
    if context.processes.is_main_process:
        write_json(output / VALIDATION, values)
    return f"validation {name} {best:.3f} at step {kept} of {trainer.state.global_step}, which is kept; "


def _initial_score_verifier(players: PlayerLoader, round_index: int):
    """Weights (without an adapter) that the round starts from, and their tokenizer."""
    config = players.recipe.verifier
    source, revision = players.initial_model("verifier") if config.lora else players.verifier_source(round_index)
    dtype = players.dtype("verifier", is_trained=config.lora is None)
    return load_prover(source, revision=revision, dtype=dtype, quantization=config.quantization)


def tokenize_pairs(pairs: Dataset, tokenizer, verifier_input: VerifierInput) -> Dataset:
    """
    Tokenize pairs from [`~pvg_hf.data.pairs.build.build_pairs`] for the verifier's trainer.

    Returns: token ids of both sides, keys of their label draws, source and environment, true labels and, if the pairs
    have them, noisy labels.
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


def training_proofs(context: PhaseContext) -> Dataset:
    """
    Proofs of the phase in training order, one row per group.

    For each row, a source is drawn by the recipe's mixture, then one of its scores uniformly, and then a proof with
    this score.

    Raises `ValueError` if no proof has a score.
    """
    config, verifier, round_index = context.recipe.data, context.recipe.verifier, context.round_index
    is_auto = verifier.score_settings.labels == "auto"
    proofs = _scored_proofs(context.folder, round_index, "verifier", is_auto=is_auto, annotations=config.annotations)
    weights = weights_for(config, round_index)
    groups = {source: _group_by_score(proofs[proofs["round_index"] == source]) for source in weights}
    weights = {source: weight for source, weight in weights.items() if groups[source] and weight > 0}
    if not weights:
        raise ValueError(
            f"No proof on D_V has a score, so that the verifier of round {round_index} has nothing to learn from."
            " Raise `bootstrap.solutions_per_problem`, or score proofs in the rounds' review files."
        )
    num_rows = verifier.max_steps * verifier.score_settings.proofs_per_step
    judge_share, task = verifier.score_settings.judge_share, context.problems.task
    return Dataset.from_list(
        [*_draw_rows(groups, weights, num_rows, seed=context.seed("proofs"), judge_share=judge_share, task=task)]
    )


def heldout_proofs(folder: RunFolder, round_index: int, number: int, *, seed: int) -> Dataset:
    """Up to `number` held-out proofs on which checkpoints are compared, balanced over scores as far as possible."""
    groups = _group_by_score(_scored_proofs(folder, round_index, "verifier_heldout"))
    rng = derive_rng(seed)
    shuffled = [[rows[index] for index in rng.permutation(len(rows))] for rows in groups.values()]
    rows = [row for place in range(number) for group in shuffled for row in group[place : place + 1]]
    return Dataset.from_list(_columns(rows[:number], analysis=None))


def _scored_proofs(
    folder: RunFolder, round_index: int, part: str, *, is_auto: bool = False, annotations: str | None = None
) -> pd.DataFrame:
    """
    Distinct proofs of a part with their scores; proofs without a score are left out.

    With `is_auto`, scores of trained provers' proofs are the labels that generative verifiers assigned, else the
    pool's; those of `annotations` (see [`~pvg_hf.config.sections.DataConfig`]) come before either.
    """
    annotated = {} if annotations is None else read_scores(annotations)
    tables = []
    for file in folder.training_pools(round_index):
        rows = _read(file, part)
        source = rows["round_index"].iloc[0] if len(rows) else BASE_ROUND
        if is_auto and source != BASE_ROUND:
            labels = read_labels(folder.pool(int(source)) / LABELS)
            rows["score"] = [labels.get(pair) for pair in zip(rows["problem"], rows["proof"], strict=True)]
        places = zip(rows["problem_id"], rows["proof"], strict=True)
        rows["score"] = [annotated.get(place, score) for place, score in zip(places, rows["score"], strict=True)]
        tables.append(rows[_COLUMNS].dropna(subset="score"))
    return pd.concat(tables, ignore_index=True).drop_duplicates(["problem", "proof"])


def _read(file, part: str) -> pd.DataFrame:
    there = pq.read_schema(file).names
    names = ["problem_id", "problem", "solution", "round_index", "correct", "label", "is_truncated"]
    names += [PROOF_SCORE] if PROOF_SCORE in there else []
    rows = load_pool([file], names, parts=(part,)).to_pandas().rename(columns={"solution": "proof"})
    rows = rows[~rows["is_truncated"]]
    return rows.assign(score=rows[PROOF_SCORE] if PROOF_SCORE in rows else rows["label"].astype(float))


def _group_by_score(rows: pd.DataFrame) -> dict[float, list[Row]]:
    return {float(score): group.to_dict("records") for score, group in rows.groupby("score")}


def _draw_rows(
    groups: Mapping[int, Mapping[float, list[Row]]],
    weights: Mapping[int, float],
    num_rows: int,
    *,
    seed: int,
    judge_share: float,
    task: Task,
) -> Iterable[Row]:
    rng = derive_rng(seed)
    endless = {source: {s: _shuffle_forever(rng, rows) for s, rows in of.items()} for source, of in groups.items()}
    # (num_sources,): sources without a scored proof are left out, and the others' weights are normalized.
    chances = np.array(list(weights.values())) / sum(weights.values())
    for number in range(num_rows):
        source = list(weights)[rng.choice(len(weights), p=chances)]
        scores = list(endless[source])
        row = next(endless[source][scores[rng.integers(len(scores))]])
        analysis, score = None, row["score"]
        if rng.random() < judge_share:
            assert isinstance(task, RatesAnalyses)
            analysis, score = task.analysis_of(row, row["proof"], number)
        yield _columns([{**row, "score": score}], analysis)[0]


def _shuffle_forever(rng: np.random.Generator, rows: list[Row]) -> Iterator[Row]:
    for _ in count():
        yield from (rows[index] for index in rng.permutation(len(rows)))


def _columns(rows: Iterable[Row], analysis: str | None) -> list[Row]:
    kept = ("problem_id", "problem", "proof", "score")
    return [{**{name: row[name] for name in kept}, "analysis": analysis} for row in rows]

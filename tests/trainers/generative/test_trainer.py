"""`ScoreVerifierTrainer`: rewards, counts and trained weights, on one process and on two."""

import json

import pytest
import torch
from datasets import Dataset, concatenate_datasets

from pvg_hf import load_task
from pvg_hf.analyses.form import read_evaluation
from pvg_hf.analyses.settings import ScoreVerifierSettings
from pvg_hf.core.extensions import ExtensionError
from pvg_hf.scoring import GenerativeVerifier
from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer
from tests.support.prover_training import LORA, loss_lines, read_completions
from tests.support.score_training import PROOFS, proof_rows, save_evaluator, score_args, score_trainer
from tests.support.two_processes import run_on_two_processes
from tests.support.weights import moved_since, weights_of

LOGGED = {"max_steps": 1, "log_completions": True}


@pytest.fixture(scope="session")
def evaluator(tmp_path_factory) -> str:
    return save_evaluator(tmp_path_factory.mktemp("evaluator"))


def by_hand(text: str, reference: float, quality: float = 1.0) -> float:
    read = read_evaluation(text)
    agreement = 0 if read.score is None else max(0, 1 - abs(read.score - reference))
    return 0.125 * read.has_form + 0.875 * agreement * quality


def test_a_short_training_teaches_the_form_and_the_score(evaluator, tmp_path):
    """Few steps of noisy rewards: means over several are compared."""
    settings = {"max_steps": 60, "per_device_train_batch_size": 96, "num_generations": 8, "learning_rate": 2e-3}
    trainer = score_trainer(evaluator, tmp_path, rows=proof_rows(720), settings=settings)
    trainer.train()
    log = loss_lines(trainer)
    first, last = (
        {key: _mean(lines, key) for key in ("reward", "format_rate", "score_accuracy")}
        for lines in (log[:5], log[-10:])
    )
    assert first["format_rate"] < 0.8
    assert last["format_rate"] > 0.9
    assert last["score_accuracy"] > first["score_accuracy"] + 0.1
    assert last["reward"] > first["reward"] + 0.1


def _mean(lines: list[dict], key: str) -> float:
    return sum(line[key] for line in lines) / len(lines)


def test_rewards_are_those_of_the_formula(evaluator, tmp_path):
    score_trainer(evaluator, tmp_path, settings=LOGGED).train()
    table = read_completions(tmp_path)
    expected = [by_hand(text, score) for text, score in zip(table["completion"], table["score"], strict=True)]
    assert table["evaluation"].tolist() == pytest.approx(expected)
    assert len(set(expected)) > 3
    for _, group in table.groupby("prompt"):  # four evaluations of one proof, or of several rows of it
        assert len(group) % 4 == 0


@pytest.mark.parametrize("combination", ["additive", "multiplicative"])
def test_a_meta_verifier_scales_the_score(evaluator, tmp_path, combination):
    said = {"fine": 1.0, "flaw": 0.5}
    asked = []

    def rate(problems, proofs, analyses):
        asked.extend(zip(problems, proofs, analyses, strict=True))
        return [said.get(analysis) for analysis in analyses]

    settings = {**LOGGED, "combination": combination, "per_device_train_batch_size": 48}
    trainer = score_trainer(evaluator, tmp_path, settings=settings, meta_verifier=rate)
    trainer.train()
    table, log = read_completions(tmp_path), loss_lines(trainer)[0]
    kept = [read_evaluation(text) for text in table["completion"]]
    assert asked == [
        ("claim", row.prompt.split()[1].removesuffix("?"), read.analysis)
        for row, read in zip(table.itertuples(), kept, strict=True)
        if read.has_form
    ]
    qualities = [said.get(read.analysis) or 0.0 if read.has_form else 0.0 for read in kept]
    assert table["quality"].tolist() == qualities
    for row, read, quality in zip(table.itertuples(), kept, qualities, strict=True):
        agreement = 0 if read.score is None else max(0, 1 - abs(read.score - row.score))
        additive = 0.125 * read.has_form + 0.875 * agreement * quality
        assert row.evaluation == pytest.approx(
            additive if combination == "additive" else read.has_form * agreement * quality
        )
    assert log["meta/unreadable"] == pytest.approx(sum(analysis not in said for *_, analysis in asked) / len(asked))


@pytest.mark.parametrize(
    ("said", "message"),
    [([], "0 qualities"), ([2.0], "the quality 2.0"), ([float("nan")], "the quality nan")],
)
def test_invalid_qualities_from_a_meta_verifier_are_refused(evaluator, tmp_path, said, message):
    trainer = score_trainer(evaluator, tmp_path, meta_verifier=lambda problems, *_: said * len(problems))
    with pytest.raises(ValueError, match=message):
        trainer.train()


def test_a_row_without_a_score_has_no_effect(evaluator, tmp_path):
    """This holds even if another reward function rewards it."""
    rows = concatenate_datasets(
        [proof_rows(3), Dataset.from_list([{"problem": "claim", "proof": "good", "score": None}])]
    )
    settings = {**LOGGED, "reward_weights": [1.0, 1.0]}
    trainer = score_trainer(
        evaluator,
        tmp_path,
        rows=rows,
        settings=settings,
        reward_funcs=[lambda completions, **_: range(len(completions))],
    )
    trainer.train()
    table, log = read_completions(tmp_path), loss_lines(trainer)[0]
    unknown = table[table["score"].isna()]
    assert len(unknown) == 4
    assert unknown["evaluation"].isna().all()
    assert (unknown["advantage"] == 0).all()
    assert log["unscorable"] == 0.25
    known = table[~table["score"].isna()]
    assert known["evaluation"].tolist() == pytest.approx(
        [by_hand(t, s) for t, s in zip(known["completion"], known["score"])]
    )


def test_tokens_of_evaluations_without_a_reference_do_not_count(evaluator, tmp_path):
    """One group of four has no reference score: neither its KL divergence nor its tokens are in the loss."""
    batches = []

    class Noting(ScoreVerifierTrainer):
        def _compute_loss(self, model, inputs):
            batches.append(inputs)
            return super()._compute_loss(model, inputs)

    unknown = Dataset.from_list([{"problem": "claim", "proof": "good", "score": None}])
    rows = concatenate_datasets([proof_rows(3), unknown])
    Noting(evaluator, args=score_args(tmp_path, max_steps=1, beta=0.1), train_dataset=rows).train()
    (batch,) = batches
    lengths = batch["completion_mask"].sum(dim=1)
    counted = (batch["completion_mask"] * batch["tool_mask"]).sum(dim=1)  # the rows are shuffled
    assert len(lengths) == 16
    assert (lengths > 0).all()
    assert torch.equal(counted, torch.where(counted > 0, lengths, 0))
    assert (counted > 0).sum() == 12
    assert batch["num_items_in_batch"] == counted.sum()


def test_truncated_evaluations_are_counted_and_earn_nothing(evaluator, tmp_path):
    trainer = score_trainer(evaluator, tmp_path, settings={**LOGGED, "max_completion_length": 2})
    trainer.train()
    log = loss_lines(trainer)[0]
    assert (log["cut"], log["format_rate"], log["score_accuracy"]) == (1.0, 0.0, 0.0)
    assert read_completions(tmp_path)["evaluation"].tolist() == [0.0] * 16


def test_one_model_learns_to_judge_analyses_too(evaluator, tmp_path):
    """The prompt of rows with an analysis asks about it; they need no meta-verifier, and are counted separately."""
    judged = proof_rows(6, scores=dict.fromkeys(PROOFS, 1.0), analysis="flaw")
    rows = concatenate_datasets([proof_rows(6), judged])
    asked = []

    def rate(problems, proofs, analyses):
        asked.extend(analyses)
        return [0.0] * len(analyses)

    trainer = score_trainer(
        evaluator, tmp_path, rows=rows, settings={**LOGGED, "per_device_train_batch_size": 48}, meta_verifier=rate
    )
    trainer.train()
    table, log = read_completions(tmp_path), loss_lines(trainer)[0]
    is_judgment = table["prompt"].str.endswith("flaw!")
    assert is_judgment.sum() == 24
    paid = table[is_judgment]
    assert paid["evaluation"].tolist() == pytest.approx([by_hand(text, 1.0) for text in paid["completion"]])
    assert (paid["quality"] == 1).all()
    assert len(asked) == sum(read_evaluation(text).has_form for text in table[~is_judgment]["completion"])
    assert log["judge/format_rate"] == pytest.approx(paid["has_form"].mean())
    assert log["format_rate"] == pytest.approx(table[~is_judgment]["has_form"].mean())


def test_every_weight_moves_and_the_model_is_saved_with_its_prompts(evaluator, tmp_path):
    trainer = score_trainer(evaluator, tmp_path, settings={"max_steps": 2})
    before = weights_of(trainer.model)
    trainer.train()
    assert moved_since(trainer.model, before) == set(before)
    trainer.save_model(str(tmp_path / "saved"))
    assert ScoreVerifierSettings.load(tmp_path / "saved") == trainer.args.verifier_settings()
    scores = GenerativeVerifier.from_pretrained(tmp_path / "saved", device="cpu")(["claim"] * 2, ["good", "bad"])
    assert all(0 <= score <= 1 for score in scores)


def test_a_further_training_keeps_the_prompts(evaluator, tmp_path):
    thinking = {"chat_template_kwargs": '{"enable_thinking": false}'}  # as a command line gives it
    score_trainer(evaluator, tmp_path, settings=thinking).save_model(str(tmp_path / "first"))
    settings = {"evaluate_prompt": None, "judge_prompt": "{{ analysis }}?"}
    again = score_trainer(str(tmp_path / "first"), tmp_path, settings=settings)
    assert again.settings.evaluate_prompt == score_args(tmp_path).evaluate_prompt
    assert again.settings.judge_prompt == "{{ analysis }}?"
    assert again.settings.chat_template_kwargs == {"enable_thinking": False}
    assert again.train_dataset[0]["prompt"] == "claim bad?"


def test_only_adapters_move_and_are_saved(evaluator, tmp_path):
    trainer = score_trainer(evaluator, tmp_path, settings={"max_steps": 2}, peft_config=LORA)
    before = weights_of(trainer.model)
    trainer.train()
    assert moved_since(trainer.model, before) == {name for name in before if "lora_" in name}
    trainer.save_model(str(tmp_path / "saved"))
    assert len(GenerativeVerifier.from_pretrained(tmp_path / "saved", device="cpu")(["claim"], ["good"])) == 1


def test_the_best_checkpoint_is_chosen_by_validation_reward(evaluator, tmp_path):
    settings = {
        "max_steps": 5,
        "save_strategy": "steps",
        "eval_strategy": "steps",
        "save_steps": 1,
        "eval_steps": 1,
        "load_best_model_at_end": True,
    }
    trainer = score_trainer(evaluator, tmp_path, settings=settings, eval_dataset=proof_rows(8))
    trainer.train()
    rewards = [line["eval_reward"] for line in trainer.state.log_history if "eval_reward" in line]
    assert len(rewards) == 5
    assert trainer.state.best_metric == max(rewards)
    assert len(list((tmp_path / "out").glob("checkpoint-*"))) == 3
    assert trainer.state.best_model_checkpoint.endswith(f"checkpoint-{rewards.index(max(rewards)) + 1}")


def test_prompts_are_rendered_by_the_chat_template(evaluator, tmp_path):
    trainer = score_trainer(evaluator, tmp_path)
    tokenizer = trainer.processing_class
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}!{% endfor %}"
    again = score_trainer(evaluator, tmp_path, processing_class=tokenizer)
    assert trainer.train_dataset[0]["prompt"] == "claim bad?"
    assert again.train_dataset[0]["prompt"] == "claim bad?!"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Dataset.from_dict({"problem": ["P"], "score": [1.0]}), r"lacks .*\['proof'\]"),
        (Dataset.from_dict({"problem": ["P"], "proof": ["Q"], "score": [0.7]}), r"row 0: 0\.7"),
        (Dataset.from_dict({"problem": ["P"], "proof": ["Q"], "score": [None]}), "nothing to learn from"),
        ([{"problem": "P", "proof": "Q", "score": 1.0}], "`datasets.Dataset`; got list"),
        (Dataset.from_dict({"problem": ["P"], "proof": [None], "score": [1.0]}), "row 0: `proof` must be a text"),
        (proof_rows(3), r"has 3 prompts, fewer than the 4 of one generation batch"),
    ],
    ids=["no proof", "invalid score", "no score", "list", "missing text", "too few"],
)
def test_invalid_datasets_are_refused(evaluator, tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        score_trainer(evaluator, tmp_path, rows=rows)


def test_an_object_that_is_not_a_meta_verifier_is_refused(evaluator, tmp_path):
    for given, message in (
        ("task", "`meta_verifier`.*str"),
        (load_task("proofs"), "`meta_verifier`.*`rate_analyses`"),
    ):
        with pytest.raises(ValueError, match=message):
            score_trainer(evaluator, tmp_path, meta_verifier=given)
    for said in (None, [1.0], [2.0] * 16):
        trainer = score_trainer(evaluator, tmp_path, meta_verifier=lambda *texts, said=said: said)
        with pytest.raises(ExtensionError, match="The meta-verifier"):
            trainer.train()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_generations": 1}, "`num_generations` is 1"),
        ({"combination": "sum"}, "`combination` is `sum`"),
        ({"format_weight": -1.0}, "`format_weight` is -1.0"),
        ({"max_completion_length": None}, "`max_completion_length` is None"),
        ({"evaluate_prompt": "{{ solution }}"}, "unknown variable `solution`"),
    ],
)
def test_invalid_settings_are_refused(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        score_args(tmp_path, **settings)


@pytest.mark.game
def test_a_group_may_lie_on_two_processes(tmp_path):
    run_on_two_processes("straddling_scores.py", save_evaluator(tmp_path / "evaluator"), tmp_path)
    results = [json.loads((tmp_path / f"process-{index}.json").read_text()) for index in (0, 1)]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["log"][0]["format_rate"] == results[1]["log"][0]["format_rate"]
    for step, log in enumerate(results[0]["log"], start=1):
        table = read_completions(tmp_path, step)
        assert len(table) == 12  # rows 4 to 7 are one group, rows 0 to 5 those of the first process
        groups = table.groupby(table.index // 4)
        assert (groups["prompt"].nunique() == 1).all()
        for row in table[~table["score"].isna()].itertuples():
            read = read_evaluation(row.completion)
            quality = 0.5 if read.has_form and read.analysis != "flaw" else 0.0
            agreement = 0 if read.score is None else max(0, 1 - abs(read.score - row.score))
            assert row.evaluation == pytest.approx(0.125 * read.has_form + 0.875 * agreement * quality)
        unknown = table["score"].isna()
        assert table[unknown]["evaluation"].isna().all()
        assert (table[unknown]["advantage"] == 0).all()
        assert log["format_rate"] == pytest.approx(table["has_form"].mean())
        assert log["unscorable"] == pytest.approx(unknown.mean())
        assert log["score_accuracy"] == pytest.approx((table["predicted"] == table["score"])[~unknown].mean())

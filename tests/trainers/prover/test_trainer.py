"""
`ProverGRPOTrainer`: the weights that it trains, its datasets, solutions of the maximum length, and two processes.
"""

import json
import re
import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model

from pvg_hf.models.prover_model import load_causal_lm, load_prover
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_classifier
from pvg_hf.scoring import VerifierScorer
from pvg_hf.tasks.base import Grade
from tests.support.prover_training import (
    GROUP_SIZE,
    LORA,
    grade_by_length,
    loss_lines,
    prover_trainer,
    read_completions,
    role_rows,
    score_texts,
)
from tests.support.rewards_by_hand import rewards_by_hand
from tests.support.two_processes import run_on_two_processes
from tests.support.weights import moved_since, weights_of


def test_every_weight_moves_and_the_reference_does_not(prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path)
    before, reference = weights_of(trainer.model), weights_of(trainer.ref_model)
    trainer.train()
    assert moved_since(trainer.model, before) == set(before)
    assert not moved_since(trainer.ref_model, reference)
    log = loss_lines(trainer)
    assert [line["step"] for line in log] == [1, 2, 3]  # every step by default
    assert log[0]["kl"] == pytest.approx(0, abs=1e-6)
    assert log[2]["kl"] > 1e-4
    assert all(line["kl_from_base"] == line["kl"] for line in log)
    assert all(line["grad_norm"] > 0 for line in log)


@pytest.mark.gpu
@pytest.mark.parametrize("quantization", ["none", "4bit"])
def test_adapters_on_a_gpu_are_trained_in_float32(quantization, wider_prover, tmp_path):
    """The defaults on a GPU apply: bfloat16 if it supports it, and activation checkpointing."""
    if quantization == "4bit":
        pytest.importorskip("bitsandbytes", reason="needs the extra `quant`")
    model, _ = load_prover(wider_prover, dtype=torch.bfloat16, quantization=quantization)
    assert model.device.type == ("cuda" if quantization == "4bit" else "cpu")
    trainer = prover_trainer(model, tmp_path, peft_config=LORA, settings={"use_cpu": False})
    before = weights_of(trainer.model)
    trainer.train()
    assert trainer.args.activation_checkpointing
    adapters = {name: weight for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    assert {(weight.dtype, weight.device.type) for weight in adapters.values()} == {(torch.float32, "cuda")}
    assert moved_since(trainer.model, before) == set(adapters)
    assert all(torch.isfinite(weight).all() for weight in adapters.values())


def _run_document(repository, **paths) -> dict:
    """
    Run the first block of the trainer's page with its paths and number of steps replaced; returns the names that it
    defines.
    """
    text = (repository / "docs" / "reference" / "prover-trainer.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE).group(1)
    for old, new in {**paths, "max_steps=50": "max_steps=2, learning_rate=1e-2, use_cpu=True, reward='src'"}.items():
        assert block.count(old) == 1
        block = block.replace(old, new)
    names: dict = {}
    exec(block, names)
    return names


def test_the_example_of_the_documentation_runs(repository, tiny_prover, tmp_path):
    """It has a task, prompts for both roles, and a verifier's folder; the verifier is not changed."""
    verifier, tokenizer = load_classifier(str(tiny_prover)), load_prover(tiny_prover)[1]
    draw_head(verifier, seed=0)
    with torch.no_grad():
        # What never ends is paid min(-1, -|V'|), which moves nothing unless scores differ by more than 1.
        verifier.score.weight.mul_(1000)
    folder = tmp_path / "verifier"
    verifier.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    VerifierInput("{{ problem }}\n{{ solution }}", "</s>", 256).save(folder)
    paths = {
        "your/prover": str(tiny_prover),
        "runs/quickstart/verifier/round-000": str(folder),
        '"out"': f'"{tmp_path}"',
    }
    names = _run_document(repository, **paths)
    trainer, scorer = names["trainer"], names["scorer"]
    initial, untouched = load_causal_lm(str(tiny_prover)), VerifierScorer.from_pretrained(folder)
    assert moved_since(trainer.model, weights_of(initial)) == set(weights_of(initial))
    assert not moved_since(scorer.model, weights_of(untouched.model))
    assert not any(parameter.requires_grad for parameter in scorer.model.parameters())
    assert loss_lines(trainer)[0]["accuracy/helpful"] == 0  # an untrained prover solves nothing
    assert len(loss_lines(trainer)) == 2


def test_a_model_object_is_trained_in_place(prover, tmp_path):
    model = load_causal_lm(prover)
    before = weights_of(model)
    trainer = prover_trainer(model, tmp_path, settings={"max_steps": 1})
    trainer.train()
    assert trainer.model is model
    assert moved_since(model, before) == set(before)


def test_only_adapters_move(prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, peft_config=LORA)
    before = weights_of(trainer.model)
    trainer.train()
    assert trainer.ref_model is None
    assert moved_since(trainer.model, before) == {name for name in before if "lora_" in name}
    assert loss_lines(trainer)[2]["kl"] > 0  # from the base, with the adapters off


def test_adapters_that_are_passed_in_keep_a_frozen_copy_as_the_reference(prover, tmp_path):
    trainer = prover_trainer(get_peft_model(load_causal_lm(prover), LORA), tmp_path)
    before = weights_of(trainer.model)
    trainer.train()
    assert moved_since(trainer.model, before) == {name for name in before if ".default." in name}
    assert any(".ref." in name for name in before)


@pytest.mark.filterwarnings("ignore:.*(tie_word_embeddings|save_embedding_layers)")
def test_an_adapter_on_the_embedding_is_trained_and_loaded(prover, tmp_path):
    lora = LoraConfig(r=2, target_modules=["q_proj", "embed_tokens"], task_type="CAUSAL_LM")
    trainer = prover_trainer(prover, tmp_path, peft_config=lora)
    before = weights_of(trainer.model)
    trainer.train()
    moved = moved_since(trainer.model, before)
    assert any("embed_tokens.lora_embedding" in name for name in moved)
    trainer.save_model(str(tmp_path / "saved"))
    loaded, _ = load_prover(tmp_path / "saved")
    trained = weights_of(trainer.model)
    assert all(weight.equal(trained[name]) for name, weight in weights_of(loaded).items() if "lora" in name)


def test_an_adapter_on_the_output_layer_is_refused(prover, tmp_path):
    lora = LoraConfig(r=2, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM")
    with pytest.raises(ValueError, match="`lm_head`"):
        prover_trainer(prover, tmp_path, peft_config=lora)


def test_graders_read_the_text_of_conversational_solutions(prover, tmp_path):
    tokenizer = load_prover(prover)[1]
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
    rows = role_rows().map(lambda row: {"prompt": [{"role": "user", "content": row["prompt"]}]})
    seen = []

    def grade(row, solution):
        seen.append(solution)
        return grade_by_length(row, solution)

    settings = {"max_steps": 1, "log_completions": True}
    trainer = prover_trainer(prover, tmp_path, grader=grade, rows=rows, settings=settings, processing_class=tokenizer)
    trainer.train()
    table = read_completions(tmp_path)
    assert [message[0]["content"] for message in table["completion"]] == seen
    assert table["score"].tolist() == pytest.approx(
        score_texts([message[0]["content"].split("\n")[0] for message in table["prompt"]], seen)
    )


@pytest.mark.parametrize("content", [str, lambda text: [{"type": "text", "text": text}]], ids=["text", "parts"])
def test_chats_that_the_template_does_not_write_are_refused(content, prover, tmp_path):
    tokenizer = load_prover(prover)[1]
    tokenizer.chat_template = "{% for message in messages %}<{{ message.role }}>{% endfor %}"
    rows = role_rows().map(lambda row: {"prompt": [{"role": "user", "content": content(row["prompt"])}]})
    with pytest.raises(ValueError, match="chat template leaves out the text of the user"):
        prover_trainer(prover, tmp_path, rows=rows, processing_class=tokenizer)


def test_groups_are_of_one_problem_and_role(prover, tmp_path):
    seen = []

    def grade(row, solution):
        seen.append((row["problem"], row["role"]))
        return grade_by_length(row, solution)

    prover_trainer(prover, tmp_path, grader=grade, settings={"max_steps": 2}).train()
    groups = [seen[start : start + GROUP_SIZE] for start in range(0, len(seen), GROUP_SIZE)]
    assert len(groups) == 2 * 16 // GROUP_SIZE
    assert all(len(set(group)) == 1 for group in groups)
    assert len({group[0] for group in groups}) == len(groups)  # 2 steps see each of the 8 prompts once


def test_a_run_is_silent(prover, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prover_trainer(prover, tmp_path, settings={"max_steps": 1, "gradient_checkpointing": True}).train()
    assert not [str(warning.message) for warning in caught if warning.category is FutureWarning]


def test_without_a_kl_there_is_no_reference(prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, settings={"beta": 0.0, "max_steps": 1})
    trainer.train()
    assert trainer.ref_model is None
    assert not [key for key in loss_lines(trainer)[0] if "kl" in key]


def test_a_model_made_in_memory_has_no_reference_to_load(prover, tmp_path):
    model, tokenizer = load_prover(prover)
    model.config._name_or_path = ""
    with pytest.raises(ValueError, match="made in memory"):
        prover_trainer(model, tmp_path, processing_class=tokenizer)
    assert prover_trainer(model, tmp_path, processing_class=tokenizer, settings={"beta": 0.0}).ref_model is None
    assert prover_trainer(model, tmp_path, processing_class=tokenizer, peft_config=LORA).ref_model is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (role_rows().remove_columns("role"), r"lacks .*\['role'\]; .*\['prompt', 'problem'\]"),
        (role_rows().remove_columns(["prompt", "problem"]), r"lacks .*\['prompt', 'problem'\]"),
        (role_rows(["helpful", "base"]), r"Unknown role\(s\) \['base'\]"),
        (role_rows().to_iterable_dataset(), r"is a IterableDataset.*`streaming=False`"),
        (role_rows(["helpful"], num_problems=3), "has 3 prompts, fewer than the 4 of one generation batch"),
    ],
    ids=["no role", "no prompt", "unknown role", "stream", "too few"],
)
def test_wrong_datasets_are_refused(rows, message, prover, tmp_path):
    with pytest.raises(ValueError, match=message):
        prover_trainer(prover, tmp_path, rows=rows)


@pytest.mark.parametrize(
    "wrap", [lambda rows: rows, lambda rows: {"first": role_rows(), "second": rows}], ids=["one", "two"]
)
def test_wrong_evaluation_datasets_are_refused(wrap, prover, tmp_path):
    with pytest.raises(ValueError, match=r"lacks .*\['problem'\]"):
        prover_trainer(prover, tmp_path, eval_dataset=wrap(role_rows().remove_columns("problem")))


@pytest.mark.parametrize(
    ("scorer", "part"),
    [("runs/verifier", r"the path 'runs/verifier'.*VerifierScorer\.from_pretrained"), (None, "a NoneType")],
)
def test_a_scorer_that_is_not_a_function_is_refused(scorer, part, prover, tmp_path):
    with pytest.raises(ValueError, match=f"`scorer` is {part}"):
        prover_trainer(prover, tmp_path, scorer=scorer)


def test_a_scorer_with_other_arguments_is_refused(prover, tmp_path):
    with pytest.raises(ValueError, match=r"The scorer must be a function `\(problems, solutions\) -> scores`"):
        prover_trainer(prover, tmp_path, scorer=lambda solutions: [0.0] * len(solutions))


def test_a_step_of_truncated_solutions_stops_the_run(tiny_prover, tmp_path):
    settings = {"max_truncated_share": 0.5, "max_completion_length": 2}
    with pytest.raises(ValueError, match=r"100% .*`max_completion_length=2` .*50%"):
        prover_trainer(str(tiny_prover), tmp_path, settings=settings).train()


@pytest.mark.parametrize(
    ("grade", "outcome"),
    [
        (Grade("18", correct=True), "VERIFIED"),
        (Grade("1", correct=False), "PROOF_INVALID"),
        (Grade("18", correct=True, certified=False), "UNCERTIFIED"),
        (Grade("1", correct=False, certified=False), "UNCERTIFIED"),
    ],
    ids=["correct", "incorrect", "correct uncertified", "incorrect uncertified"],
)
def test_truncated_and_uncertified_solutions_fit_neither_role(grade, outcome, prover, tmp_path):
    """CGC gives them its floor, and the others, which all fit one of the roles, their score."""
    settings = {"max_steps": 1, "log_completions": True, "reward": "cgc", "reward_options": {"floor": -9.0}}
    settings["max_completion_length"] = 3  # some solutions are longer
    trainer = prover_trainer(prover, tmp_path, grader=lambda row, solution: grade, settings=settings)
    trainer.train()
    (log,), table = loss_lines(trainer), read_completions(tmp_path)
    cut = table["outcome"] == "TRUNCATED"
    assert 0 < cut.sum() < len(table)
    assert set(table["outcome"][~cut]) == {outcome}
    role = "helpful" if grade.correct else "sneaky"
    is_paid = ~cut & (table["role"] == role) & (outcome != "UNCERTIFIED")
    assert table["cgc"].tolist() == pytest.approx(table["score"].where(is_paid, -9.0).tolist())
    assert not (table["correct"] & cut).any()
    assert log["failed/sneaky"] == (1 if outcome == "UNCERTIFIED" else log["truncated/sneaky"])
    assert log["valid_sneaky"] == (1 - log["failed/sneaky"] if outcome == "PROOF_INVALID" else 0)


def test_every_end_token_of_the_model_ends_a_solution(tiny_prover, tmp_path):
    model, tokenizer = load_prover(tiny_prover)
    model.generation_config.eos_token_id = list(range(1, len(tokenizer)))
    settings = {"max_truncated_share": 0.0, "max_completion_length": 3, "max_steps": 1}
    trainer = prover_trainer(model, tmp_path, settings=settings)
    trainer.train()
    assert loss_lines(trainer)[0]["truncated/helpful"] == 0


@pytest.mark.game
def test_a_group_may_lie_on_two_processes(prover, tmp_path):
    """Figures logged for the gathered rows are those that one process computes."""
    run_on_two_processes("straddling_groups.py", prover, tmp_path)
    results = [json.loads((tmp_path / f"process-{index}.json").read_text()) for index in (0, 1)]
    assert [result["num_processes"] for result in results] == [2, 2]
    assert results[0]["weights"] == results[1]["weights"]
    assert (
        results[0]["log"][0]["score_correctness_correlation"] == results[1]["log"][0]["score_correctness_correlation"]
    )
    for step, log in enumerate(results[0]["log"], start=1):
        table = read_completions(tmp_path, step)
        assert len(table) == 12  # rows 4 to 7 are one group, rows 0 to 5 those of the first process
        groups = table.groupby(table.index // GROUP_SIZE)
        assert (groups["prompt"].nunique() == 1).all()
        rows = [
            {"problem": prompt.split("\n")[0], "role": role} for prompt, role in zip(table["prompt"], table["role"])
        ]
        groups_by_hand = rewards_by_hand(rows, table["completion"].tolist(), table["outcome"] == "TRUNCATED")
        by_hand = [reward for group in groups_by_hand for reward in group]
        assert table["src"].tolist() == pytest.approx(by_hand, abs=1e-5)
        assert table["advantage"].tolist() == pytest.approx(
            (table["src"] - groups["src"].transform("mean")).tolist(), abs=1e-5
        )
        for role in ("helpful", "sneaky"):
            mine = table[table["role"] == role]
            assert log[f"accuracy/{role}"] == pytest.approx(mine["correct"].mean())
            assert log[f"reward/{role}"] == pytest.approx(mine["src"].mean())

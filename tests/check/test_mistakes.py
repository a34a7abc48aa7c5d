"""Mistakes of a recipe that are found before anything is played."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from pvg_hf import load_recipe, play
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.trainer_settings import check_batch_sizes
from pvg_hf.config import RecipeError
from pvg_hf.config.load import known_keys
from pvg_hf.core.roles import Role
from pvg_hf.data.problems import GameProblems
from pvg_hf.models.from_config import train_tokenizer
from pvg_hf.models.hardware import Hardware
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.trainers.arguments import TrainerRun, prover_arguments, recipe_keys, verifier_arguments


@pytest.fixture
def mistakes_of(values):
    """The mistakes of the recipe with overrides."""

    def check(*overrides: str) -> list[str]:
        recipe = load_recipe(values, overrides)
        return check_recipe(recipe, GameProblems.load(recipe))

    return check


def test_a_recipe_that_can_be_played_has_no_mistake(mistakes_of):
    assert mistakes_of() == []


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["prover.micro_batch_size=6"], ["`prover.micro_batch_size` is 6", "16 solutions", "1, 2, 4, 8, 16"]),
        ([f"output_dir={__file__}"], ["`output_dir`", "is not a folder"]),
        (["output_dir=/proc/runs"], ["`output_dir`", "/proc cannot be written to"]),
        (["output_dir=/sys/runs"], ["`output_dir`", "/sys cannot be written to"]),
        (["prover.micro_batch_size=32"], ["`prover.micro_batch_size` is 32"]),
        (["prover.prompts_per_step=200"], ["`prover.prompts_per_step` is 200", "D_pi has"]),
        (["prover.roles=separate"], ["`separate`", "prover.lora"]),
        (["prover.trainer={num_iteration: 2}"], ["`num_iteration`", "Did you mean `num_iterations`?"]),
        (["prover.trainer={auto_find_batch_size: true}"], ["`prover`: auto_find_batch_size is not supported by GRPO"]),
        (["prover.trainer={num_iterations: 2}", "prover.save_steps=3"], ["`save_steps` is 3", "2 steps"]),
        (["prover.trainer={steps_per_generation: 3}", "prover.save_steps=4"], ["`save_steps` is 4", "3 steps"]),
        (["prover.trainer={zebra: 2}"], ["`zebra`", "`ProverGRPOConfig`", "`output_dir`"]),
        (["prover.trainer={num_iterations: 2, save_steps: 3}"], ["`save_steps`", "its key `prover.save_steps`"]),
        (["prover.trainer={output_dir: elsewhere}"], ["`output_dir`", "the game sets itself"]),
        (["verifier.trainer={adam_beta1: 5}"], ["`verifier.trainer.adam_beta1`", "from 0 to 1", "got 5"]),
        (["prover.trainer={epsilon: high}"], ["`prover.trainer.epsilon`", "'high'"]),
        (["verifier.trainer={dataloader_num_workers: 1000000}"], ["`verifier.trainer.dataloader_num_workers`", "128"]),
        (["verifier.trainer={resume_from_checkpoint: /etc}"], ["`resume_from_checkpoint`", "no meaning"]),
        (["prover.trainer={trust_remote_code: true}"], ["`trust_remote_code`", "never run"]),
        (["data.mixture=equal"], ["`data.mixture`", "Did you mean `equal_per_round`?"]),
        (["data.mixture=sys:exit", "num_rounds=1"], ["`data.mixture`", "SystemExit"]),
        (["stopping.rule=os:environ"], ["`stopping.rule`", "`os:environ`"]),
        (["prover.reward=goodhart", "stopping.goodhart_window=9000"], ["`stopping.goodhart_window` is 9000", "never"]),
        (
            ["stopping.labels=observed", "noise={level: pair, epsilon: 0.1}"],
            ["`stopping.labels` is `observed`", "`clean`"],
        ),
        (
            ["stopping.labels=observed", "noise.epsilon=0.1", "watchdogs.false_positives=stop"],
            ["`stopping.labels` is `observed`", "`watchdogs.false_positives: stop`"],
        ),
        (
            ["stopping.labels=observed", "noise.epsilon=0.1", "watchdogs.collapse_recovery=supervised"],
            ["`stopping.labels` is `observed`", "`watchdogs.collapse_recovery: supervised`"],
        ),
        (["prover.roles=helpful_only", "stopping.rule=parity"], ["`stopping.rule` is `parity`", "never fire"]),
        (["stopping.rule=partiy"], ["`stopping.rule`", "Did you mean `parity`?"]),
        (["prover.trainer={max_steps: 3}"], ["`max_steps`", "its key `prover.max_steps`"]),
        (["prover.trainer={logging_steps: 10}"], ["`logging_steps`", "the game sets itself"]),
        (["prover.trainer={seed: 1}"], ["`seed`", "its key `seed`"]),
        (["prover.trainer={per_device_train_batch_size: 8}"], ["its key `prover.micro_batch_size`"]),
        (["prover.trainer={gradient_accumulation_steps: 4}"], ["its key `prover.micro_batch_size`"]),
        (["prover.trainer={model: org/name}"], ["`model`", "its key `prover.model`"]),
        (["verifier.trainer={gradient_accumulation_steps: 4}"], ["its key `verifier.micro_batch_size`"]),
        (["verifier.trainer={per_device_train_batch_size: 8}"], ["its key `verifier.pairs_per_step`"]),
        (["verifier.trainer={logging_nan_inf_filter: true}"], ["`logging_nan_inf_filter`", "the game sets itself"]),
        (["verifier.trainer={save_strategy: epoch}"], ["its key `verifier.save_steps`"]),
        (["verifier.trainer={noise_rho0: 0.1}"], ["its key `noise.rho0`"]),
        (["rounds.1.verifier.trainer={seed: 1}"], ["In round 1: `verifier.trainer` has `seed`"]),
        (["prover.lr_scheduler_type=linaer"], ["`prover`", "linaer"]),
        (["prover.reward=srcc"], ["`prover.reward`", "Did you mean `src`?"]),
        (["prover.reward_options={flor: -2}"], ["`prover.reward`", "flor"]),
        (["prover.reward=src", "prover.reward_options={floor: 2}"], ["`prover.reward`", "`floor` is 2"]),
        (["prover.reward=cgc", "prover.reward_options={flor: -2}"], ["`prover.reward`", "flor"]),
        (["prover.lora={target_modules: [q_prj]}"], ["`prover`", "q_prj"]),
        (["prover.lora={target_modules: [q_proj, k_prj]}"], ["`prover.lora.target_modules`", "`k_prj`"]),
        (["prover.lora={target_modules: [q_proj, lm_head]}"], ["`prover.lora.target_modules`", "`lm_head`"]),
        (["prover.lora={target_modules: .*(q_proj|lm_head)}"], ["`prover.lora.target_modules`", "`lm_head`"]),
        (["verifier.lora={target_modules: [q_proj, lm_head]}"], ["`verifier.lora.target_modules` has `lm_head`"]),
        (["prover.model=/no/such/folder"], ["`prover.model` is `/no/such/folder`", "neither a folder"]),
        (
            ["prover.model=arithmetic-judge"],
            [
                "`prover.model` is `arithmetic-judge`, a packaged model for the verifier",
                "`arithmetic` or `functions` or `proofs`",
            ],
        ),
        (["prover.model=org/never-downloaded"], ["`prover.model`", "HF_HUB_OFFLINE"]),
        (["verifier.scratch={model_type: lama}"], ["`verifier.scratch`", "lama"]),
        (["verifier.scratch={config: {eos_token_id: 1}}"], ["`verifier.scratch`", "`eos_token_id`"]),
        (["verifier.scratch={config: {hiden_size: 8}}"], ["`hiden_size`", "Did you mean `hidden_size`?"]),
        (
            ["verifier.scratch={config: {num_attention_heads: 5}}"],
            ["`verifier`", "multiple of the number of attention"],
        ),
        (["verifier.template='{{ answer }}'"], ["`verifier.template`", "answer"]),
        (["verifier.max_length=10"], ["`verifier.max_length` is 10", "set it to"]),
        (
            ["verifier.correction=backward", "verifier.center=0", "noise.epsilon=0.1"],
            ["`verifier`", "unbounded below"],
        ),
        (
            ["verifier.correction=smoothing", "verifier.loss=cross_entropy", "noise={level: pair, epsilon: 0.1}"],
            ["`verifier`", "smoothing"],
        ),
        (["verifier.correction=forward"], ["`verifier.correction` is `forward`", "`rates:"]),
        (["verifier.correction=forward", "rates.source=given"], ["`verifier.correction` is `forward`"]),
        (["verifier.correction=forward", "noise={rho0: 0.1, applies_to: prover}"], ["`verifier.correction`"]),
        (["prover.reward_correction=backward", "noise.rho0=0.1"], ["`prover.reward_correction` is `backward`"]),
        (["noise.level=pair", "noise.rho0=0.1"], ["`verifier`", "`noise_level=pair`"]),
        (["verifier.correction=exact", "noise.epsilon=0.1"], ["`exact`", "set `data.pairs` to `all`"]),
        (["verifier.correction=exact", "rates={source: given, rho0: 0.1}"], ["`exact`", "`data.pairs`"]),
        (
            ["verifier={loss: cross_entropy, correction: forward}", "noise.epsilon=0.1"],
            ["`forward` with `loss: cross_entropy`", "set `data.pairs` to `all`", "`verifier.loss: bradley_terry`"],
        ),
        (
            ["verifier={loss: cross_entropy, correction: backward}", "rates={source: given, rho1: 0.1}"],
            ["`backward` with `loss: cross_entropy`", "`data.pairs`"],
        ),
        (
            ["verifier.correction=forward", "noise.epsilon=0.1", "data.correct_source=dataset"],
            ["all of the correct sides are references", "(`none`)", "`correct_source: prover`"],
        ),
        (
            ["verifier={loss: cross_entropy, correction: forward}", "noise.checker={}", "data.correct_source=both"],
            ["`data.correct_source: both`", "part of the correct sides"],
        ),
        (
            ["verifier.correction=smoothing", "rates.source=trusted", "data.correct_source=both"],
            ["never the wrong way"],
        ),
        (
            ["verifier.correction=exact", "data.pairs=all", "verifier.center=0", "noise.epsilon=0.1"],
            ["`verifier`", "unbounded below"],
        ),
        (["verifier.correction=exact", "noise={level: pair, epsilon: 0.1}"], ["`noise_level` is `pair`"]),
        (["data={pairs: all, correct_source: both}"], ["`data`", "`correct_source` is `both`"]),
        (["data.pair_share=0.5"], ["`data`", "`pair_share` is 0.5"]),
        (
            ["rates.source=trusted", "noise={resample: step, epsilon: 0.1}"],
            ["`rates.source`", "flipped in training only"],
        ),
        (
            [
                "rates.source=trusted",
                "noise={epsilon: 0.1, applies_to: prover}",
                "prover={reward: cgc, reward_correction: backward}",
            ],
            ["`rates.source` is `trusted`", "with `noise.applies_to: prover` they are clean"],
        ),
        (
            [
                "rates.source=trusted",
                "noise={epsilon: 0.1, applies_to: both, schedule: {length: 2}}",
                "prover={reward: cgc, reward_correction: backward}",
            ],
            ["with `noise.schedule` their rates are those of earlier rounds", "take `source: noise`"],
        ),
        (
            ["rates={source: given, rho0: 0.1}", "noise={level: pair, epsilon: 0.1}"],
            ["`verifier`", "`noise_level=pair`"],
        ),
        (["verifier.invariance.method=irm"], ["`verifier`", "Unknown invariance `irm`"]),
        (
            ["verifier={invariance: {method: vrex}, correction: forward}", "noise.epsilon=0.1"],
            ["`correction` is `forward`"],
        ),
        (["verifier.micro_batch_size=3"], ["`verifier.micro_batch_size` is 3", "1, 2, 4"]),
        (["verifier.invariance.method=vrex", "verifier.micro_batch_size=2"], ["`verifier.micro_batch_size` is 2"]),
        (
            ["verifier.invariance={method: balanced, environments: round_role, crowded: refuse}"],
            ["`verifier.invariance`", "cannot hold 3 environments evenly"],
        ),
        (["verifier.invariance.method=balanced", "verifier.pairs_per_step=7"], ["even batch size"]),
        (["verifier.trainer={irm_form: two_halves}"], ["its key `verifier.invariance.irm_form`"]),
        (["verifier.trainer={rho0: 0.1}"], ["its key `rates.rho0`"]),
        (
            [
                "prover={reward_correction: backward, reward: 'tests.support.own_rules:pays_by_the_others'}",
                "noise={epsilon: 0.1, applies_to: prover}",
            ],
            ["`prover.reward_correction`", "labels of others"],
        ),
        (["noise.soft_labels=true", "verifier.correction=smoothing"], ["`noise.soft_labels`", "`smoothing`"]),
        (["noise.checker={slice_by: dificulty}"], ["`dificulty`", "Did you mean `difficulty`?"]),
        (["noise.checker={slice_by: difficulty, slices: {9: {}}}"], ["has `9`, but no problem has that `difficulty`"]),
        (["noise.checker={critical: lemma}"], ["`noise.checker.critical` names the column `lemma`"]),
        (["noise.checker={critical: level more}"], ["Cannot read the condition `level more`"]),
        (
            ["noise.checker={critical: 'difficulty == ['}"],
            ["Cannot read the condition `difficulty == [`", "never closed"],
        ),
        (["noise.checker={critical: difficulty > five}"], ["names the column `five`"]),
        (["noise.checker={critical: difficulty in 5}"], ["`difficulty in 5` looks within 5", "`==`"]),
        (
            ["noise.checker={critical: 'difficulty > \"five\"'}"],
            ['Cannot read the condition `difficulty > "five"`', "'five'"],
        ),
        (["noise.checker={tiers: {balanced: {timeout: 0.5, spurious_fail: 0.5}}}"], ["sum to 1.01", "below 1"]),
        (["noise.checker={critical: difficulty}"], ["the column `difficulty`", "`int64`", "`difficulty >= 5`"]),
        (["noise.checker={critical: problem_id}"], ["the column `problem_id`", "`string`"]),
        (["noise.checker={budget: {per_solution: 1}}"], ["`noise.checker`: `budget.per_solution` (1)", "costs 2"]),
        (["noise.checker={budget: {per_round: 1.5}}"], ["`budget.per_round` (1.5)", "BUDGET_EXHAUSTED"]),
        (
            ["noise.checker={budget: {total: 1, per_round: 3, per_solution: 1}}"],
            ["`budget.per_solution` (1) and `budget.total` (1) cannot pay"],
        ),
        (["noise.checker={budget: {total: 3}, critical: difficulty > 0}"], ["costs 4"]),
        (["noise.checker={slice_by: dificulty}"], ["`noise.checker.slice_by`", "dificulty"]),
        (["noise={applies_to: prover, checker: {slice_by: dificulty}}"], ["dificulty"]),
        (["noise={applies_to: prover, checker: {budget: {total: 1}}}"], ["`budget.total` (1)"]),
        (
            ["noise.checker.errors={targeted_buckets: [{selector: dificulty < 1}]}"],
            ["`noise.checker.errors`", "`dificulty`", "Did you mean `difficulty`?"],
        ),
        (
            ["noise.checker.errors={targeted_buckets: [{selector: completion_full < 1}]}"],
            ["`noise.checker.errors`", "`completion_full < 1` compares numbers"],
        ),
        (
            [
                "noise.checker.errors={targeted_buckets: [{selector: problem_draw < 1 or (difficulty > 1 and dificulty"
                " == 1)}]}"
            ],
            ["`dificulty`", "Did you mean `difficulty`?"],
        ),
        (  # the same mistake in two buckets
            [
                "noise.checker.errors={targeted_buckets: [{selector: problem > 1}, "
                "{selector: difficulty > 0 and problem > 1}]}"
            ],
            ["`problem > 1` compares numbers", "use `==` or `in`"],
        ),
        (
            ["rounds.1.noise.checker.errors={targeted_buckets: [{selector: rel_eror < 1}]}"],
            ["In round 1:", "`rel_eror`", "Did you mean `rel_error`?"],
        ),
        (  # a column of the solution, which a checker does not see
            ["noise.checker.errors={targeted_buckets: [{selector: correct == 1}]}"],
            ["`noise.checker.errors`", "`correct`, which no solution has"],
        ),
        (["noise.checker={base: 'no_such:rule'}"], ["`noise.checker.base`", "no module `no_such`"]),
        (["noise.checker={base: 'math:isnan'}"], ["`noise.checker.base`", "ends with an error: TypeError"]),
        (["noise.checker={base: 'operator:itemgetter'}"], ["whether the reference solution", "must return True"]),
        (
            ["noise.checker={base: 'tests.support.own_rules:knows_the_reference_only'}"],
            ["whether an empty solution", "returned None"],
        ),
        (
            ["noise.checker={base: 'tests.support.own_rules:knows_no_mistake'}"],
            ["whether another problem's reference solution solves the problem `arithmetic-0-train", "returned None"],
        ),
        (
            ["noise.checker={base: command, command: [lake, build]}"],
            ["`noise.checker.command`", "never reads the solution"],
        ),
        (["noise.checker={base: command, command: [lak, '{solution}']}"], ["Cannot run 'lak'"]),
        (["data.mixture=slidng"], ["`data.mixture`", "slidng"]),
        (["data.mixture=sliding"], ["`data.mixture`", "needs `window`"]),
        (["stopping.rule=party"], ["`stopping.rule`", "party"]),
        (["stopping.rule=no.such:rule"], ["`stopping.rule`", "no.such:rule"]),
        (["bootstrap.import_from=none.jsonl"], ["`bootstrap.import_from`", "none.jsonl"]),
        (["bootstrap.import_from=own.jsonl", "bootstrap.import_split=train"], ["`bootstrap.import_from`", "'train'"]),
        (["data.annotations=none"], ["`data.annotations`", "There is no file `none`"]),
        (["rounds.1.seed=3"], ["`rounds.1` overrides `seed`"]),
        (["rounds.1.task.few_shot=0"], ["`rounds.1` overrides `task.few_shot`"]),
        (
            ["task.prompts={sneaky: '{{ problem }}'}", "rounds.1.task.sneaky_sees=honest_solution"],
            ["In round 1: `task`", "does not use the variable"],
        ),
        (["task.honest_source=prover"], ["`task.honest_source` is `prover`", "set `sneaky_sees: honest_solution`"]),
        (["rounds.1.arms={}"], ["`rounds.1` overrides `arms`"]),
        (["rounds.1.prover.warmup={}"], ["`rounds.1` overrides `prover.warmup`"]),
        (["rounds.1.prover.reward=srcc"], ["In round 1: `prover.reward`"]),
        (["verifier.kind=likelihood", "verifier.init=head_only"], ["`head_only`", "has no head"]),
        (["verifier.kind=likelihood", "verifier.head=keep"], ["`keep`", "has no head"]),
        (["verifier.kind=likelihood", "prover={algorithm: ppo, ppo: {critic: verifier}}"], ["`prover.ppo.critic`"]),
        (["rounds.1={prover: {init: previous, lora: {}}}"], ["In round 1:", "round 0 has other `prover.lora`"]),
    ],
)
def test_each_mistake_is_reported_once_with_its_key(mistakes_of, overrides, parts):
    mistakes = mistakes_of(*overrides)
    assert len(mistakes) == 1
    for part in parts:
        assert part in mistakes[0]


@pytest.mark.parametrize(
    "overrides",
    [
        ["prover.lora={target_modules: [q_proj, embed_tokens]}", "verifier.lora={target_modules: [embed_tokens]}"],
        ["prover.lora={target_modules: .*proj}", "verifier.lora={target_modules: [layers.1.self_attn.q_proj]}"],
        ["verifier={kind: likelihood, lora: {target_modules: [q_proj, lm_head]}}"],
    ],
)
def test_adapters_may_be_on_every_module_that_is_trained(overrides, mistakes_of):
    assert mistakes_of(*overrides) == []


def test_vllm_cannot_merge_an_adapter_on_a_shared_embedding(recipe_of, hardware):
    recipe = recipe_of("prover={generation: vllm_server, lora: {target_modules: [q_proj, embed_tokens]}}")
    elsewhere = replace(hardware, is_here=False)  # vLLM need not be installed
    (mistake,) = check_recipe(recipe, None, elsewhere)
    assert "`prover.lora.target_modules` is `['q_proj', 'embed_tokens']`" in mistake
    assert "`vllm_server`" in mistake


@pytest.mark.parametrize(
    "selector",
    [
        "2 <= difficulty <= 4",
        "problem_draw < 0.1",
        "'Certainly' in completion_full",
        "rel_error <= 0.1",
        "problem_id in ['a', 'b'] or matches(completion_extracted, '7$')",
    ],
    ids=["column", "draw", "text", "error", "several"],
)
def test_a_selector_may_name_columns_of_the_task_and_features_of_the_solution(selector, mistakes_of):
    assert mistakes_of(f'noise.checker.errors={{targeted_buckets: [{{selector: "{selector}", FPR: 0.5}}]}}') == []


@pytest.mark.parametrize(
    "overrides",
    [
        ["verifier={loss: cross_entropy, correction: forward}", "noise.epsilon=0.1", "data.pairs=all"],
        ["verifier={loss: cross_entropy, correction: backward}", "noise={epsilon: 0.1, resample: epoch}"],
        ["verifier={loss: cross_entropy, correction: forward}", "noise.epsilon=0.0"],
        ["verifier={loss: cross_entropy}", "noise.epsilon=0.1"],
        ["verifier={correction: backward}", "noise.epsilon=0.1"],
    ],
)
def test_a_correction_is_accepted_where_labels_did_not_choose_the_pairs(overrides, mistakes_of):
    """
    Pairs of any labels; labels that are clean until training; a rate of 0; no correction; and the correction of strict
    pairs.
    """
    assert mistakes_of(*overrides) == []


@pytest.mark.parametrize(
    "overrides",
    [
        ["noise.epsilon=0.1"],
        ["noise={epsilon: 0.1, resample: step}", "verifier.correction=forward"],  # references flip there too
        ["noise={epsilon: 0.1, applies_to: prover}"],
    ],
)
def test_references_as_correct_sides_are_accepted(overrides, mistakes_of):
    assert mistakes_of("data.correct_source=dataset", *overrides) == []


@pytest.mark.parametrize(
    "checker",
    [
        "{budget: {per_round: 2}}",
        "{budget: {per_solution: 1, total: 1}, tier: fast_noisy}",
        "{budget: {total: 1}, slice_by: difficulty, slices: {2: {tier: fast_noisy}}}",
        "{base: 'tests.support.own_rules:fails_on_mistakes'}",
    ],
    ids=["one call a round", "of the cheap tier", "for one slice", "errors are outcomes"],
)
def test_checkers_that_can_give_a_label_are_accepted(mistakes_of, checker):
    assert mistakes_of(f"noise.checker={checker}") == []


def test_labels_of_people_are_not_flipped(mistakes_of, tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text("")
    (mistake,) = mistakes_of(f"data.annotations={path}", "noise={level: pair, epsilon: 0.1}")
    assert mistake.startswith("`data.annotations` has labels by people, which `noise` would flip")
    assert mistakes_of(f"data.annotations={path}", "noise.epsilon=0.1") == []


def test_folder_of_imported_solutions_is_checked(mistakes_of, tmp_path):
    (tmp_path / "test.jsonl").write_text('{"problem": "none", "solution": "none"}\n')
    (mistake,) = mistakes_of(f"bootstrap.import_from={tmp_path}")  # its only split
    assert "None of the 1 solutions" in mistake
    (mistake,) = mistakes_of(f"bootstrap.import_from={tmp_path}", "bootstrap.import_split=train")
    assert mistake.startswith("`bootstrap.import_from`")
    assert "`train`" in mistake
    assert "['test']" in mistake


def test_trainer_arguments_that_the_game_does_not_set_are_accepted(mistakes_of, recipe_of, hardware):
    trainer = "{adam_beta2: 0.9, bf16: true}"  # on a CPU it would be false
    overrides = [f"prover.trainer={trainer}", f"verifier.trainer={trainer}"]
    assert mistakes_of(*overrides) == []
    recipe, run = recipe_of(*overrides), TrainerRun(Path("checkpoints"), hardware)
    rates = {"label_rates": (0.0, 0.0), "assumed_rates": (0.0, 0.0)}
    for args in (prover_arguments(recipe, run), verifier_arguments(recipe, run, **rates)):
        assert (args.adam_beta2, args.bf16) == (0.9, True)


def test_all_trainer_arguments_that_are_set_elsewhere_are_reported(mistakes_of):
    mistakes = mistakes_of("prover.trainer={seed: 1, max_stepz: 1, beta: 0.1}", "verifier.trainer={seed: 1}")
    assert len(mistakes) == 4


@pytest.mark.parametrize("player", ["prover", "verifier"])
def test_keys_to_use_instead_exist_in_a_recipe(player, values):
    recipe = load_recipe(values)
    config = {"prover": recipe.prover, "verifier": recipe.verifier}[player]
    keys = recipe_keys(player, config).values()
    assert len(keys) > 30
    for key in keys:
        *sections, name = key.split(".")
        assert name in known_keys(sections), key


def test_arguments_may_use_the_architectures_other_names(mistakes_of):
    sizes = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2}"
    assert mistakes_of(f"verifier.scratch={{model_type: gpt2, config: {sizes}}}") == []


def test_custom_weights_are_tried_for_every_round(mistakes_of):
    mistakes = mistakes_of("num_rounds=3", "data.mixture=custom", "data.weights={0: 1.0}")
    assert len(mistakes) == 1, "round 0 has the source -1 only"
    assert "weight above 0" in mistakes[0]


def test_a_missing_gpu_is_a_mistake(mistakes_of, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert mistakes_of("device=cuda") == [
        "`device` is `cuda`, but torch finds no GPU here; `auto` uses one if there is one."
    ]


def test_one_process_with_several_gpus_is_a_mistake(mistakes_of, monkeypatch):
    """Transformers would spread every batch over all of them (`DataParallel`), which TRL's GRPO does not expect."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    (mistake,) = mistakes_of("device=auto")
    assert "sees 4 GPUs" in mistake
    assert "CUDA_VISIBLE_DEVICES=0" in mistake
    assert "--num_processes 4" in mistake
    assert mistakes_of("device=cpu") == []


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        (["verifier.pairs_per_step=6"], "`verifier.pairs_per_step` is 6"),
        (["verifier.pairs_per_step=8"], None),
        (
            ["verifier.kind=score", "verifier.score={proofs_per_step: 3, num_generations: 2}"],
            "is 3 x 2 = 6 evaluations",
        ),
    ],
)
def test_a_verifiers_batches_must_divide_over_processes(overrides, part):
    recipe = load_recipe({}, overrides)
    hardware = replace(Hardware.here("cpu"), num_processes=4)
    found = [line for line in check_recipe(recipe, None, hardware) if "evenly" in line and "`verifier" in line]
    assert len(found) == (part is not None)
    assert part is None or part in found[0]


@pytest.mark.parametrize(("num_processes", "is_even"), [(1, True), (2, True), (4, False)])
def test_a_warmups_batches_must_divide_over_processes(num_processes, is_even):
    recipe = load_recipe({}, ["verifier.warmup={batch_size: 6}"])
    mistakes = list(check_batch_sizes(recipe, "verifier", num_processes))
    assert len(mistakes) == (not is_even)
    assert is_even or "`verifier.warmup.batch_size` is 6, which 4" in mistakes[0]


SCRATCH = {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("OddRecallTask", []),
        ("LongRecallTask", ["verifier.max_length"]),
    ],
)
def test_problems_of_any_text_reach_the_players_or_are_too_long(name, keys, values):
    """Whole games of the former are played in tests/game."""
    new = {"scratch": SCRATCH, "warmup": {}}
    task = {"name": f"tests.support.recall_task:{name}", "options": {"num_train": 60}}
    recipe = load_recipe({**values, "task": task, "prover": new, "verifier": new})
    problems = GameProblems.load(recipe)
    mistakes = check_recipe(recipe, problems)
    assert [f"`{key}`" in mistake for key, mistake in zip(keys, mistakes, strict=True)] == [True] * len(keys)
    tokenizer = train_tokenizer([problems.parts["prover"][0]["problem"]], 300)
    row = problems.parts["prover"][0]
    for role in Role:
        assert row["problem"] in problems.prompt(row, role, tokenizer)
    [ids] = VerifierInput.of(recipe.verifier, None).encode(tokenizer, [row["problem"]], [row["reference"]])
    assert row["problem"] in tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("num_processes", "micro_batch", "part"),
    [
        (1, 8, None),
        (2, 4, None),
        (3, 4, "is 4 x 4 = 16 solutions, which 3 processes cannot share evenly"),
        (4, 8, "does not divide a process's 4 solutions a step"),
    ],
)
def test_batches_must_divide_over_processes(values, num_processes, micro_batch, part):
    recipe = load_recipe(values, [f"prover.micro_batch_size={micro_batch}"])  # 4 prompts x 4
    mistakes = list(check_batch_sizes(recipe, "prover", num_processes))
    assert len(mistakes) == (part is not None)
    assert part is None or part in mistakes[0]


def test_play_reports_all_mistakes_before_anything_is_written(values, tmp_path):
    recipe = load_recipe(values, ["prover.micro_batch_size=6", "prover.reward=srcc"])
    with pytest.raises(RecipeError, match=r"2 mistake\(s\)") as caught:
        play(recipe)
    assert "micro_batch_size" in str(caught.value)
    assert "srcc" in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_folder_without_a_complete_model_is_a_mistake(mistakes_of, tmp_path):
    (mistake,) = mistakes_of(f"prover.model={tmp_path}")
    assert "a folder without a `config.json`" in mistake
    (tmp_path / "adapter_config.json").write_text("{}")
    (mistake,) = mistakes_of(f"prover.model={tmp_path}")
    assert "an adapter; name the model that it belongs to" in mistake


@pytest.mark.parametrize(("num_labels", "is_refused"), [(1, False), (2, False), (3, True)])
def test_a_classifier_of_several_labels_as_verifier_is_a_mistake(
    num_labels, is_refused, mistakes_of, tiny_prover, tmp_path
):
    AutoModelForSequenceClassification.from_pretrained(tiny_prover, num_labels=num_labels).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_prover).save_pretrained(tmp_path)
    mistakes = mistakes_of(f"verifier.model={tmp_path}")
    assert len(mistakes) == is_refused
    if is_refused:
        assert f"`verifier.model` is `{tmp_path}`: The model has {num_labels} logits" in mistakes[0]
        assert "ignore_mismatched_sizes=True" in mistakes[0]


@pytest.mark.parametrize("num_labels", [1, 3])
def test_a_classifier_cannot_score_by_likelihood(num_labels, mistakes_of, tiny_prover, tmp_path):
    AutoModelForSequenceClassification.from_pretrained(tiny_prover, num_labels=num_labels).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_prover).save_pretrained(tmp_path)
    (mistake,) = mistakes_of("verifier.kind=likelihood", f"verifier.model={tmp_path}")
    assert "a verifier of kind `likelihood` is a language model" in mistake


def test_a_likelihood_needs_a_tokenizer_with_an_end_token(mistakes_of, tiny_prover, tmp_path):
    shutil.copytree(tiny_prover, tmp_path, dirs_exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_prover)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    (mistake,) = mistakes_of("verifier.kind=likelihood", f"verifier.model={tmp_path}")
    assert "no end token" in mistake


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ([], "no sequence classifier"),
        (["verifier.init=head_only"], "`verifier.init: head_only`"),
        (["verifier.warmup={}"], "a language model without a head"),
    ],
    ids=["language model", "head_only", "warmup"],
)
def test_a_head_that_cannot_be_kept_is_a_mistake(overrides, part, mistakes_of):
    (mistake,) = mistakes_of("verifier.head=keep", *overrides)
    assert "`verifier.head` is `keep`" in mistake
    assert part in mistake


@pytest.mark.parametrize("num_labels", [1, 2])
def test_a_trained_head_can_be_kept(mistakes_of, tiny_prover, tmp_path, num_labels):
    AutoModelForSequenceClassification.from_pretrained(tiny_prover, num_labels=num_labels).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_prover).save_pretrained(tmp_path)
    assert mistakes_of("verifier.head=keep", f"verifier.model={tmp_path}") == []


def test_a_configuration_that_cannot_be_read_is_one_mistake(mistakes_of, tiny_prover, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "zebra"}')
    (mistake,) = mistakes_of(f"verifier.model={tmp_path}")
    assert "`verifier.model`" in mistake
    assert "zebra" in mistake

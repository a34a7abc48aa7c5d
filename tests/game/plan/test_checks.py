"""Mistakes of a recipe that are found before anything is played."""

import pytest

from pvg_hf import load_recipe, play
from pvg_hf.config import RecipeError
from pvg_hf.game.plan import check_recipe
from pvg_hf.game.plan.trainer_checks import check_batch
from pvg_hf.game.world import World


@pytest.fixture
def mistakes_of(values):
    """The mistakes of the recipe with overrides."""

    def check(*overrides: str) -> list[str]:
        recipe = load_recipe(values, overrides)
        return check_recipe(recipe, World.load(recipe))

    return check


def test_a_recipe_that_can_be_played_has_no_mistake(mistakes_of):
    assert mistakes_of() == []


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        (["prover.micro_batch_size=6"], ["`prover.micro_batch_size` is 6", "4 x 4", "1, 2, 4, 8, 16"]),
        (["prover.micro_batch_size=32"], ["`prover.micro_batch_size` is 32"]),
        (["prover.prompts_per_step=200"], ["`prover.prompts_per_step` is 200", "D_pi has"]),
        (["prover.roles=separate"], ["`separate`", "prover.lora"]),
        (["prover.gradient_accumulation_steps=2"], ["micro_batch_size"]),
        (["prover.trainer={num_iteration: 2}"], ["`num_iteration`", "did you mean `num_iterations`?"]),
        (["prover.trainer={auto_find_batch_size: true}"], ["`prover`: auto_find_batch_size is not supported by GRPO"]),
        (["prover.trainer={num_iterations: 2}", "prover.save_steps=3"], ["`save_steps` is 3", "2 steps"]),
        (["prover.lr_scheduler_type=linaer"], ["`prover`", "linaer"]),
        (["prover.reward=srcc"], ["`prover.reward`", "Did you mean `src`?"]),
        (["prover.reward_options={floor: -2}"], ["`prover.reward`", "floor"]),
        (["prover.reward=cgc", "prover.reward_options={flor: -2}"], ["`prover.reward`", "flor"]),
        (["prover.lora={target_modules: [q_prj]}"], ["`prover`", "q_prj"]),
        (["prover.model=/no/such/folder"], ["`prover.model` is `/no/such/folder`", "neither a folder"]),
        (["prover.model=org/never-downloaded"], ["`prover.model`", "HF_HUB_OFFLINE"]),
        (["verifier.scratch={model_type: lama}"], ["`verifier.scratch`", "lama"]),
        (["verifier.scratch={config: {hiden_size: 8}}"], ["`hiden_size`", "did you mean `hidden_size`?"]),
        (
            ["verifier.scratch={config: {num_attention_heads: 5}}"],
            ["`verifier`", "multiple of the number of attention"],
        ),
        (["verifier.template='{{ answer }}'"], ["`verifier.template`", "answer"]),
        (["verifier.correction=backward", "verifier.center=0"], ["`verifier`", "unbounded below"]),
        (["verifier.correction=smoothing", "verifier.loss=cross_entropy"], ["`verifier`", "smoothing"]),
        (["noise.level=pair", "noise.rho0=0.1"], ["`verifier`", "one rate"]),
        (["data.mixture=slidng"], ["`data.mixture`", "slidng"]),
        (["data.mixture=sliding"], ["`data.mixture`", "needs `window`"]),
        (["stopping.rule=party"], ["`stopping.rule`", "party"]),
        (["stopping.rule=no.such:rule"], ["`stopping.rule`", "no.such:rule"]),
        (["bootstrap.import_from=none.jsonl"], ["`bootstrap.import_from`", "none.jsonl"]),
        (["logging.report_to=[tensorbord]"], ["`tensorbord`", "trackio, wandb, tensorboard"]),
        (["rounds.1.seed=3"], ["`rounds.1` overrides `seed`"]),
        (["rounds.1.prover.warmup={}"], ["`rounds.1` overrides `prover.warmup`"]),
        (["rounds.1.prover.reward=srcc"], ["In round 1: `prover.reward`"]),
        (["rounds.1={prover: {init: previous, lora: {}}}"], ["In round 1:", "round 0 has other `prover.lora`"]),
    ],
)
def test_one_mistake_is_named(mistakes_of, overrides, parts):
    mistakes = mistakes_of(*overrides)
    assert len(mistakes) == 1
    for part in parts:
        assert part in mistakes[0]


def test_custom_weights_are_tried_for_every_round(mistakes_of):
    mistakes = mistakes_of("num_rounds=3", "data.mixture=custom", "data.weights={0: 1.0}")
    assert len(mistakes) == 1, "round 0 has the source -1 only"
    assert "weight above 0" in mistakes[0]


def test_a_gpu_that_is_not_there_is_refused(mistakes_of, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert mistakes_of("device=cuda") == [
        "`device` is `cuda`, but torch finds no GPU here; `auto` takes one where there is one."
    ]


@pytest.mark.parametrize(
    ("num_processes", "micro_batch", "part"),
    [
        (1, 8, None),
        (2, 4, None),
        (3, 4, "16 solutions cannot be shared evenly by 3 processes"),
        (4, 8, "does not divide a process's 4 solutions a step"),
    ],
)
def test_batches_divide_over_processes(values, num_processes, micro_batch, part):
    config = load_recipe(values, [f"prover.micro_batch_size={micro_batch}"]).prover  # 4 prompts x 4
    mistakes = list(check_batch(config, num_processes))
    assert len(mistakes) == (part is not None)
    assert part is None or part in mistakes[0]


def test_playing_refuses_all_mistakes_before_anything_is_written(values, tmp_path):
    recipe = load_recipe(values, ["prover.micro_batch_size=6", "prover.reward=srcc"])
    with pytest.raises(RecipeError, match=r"2 mistake\(s\)") as caught:
        play(recipe)
    assert "micro_batch_size" in str(caught.value)
    assert "srcc" in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_holds_no_whole_model_is_refused(mistakes_of, tmp_path):
    (mistake,) = mistakes_of(f"prover.model={tmp_path}")
    assert "a folder without a `config.json`" in mistake
    (tmp_path / "adapter_config.json").write_text("{}")
    (mistake,) = mistakes_of(f"prover.model={tmp_path}")
    assert "an adapter; name the model that it belongs to" in mistake

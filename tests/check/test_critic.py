"""PPO's critic in a plan, and mistakes in its settings."""

from dataclasses import replace

import pytest

from pvg_hf import load_recipe
from pvg_hf.check.mistakes import check_recipe
from pvg_hf.check.phase_costs import count_tokens, describe_phase, peak_memory
from pvg_hf.check.plan import describe_plan
from pvg_hf.check.player_sizes import PlayerSize, critic_bytes, read_critic_size, read_player_size
from pvg_hf.data.problems import GameProblems
from tests.support.sized_players import SIZE, SIZES, TRAINING

PPO = "prover.algorithm=ppo"


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ([PPO, "prover.ppo={critic: adapter}"], ["`prover.ppo.critic` is `adapter`", "`prover.lora: {}`"]),
        (
            [PPO, "prover.ppo={critic: /no/such/folder}"],
            ["`prover.ppo.critic` is `/no/such/folder`", "neither a folder"],
        ),
        ([PPO, "prover.ppo={critic: org/never-downloaded}"], ["`prover.ppo.critic`", "HF_HUB_OFFLINE"]),
        ([PPO, "prover.scale_rewards=group"], ["`prover`: `scale_rewards` is `group`"]),
        ([PPO, "prover.trainer={loss_type: vespo}"], ["`loss_type` is `vespo`"]),
        ([PPO, "prover.trainer={gamma: 0.9}"], ["its key `prover.ppo.gamma`"]),
        ([PPO, "prover.trainer={kl_coef: 0.9}"], ["its key `prover.beta`"]),
        ([PPO, "prover.trainer={num_iterations: 2}"], ["its key `prover.ppo.num_iterations`"]),
        ([PPO, "prover.save_steps=2"], ["`save_steps` is 2", "for 4 steps"]),
        (["prover.trainer={gamma: 0.9}"], ["`gamma`", "`ProverGRPOConfig`"]),
    ],
)
def test_each_mistake_is_reported_once_with_its_key(overrides, parts, values):
    recipe = load_recipe(values, overrides)
    (mistake,) = check_recipe(recipe, GameProblems.load(recipe))
    for part in parts:
        assert part in mistake


def test_a_critic_that_reads_other_tokens_is_refused(values, tiny_prover, tmp_path):
    (tmp_path / "config.json").write_text((tiny_prover / "config.json").read_text())
    (tmp_path / "tokenizer.json").write_text((tiny_prover / "tokenizer.json").read_text().replace('"Ana"', '"Eve"'))
    (tmp_path / "tokenizer_config.json").write_text((tiny_prover / "tokenizer_config.json").read_text())
    recipe = load_recipe(values, [PPO, f"prover.ppo={{critic: {tmp_path}}}"])
    (mistake,) = check_recipe(recipe, GameProblems.load(recipe))
    assert "has another vocabulary" in mistake
    assert "2 entries differ" in mistake


def test_a_verifier_in_4_bits_cannot_be_a_critic(values):
    overrides = [PPO, "prover.ppo={critic: verifier}", "verifier.quantization=4bit", "verifier.lora={}"]
    recipe = load_recipe(values, overrides)
    assert any(
        "`prover.ppo.critic` is `verifier`" in mistake for mistake in check_recipe(recipe, GameProblems.load(recipe))
    )


@pytest.mark.parametrize("critic", ["null", "verifier", "arithmetic"])
def test_valid_critics_are_accepted(critic, values):
    own = ["prover.model=arithmetic", "verifier.model=arithmetic"]
    recipe = load_recipe(values, [*own, PPO, f"prover.ppo={{critic: {critic}}}"])
    assert check_recipe(recipe, GameProblems.load(recipe)) == []


def test_a_critics_memory_is_counted(recipe_of, hardware):
    """All in float32: a weight, its gradient and two averages; of an adapter on the prover's base, the adapter's."""

    def memory(*overrides: str) -> float:
        recipe = recipe_of(PPO, *overrides)
        return critic_bytes(recipe.prover, read_critic_size(recipe, hardware))

    def size(player: str, *overrides: str) -> PlayerSize:
        return read_player_size(recipe_of(PPO, *overrides).player(player), player, hardware)

    assert memory() == 16 * size("prover").num_parameters
    adapter = "prover.lora={r: 2}"
    assert memory(adapter) == 16 * size("prover", adapter).num_trained
    assert memory("prover.ppo={critic: verifier}", "verifier.lora={r: 2}") == 16 * size("verifier").num_parameters


def test_a_critic_is_trained_with_the_prover(amounts_of):
    sizes = {**SIZES, "critic": replace(SIZE, num_trained=1000)}
    plain, ppo = (
        peak_memory("prover", amounts_of("prover.roles=sneaky_only", *overrides), sizes) for overrides in ([], [PPO])
    )
    assert ppo - plain > 16 * 1000  # and the critic's activations with the prover's
    assert plain > TRAINING


def test_amounts_go_by_batches(amounts_of):
    amounts = amounts_of(PPO, "prover.ppo={num_iterations: 2}", "prover.max_steps=10")  # 5 batches, as in the recipe
    ppo, plain = (count_tokens("prover", of_game) for of_game in (amounts, amounts_of()))
    assert ppo["writing"] == plain["writing"]
    assert ppo["training"] == 2 * plain["training"]  # each batch twice
    assert "10 steps, 2 on each batch of 4 prompts x 4 solutions" in describe_phase("prover", amounts)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([], "a copy of the prover's body, "),
        (["prover.lora={}"], "an adapter on the prover's base, "),
        (["prover.ppo={critic: verifier}"], "verifier, "),
    ],
)
def test_a_plan_describes_the_critic(overrides, words, values):
    plan = describe_plan(load_recipe(values, [PPO, *overrides]))
    (line,) = [line for line in plan.splitlines() if line.startswith("Critic")]
    assert words in line
    assert "Critic" not in describe_plan(load_recipe(values))

import pytest
import torch

from pvg_hf.sampling import Sampler
from pvg_hf.sampling.drawing import make_warpers
from pvg_hf.trainers.common.grpo import TAKEN_COLUMNS
from pvg_hf.trainers.common.grpo_config import samples_plainly
from tests.support.ppo_training import ppo_trainer
from tests.support.prover_training import LORA, grade_by_length, prover_args, prover_trainer, role_rows
from tests.support.score_training import proof_rows, score_trainer


@pytest.mark.parametrize(
    ("settings", "engine", "is_plain"),
    [
        ({}, "transformers", True),
        ({"temperature": 0.7}, "transformers", True),
        ({"generation": "auto"}, "transformers", True),
        ({"top_p": 0.9, "top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1}, "transformers", True),
        ({"cache_implementation": "static"}, "transformers", False),
        ({"generation_kwargs": {"typical_p": 0.9}}, "transformers", False),
        ({"generation": "continuous"}, "continuous", False),
        ({"use_transformers_continuous_batching": True}, "continuous", False),
        ({"generation": "vllm_colocate"}, "vllm_colocate", False),
        ({"generation": "vllm_server"}, "vllm_server", False),
        ({"use_vllm": True, "vllm_mode": "server"}, "vllm_server", False),
    ],
)
def test_engines_set_the_switches_of_trl(settings, engine, is_plain, tmp_path):
    args = prover_args(tmp_path, **settings)
    assert args.generation == engine
    assert args.use_vllm == engine.startswith("vllm")
    assert args.use_transformers_continuous_batching == (engine == "continuous")
    if args.use_vllm:
        assert args.vllm_mode == engine.removeprefix("vllm_")
    assert samples_plainly(args) == is_plain


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"generation": "continous"}, "Did you mean `continuous`"),
        ({"generation": "continuous", "use_vllm": True}, "`generation` is `continuous`, but .* `vllm_"),
        ({"generation": "vllm_server", "use_transformers_continuous_batching": True}, "`vllm_server`.*`continuous`"),
    ],
)
def test_wrong_engines_are_refused(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        prover_args(tmp_path, **settings)


@pytest.mark.parametrize("name", sorted(TAKEN_COLUMNS))
def test_columns_that_trl_would_confuse_are_refused_at_once(name, prover, tmp_path):
    makers = {
        "prover": lambda rows: prover_trainer(prover, tmp_path, rows=rows(role_rows())),
        "its evaluation": lambda rows: prover_trainer(prover, tmp_path, eval_dataset={"all": rows(role_rows())}),
        "with a critic": lambda rows: ppo_trainer(prover, tmp_path, rows=rows(role_rows())),
        "score verifier": lambda rows: score_trainer(prover, tmp_path, rows=rows(proof_rows())),
    }
    for make in makers.values():
        with pytest.raises(ValueError, match=rf"\['{name}'\].*rename"):
            make(lambda rows: rows.add_column(name, ["x"] * len(rows)))


def test_columns_of_other_names_reach_the_grader(prover, tmp_path):
    names = ["completion", "score", "scores", "reward", "advantage", "correct", "solution", "label", "problem_id"]
    rows, seen = role_rows(), set()
    for name in names:
        rows = rows.add_column(name, ["x"] * len(rows))

    def grade(row, solution):
        seen.update(row)
        return grade_by_length(row, solution)

    prover_trainer(prover, tmp_path, rows=rows, grader=grade, settings={"max_steps": 1}).train()
    assert set(names) <= seen


def _generate(trainer, prompts: list[list[int]]) -> list[list[int]]:
    torch.manual_seed(3)
    return trainer._generate_single_turn(prompts, None, {}, 4)[0]


@pytest.mark.parametrize("peft_config", [None, LORA], ids=["full", "adapter"])
def test_checkpointing_does_not_add_a_hook_at_each_step(prover, tmp_path, peft_config):
    """A compiled forward pass would be compiled again for each of them."""
    numbers = []
    for steps in (1, 3):
        settings = {"max_steps": steps, "gradient_checkpointing": True, "beta": 0.1}
        trainer = prover_trainer(prover, tmp_path, settings=settings, peft_config=peft_config)
        trainer.train()
        numbers.append(len(trainer.model.get_input_embeddings()._forward_hooks))
    assert numbers[0] == numbers[1] >= 1


def test_training_and_minting_draw_alike(prover, tokenizer, tmp_path):
    trainer = prover_trainer(prover, tmp_path)
    prompts = [tokenizer(f"Ana has {index} pens.")["input_ids"] for index in (2, 2, 2, 11)]
    trainer.model.train()
    drawn = _generate(trainer, prompts)
    assert trainer.model.training
    assert len(set(map(tuple, drawn[:3]))) == 3  # each row has different random numbers
    torch.manual_seed(3)
    uniforms = torch.rand(4, 8, dtype=torch.float64)
    alone = [
        Sampler(trainer.model, tokenizer, max_new_tokens=8).sample_ids([p], u[None]) for p, u in zip(prompts, uniforms)
    ]
    assert drawn == [row for ((row,), _) in alone]


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"generation_kwargs": {"top_k": 1}}])
def test_the_distribution_is_truncated_by_the_sampler_or_by_generate(prover, tokenizer, tmp_path, settings):
    """At `top_k=1` every row of a prompt is its most probable continuation."""
    trainer = prover_trainer(prover, tmp_path, settings=settings)
    prompts = [tokenizer("Ana has 2 pens.")["input_ids"]] * 4
    assert len(set(map(tuple, _generate(trainer, prompts)))) == 1


def _sampling_difference(trainer) -> tuple[float, float]:
    """Train, and return the mean and the maximum of the last step."""
    trainer.train()
    log = [line for line in trainer.state.log_history if "loss" in line][-1]
    return tuple(log[f"sampling/sampling_logp_difference/{name}"] for name in ("mean", "max"))


@pytest.mark.parametrize("num_iterations", [1, 2])
def test_sampling_and_training_compute_the_same_logprobs(prover, tmp_path, num_iterations):
    """
    The difference is that of the old log-probabilities, also in the second pass over a batch, whose weights are new.
    """
    settings = {"max_steps": 2, "learning_rate": 0.1, "num_iterations": num_iterations}
    mean, largest = _sampling_difference(prover_trainer(prover, tmp_path, settings=settings))
    assert 0 <= mean <= largest < 1e-4  # float32


def test_sampling_from_another_distribution_than_the_trained_one_is_seen(prover, tmp_path):
    trainer = prover_trainer(prover, tmp_path, settings={"max_steps": 1})
    trainer.sampler.warpers = make_warpers(temperature=2.0)
    mean, largest = _sampling_difference(trainer)
    assert 0.01 < mean <= largest

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config
from trl.trainer.utils import add_fused_lm_head

from pvg_hf.trainers.common.shared_prompts import can_share_prompts, put_groups_together, share_prompts
from tests.support.prover_training import LORA, prover_trainer

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def tiny(config, **settings):
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config(**SIZES, num_key_value_heads=1, **settings))


def test_a_row_has_the_prompt_once_and_each_solution_after_its_last_token():
    # Prompt (7, 8, 9) with the solutions (1, 2) and (3), and prompt (7, 8) with the solution (4).
    ids = torch.tensor([[7, 8, 9, 1, 2], [0, 7, 8, 4, 0], [7, 8, 9, 3, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 1, 0]])
    shared = share_prompts(ids, mask, 2)
    assert shared.inputs["input_ids"].tolist() == [[7, 8, 9, 1, 2, 9, 3], [7, 8, 4, 0, 0, 0, 0]]
    assert shared.inputs["position_ids"].tolist() == [[0, 1, 2, 3, 4, 2, 3], [0, 1, 2, 0, 0, 0, 0]]
    n = -100
    assert shared.inputs["shift_labels"].tolist() == [[n, n, 1, 2, n, 3, n], [n, 4, n, n, n, n, n]]
    sees = shared.inputs["attention_mask"][0, 0].int().tolist()
    assert sees[4] == [1, 1, 1, 1, 1, 0, 0]  # the second token of the first solution
    assert sees[6] == [1, 1, 0, 0, 0, 1, 1]  # the token of the second one does not see the first
    assert shared.num_tokens == 10
    values = torch.arange(14.0).view(2, 7)
    assert shared.of_rows(values).tolist() == [[2.0, 3.0], [8.0, 0.0], [5.0, 0.0]]


def test_nothing_is_joined_if_all_prompts_differ():
    ids = torch.tensor([[5, 6, 1], [6, 6, 1]])
    assert share_prompts(ids, torch.ones_like(ids), 1) is None


@pytest.mark.parametrize("config", [LlamaConfig, Qwen2Config, Qwen3Config], ids=lambda config: config.__name__)
def test_log_probabilities_and_gradients_are_those_of_separate_rows(config):
    model = tiny(config)
    assert can_share_prompts(model)
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy"))
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 50, (6, 16), generator=generator)
    ids[1], ids[3:5] = ids[0], ids[2]
    mask = torch.ones_like(ids)
    mask[2:5, :4] = 0  # a shorter prompt
    mask[1, 13:] = mask[4, 10:] = mask[5, 9:] = 0  # shorter solutions, of 8 tokens at most
    ids[1, 8:], ids[3, 8:] = ids[5, 8:], ids[0, 8:]
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-8] = -100
    weights = torch.rand(6, 8, generator=generator)

    def read(outputs, of_rows):
        model.zero_grad()
        logps, entropies = of_rows(outputs.log_probs), of_rows(outputs.entropy)
        (logps * weights).sum().backward()
        return logps.detach(), entropies.detach(), [weight.grad.clone() for weight in model.parameters()]

    apart = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    *plain, gradients = read(apart, lambda values: values[:, -8:])
    shared = share_prompts(ids, mask, 8)
    *joined, joined_gradients = read(model(**shared.inputs, fused_lm_head=True), shared.of_rows)
    assert len(shared.inputs["input_ids"]) == 3
    assert shared.num_tokens < mask.sum()
    for expected, found in zip([*plain, *gradients], [*joined, *joined_gradients], strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (MistralConfig, {"sliding_window": 8}),
        (Qwen2Config, {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}),
        (LlamaConfig, {"attn_implementation": "eager"}),
    ],
    ids=["another architecture", "a sliding window", "attention without such a mask"],
)
def test_other_attention_reads_rows_apart(config, settings):
    assert not can_share_prompts(tiny(config, **settings))


def test_groups_are_in_one_micro_batch_of_their_step():
    def batch(*prompts):
        prompt_ids = torch.tensor([[prompt] for prompt in prompts])
        return {"prompt_ids": prompt_ids, "reward": prompt_ids.flatten() / 10, "items": torch.tensor(9)}

    batches = [batch(2, 1), batch(1, 2), batch(3, 4), batch(4, 3)]
    together = put_groups_together(batches, 2)
    assert [each["prompt_ids"].flatten().tolist() for each in together] == [[1, 1], [2, 2], [3, 3], [4, 4]]
    assert together[2]["reward"].tolist() == pytest.approx([0.3, 0.3])
    assert all(each["items"] == 9 for each in together)


@pytest.mark.parametrize(
    "settings",
    [{}, {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}],
    ids=["whole step", "micro-batches"],
)
@pytest.mark.parametrize("peft_config", [None, LORA], ids=["all weights", "adapter"])
def test_a_training_is_that_of_separate_rows(settings, peft_config, prover, tmp_path):
    def train(folder, shares):
        of_step = {**settings, "beta": 0.1, "max_steps": 1, "learning_rate": 1e-3}
        trainer = prover_trainer(prover, tmp_path / folder, settings=of_step, peft_config=peft_config)
        assert trainer._shares_prompts
        trainer._shares_prompts = shares
        trainer.train()
        history = trainer.state.log_history
        return history, {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}

    (apart, weights), (joined, joined_weights) = train("apart", False), train("joined", True)
    for key in ("loss", "grad_norm", "kl", "entropy"):
        assert joined[0][key] == pytest.approx(apart[0][key], rel=1e-4, abs=1e-6), key
    for name, weight in weights.items():
        torch.testing.assert_close(joined_weights[name], weight, atol=1e-5, rtol=1e-4)

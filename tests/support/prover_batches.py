"""One generation batch of a prover's trainer, and the log-probabilities of its tokens, one solution at a time."""

import torch


def generate(trainer):
    """Its rows, its solutions as ids and as texts, and what the loss is computed from."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    rows = next(iter(trainer.get_train_dataloader()))
    inputs = trainer._generate_and_score_completions(rows)
    ids = [
        row[mask.bool()].tolist()
        for row, mask in zip(inputs["completion_ids"], inputs["completion_mask"], strict=True)
    ]
    solutions = trainer.processing_class.batch_decode(ids, skip_special_tokens=True)
    return rows, ids, solutions, inputs


def is_truncated(trainer, ids) -> list[bool]:
    return [row[-1] not in trainer.eos_token_ids for row in ids]


def token_logprobs(model, rows, tokenizer, ids) -> list[torch.Tensor]:
    """Log-probabilities of each solution's tokens, one row in one forward."""
    logprobs = []
    for row, completion in zip(rows, ids, strict=True):
        prompt = tokenizer(row["prompt"])["input_ids"]
        logits = model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        logprobs.append(logits.log_softmax(-1).gather(-1, torch.tensor(completion)[:, None])[:, 0])
    return logprobs


def token_values(model, rows, tokenizer, ids) -> list[torch.Tensor]:
    """Values of the state before each token, one row in one forward."""
    values = []
    for row, completion in zip(rows, ids, strict=True):
        prompt = tokenizer(row["prompt"])["input_ids"]
        values.append(model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1, 0])
    return values

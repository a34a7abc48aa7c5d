"""The role-conditioned GRPO prover."""

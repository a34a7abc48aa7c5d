"""The GRPO trainer of role-conditioned provers."""

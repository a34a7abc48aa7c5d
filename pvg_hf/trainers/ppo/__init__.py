"""The role-conditioned PPO prover."""

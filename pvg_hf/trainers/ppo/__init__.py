"""The PPO trainer of role-conditioned provers."""

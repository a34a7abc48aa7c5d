"""The app: pages on a run's solutions, rounds and verifiers, and a study with people. All logic is in `pvg_hf`."""

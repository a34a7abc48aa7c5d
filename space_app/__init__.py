"""The app: pages on a run's solutions, rounds and verifiers, and a study with people. No logic of its own."""

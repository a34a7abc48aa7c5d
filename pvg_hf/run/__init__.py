"""A run's folder: its paths, phases, resume checks, damage checks, lock, and reading."""

"""A run's folder: paths, phases, resuming, damage, lock and reading."""

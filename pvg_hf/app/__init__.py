"""Reading a run: its solutions by problem, its rounds compared with another run's, and scores of new texts."""

"""Reading a run: its solutions by problem, its rounds beside another run's, and scores of texts of one's own."""

"""Builds training pairs from a pool, in the steps candidates, selection, matching and building."""

"""Training pairs from a pool: candidates, selection, matching, building."""

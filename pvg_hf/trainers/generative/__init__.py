"""The verifier that writes an evaluation and predicts a score."""

"""Attacks on frozen verifiers: fresh provers that are trained to fool one, and texts that need no training."""

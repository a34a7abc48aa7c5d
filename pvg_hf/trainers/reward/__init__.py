"""The Bradley-Terry verifier."""

"""The trainer of Bradley-Terry verifiers."""

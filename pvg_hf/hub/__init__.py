"""Rounds on the Hub: publishing them, and getting them back."""

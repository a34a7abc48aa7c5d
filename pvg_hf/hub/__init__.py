"""Rounds on the Hub: publish and download them."""

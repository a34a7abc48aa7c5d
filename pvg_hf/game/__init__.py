"""The round loop."""

"""Builds the base models that ship with the package."""

"""Shared by the trainers."""

"""Basics for every layer: seeds, roles, figures, files, templates and custom code."""

"""Used by every layer: seeds, roles, figures, files, templates and custom code."""

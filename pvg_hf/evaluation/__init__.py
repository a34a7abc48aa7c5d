"""Figures of a round, and the report that shows them."""

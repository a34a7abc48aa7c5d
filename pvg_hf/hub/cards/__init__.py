"""Model and dataset cards of a published round."""

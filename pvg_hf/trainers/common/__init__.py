"""Code that several trainers share."""

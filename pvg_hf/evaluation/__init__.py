"""What is measured after a round, and the report that shows it."""

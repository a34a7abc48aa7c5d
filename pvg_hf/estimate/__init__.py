"""What a game costs: tokens, memory and time."""

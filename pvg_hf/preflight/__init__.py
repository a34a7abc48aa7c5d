"""What can be refused before a game is played."""

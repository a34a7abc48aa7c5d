"""Tasks whose solutions are programs, and the sandbox that runs them."""

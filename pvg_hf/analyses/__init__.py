"""Written evaluations of a proof: their form, the prompts that ask for them, and what many of them together say."""

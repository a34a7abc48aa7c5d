"""
The message game: a prover sends a message about a problem and always argues for yes, and a verifier sees problem and
message and decides (Anil et al. 2021, arXiv 2108.12099).
"""

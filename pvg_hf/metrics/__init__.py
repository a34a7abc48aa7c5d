"""
Measures of a prover-verifier game as modules of the library `evaluate`, each loadable by the path of its file.

They compute with the functions of `pvg_hf.evaluation`, which the game itself uses.
"""

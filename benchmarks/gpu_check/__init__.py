"""
Everything that waits for a GPU, as `scripts/check_gpu.py` runs it: players with random weights of the real sizes play a few
steps of the recipes, and their speed and memory are measured.
"""

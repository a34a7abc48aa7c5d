"""
Checks that need a GPU, run by `tools/check_gpu.py`.

Players with random weights of realistic sizes play a few steps of the recipes, and their speed and memory are
measured.
"""

"""Helpers of the tests: tiny players and recipes, drivers of processes, a loopback Hub."""

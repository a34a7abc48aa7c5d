"""Recipes lie beside the package in a clone, and in the package `pvg_hf.recipes` of a wheel. All else is in setup.cfg."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["pvg_hf*"]), "pvg_hf.recipes"],
    package_dir={"pvg_hf.recipes": "recipes"},
)

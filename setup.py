"""
Some folders lie beside the package in a clone, and in it in a wheel (`pvg_hf/core/shipped.py`). All else is in
setup.cfg.
"""

from setuptools import find_packages, setup

SHIPPED = {"pvg_hf.recipes": "recipes", "pvg_hf.space_app": "space_app", "pvg_hf.glossary": "docs/reference"}

setup(packages=[*find_packages(include=["pvg_hf*"]), *SHIPPED], package_dir=SHIPPED)

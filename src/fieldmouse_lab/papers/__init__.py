"""Experiments that reproduce the published works behind fieldmouse, and experiments beyond them.

Each paper has modules with its printed numbers and modules that compute them again with the crawler's own
policies and solvers. `fieldmouse_lab.catalogue` lists all experiments.
"""

from __future__ import annotations

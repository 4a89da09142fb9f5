"""Exact solution of a model under a rule.

`solve` is the entry point. It uses `banded` for exponential lifetimes and `ordered` for others (with
`dense` for small systems, and `coordinates`, which keep it small). `stationary` reduces
chains; `journey` and `wayfarer` follow one page, and `sojourn` computes distributions of its stay.
"""

from __future__ import annotations

"""Exact solution of a model under a rule.

`solve` is the entry point. It uses `banded` for exponential lifetimes and `ordered` for others (with
`dense_distribution` for small systems, and `coordinates`, which keep it small). `stationary` reduces
chains, and `page_sojourn` follows one page.
"""

from __future__ import annotations

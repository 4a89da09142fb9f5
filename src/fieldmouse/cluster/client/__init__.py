"""An agent's side of the cluster."""

from __future__ import annotations

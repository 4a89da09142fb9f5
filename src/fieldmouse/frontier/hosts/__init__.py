"""Tables of hosts and sites."""

from __future__ import annotations

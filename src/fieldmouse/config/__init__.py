"""Settings: sections, values with units, `fieldmouse.toml`."""

from __future__ import annotations

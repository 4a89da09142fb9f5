"""Settings: sections, values with units, `fieldmouse.toml`."""

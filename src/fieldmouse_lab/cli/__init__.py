"""Commands of the lab: `lab` and `model`."""

"""Commands of a cluster."""

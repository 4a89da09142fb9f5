"""Set of seen URLs on disk."""

"""Comparison of two versions of a page."""

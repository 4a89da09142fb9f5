"""Checks and repairs of a crawl directory."""

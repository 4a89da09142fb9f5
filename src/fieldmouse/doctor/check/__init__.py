"""Checks of a crawl directory that change nothing."""

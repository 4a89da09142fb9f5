"""Repairs of a crawl directory from the data that is left."""

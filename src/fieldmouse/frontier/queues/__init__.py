"""Queues of waiting URLs, one for each host, on disk."""

"""Channels that deliver notifications."""

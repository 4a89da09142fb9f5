"""Policies that spread a budget of polls over pages."""

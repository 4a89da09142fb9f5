"""Policies that choose the hosts that are online."""

"""Polling played in slots: pages that change by chance, and policies that decide which to look at again."""

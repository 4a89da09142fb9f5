"""Decisions of a crawl as pure functions, shared by solver, simulator and live crawler.

A policy is pure and synchronous: no clock, no socket, no disk, no global randomness. Time comes in as a
float, randomness as a generator, observations as values. The solver evaluates it, the lab simulates it and
the live crawl follows it.
"""

from __future__ import annotations

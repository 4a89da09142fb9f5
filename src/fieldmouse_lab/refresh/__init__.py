"""Simulation of polling in slots: pages that change at random, and policies that choose which to poll."""

from __future__ import annotations

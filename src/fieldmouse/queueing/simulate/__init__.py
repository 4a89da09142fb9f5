"""Simulation of a model under a rule, page by page.

`simulate` is the entry point and gives confidence intervals; `play` is the kernel. They share nothing
with the solvers but the model, so that each checks the other.
"""

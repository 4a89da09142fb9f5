"""Queueing model: arrivals, service, lifetime, buffer size, its Markov chain and its measures.

`ph` and `bmap` are times and arrivals, `arrivals` has four ways to define the latter; `model` puts
them together, `modelfile` reads a model from JSON, `chain` is a model under a rule, `measures` are its
results. `entries` validates the numbers. Nothing here depends on how a model is solved or fitted.
"""

from __future__ import annotations

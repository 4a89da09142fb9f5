"""Queueing model: arrivals, service, lifetime, buffer size, its Markov chain and its measures.

`phase_type` and `arrivals` are times and arrivals, with four ways to define the latter. `Model` puts them
together, `model_file` reads a model from JSON, `Chain` is a model under a rule, `measures` are its results.
`validation` checks the numbers. Nothing here depends on how a model is solved or fitted.
"""

from __future__ import annotations

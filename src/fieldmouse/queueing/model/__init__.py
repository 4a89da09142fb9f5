"""What is asked about: arrivals, service, lifetime and room, the chain they make, and what it tells.

`ph` and `bmap` are times and arrivals, `arrivals` four ways of writing the latter down; `model` puts
them together, `modelfile` reads a model from JSON, `chain` is a model under a rule, `measures` what can
be told of it. `entries` checks the numbers. Nothing here knows how a model is solved or fitted.
"""

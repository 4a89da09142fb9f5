"""Queueing model of the page buffer: pages arrive in batches, wait, become obsolete, or are indexed.

The model is that of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011): a
finite buffer before one server, arrivals that depend on the number of fetch workers that a rule
allows at the current level, service times and lifetimes of phase type.

Follow a page. It arrives in a batch, at a rate that depends on the number of active fetch workers
and on a hidden phase. Its service time and its maximum waiting time are of
phase type. Together with the buffer size that is a `model`, read from JSON or
fitted to the trace of a crawl (`fit`). Under a rule the model becomes a Markov chain over levels, which
`solve` solves by a suitable method; `simulate` simulates single pages instead and
shares nothing with the solvers but the model. Both give the same measures, and `optimise`
finds the rule with the least cost.

Each folder imports only those before it: `model`, `simulate`, `solve`, `optimise`; `fit` and `in_flight` need
only `model`. `in_flight` extends the model by fetches in flight and by workers that wait; live crawls use it.
Everything here is pure and needs only numpy; kernels are compiled if numba is available.
"""

from __future__ import annotations

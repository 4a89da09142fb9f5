"""Queues that can be solved: pages come in batches, wait their turn, grow old, and are indexed.

The model is that of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011): a
finite buffer before one server, arrivals that depend on how many robots a rule
sends at the present level, service and lifetime of phase type.

Follow a page. It comes in a batch, at a pace that depends on how many robots work
and on a hidden phase; how long it is served and how long it may wait are times of
phase type. Together with the room in the buffer that is a `model`, read from JSON or
made from what a crawl has seen (`fit`). Under a rule it becomes a chain of levels, which
`solve` solves by the method that suits it; `simulate` plays the page's life out instead,
sharing nothing with the solvers but the model. Both give the same measures, and `optimise`
finds the rule whose measures cost least.

Each shelf imports only those before it: `model`, `simulate`, `solve`, `optimise`; and `fit` needs
`model` alone. Everything here is pure and needs numpy alone; kernels are compiled where they can be.
"""

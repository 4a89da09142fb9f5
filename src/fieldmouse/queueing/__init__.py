"""Queues that can be solved: pages come in batches, wait their turn, grow old, and are indexed.

The model is that of Avrachenkov, Dudin, Klimenok, Nain and Semenova (2011): a
finite buffer before one server, arrivals that depend on how many robots a rule
sends at the present level, service and lifetime of phase type.
"""

"""Simulation of a network of agents on the thesis's web (chapter 7), in virtual time.

Hosts and agents lie in four partitions of the world; a round trip costs the host's mean, and more with
distance. An agent serves one host at a time, first come first served, and then chooses the next visitor of
that host. `environment` is the web with its upper bound (`throughput_limit`), `kernel` the simulation,
`play` combines them.
"""

from __future__ import annotations

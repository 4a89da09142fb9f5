"""Load balancing in a cluster: the choice of the agent that visits a host next.

After a visit the agent decides whether it or another agent makes the next visit. Each rule uses data that
travels with the host (`kalman`: a learned round-trip time for each agent) and a few numbers that the
agents advertise (`AgentLoadTracker`: speed and backlog; `priced`: the price).

- `kalman`: the thesis's KALMAN-BLAWLB: sibling Kalman filters on queue time plus round trip, a sample from
  each, the least wins. Needs nothing from other agents.
- `baselines`: consistent hashing, independent of load and distance; IPMicra, which assigns whole subnets to
  the nearest agent; the shortest expected delay; and the better of two random agents.
- `priced`: round trips times a price per agent, which rises where work piles up. The default. `trip_prior`
  decides whether to try an agent that never visited the host.

The functions work on plain rows of numbers, so that the same code runs compiled in the lab's simulation
(on arrays) and uncompiled in a live agent (on lists, through `agent_choice`). Randomness comes in as standard
normal numbers. Learned data of a host travels with it as a `HostDelayEstimates`, keyed by agent name.
"""

from __future__ import annotations

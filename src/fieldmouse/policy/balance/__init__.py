"""Which agent of a network should visit a host next?

An agent has visited a host and must say who visits it the next time: itself, or another.
Each rule answers that from what travels with the host (`kalman`: a learned round-trip time for each
agent) and from the few numbers that agents tell each other (`backlog`, `price`, `speed`).

- `kalman`: the thesis's KALMAN-BLAWLB, sibling Kalman filters on queue time and round trip together,
  a draw from each, the least wins. Needs nothing from others.
- `ring`: consistent hashing, which looks at nothing.
- `nearness`: IPMicra, which gives whole subnets to the agent that is nearest.
- `delays`: the shortest expected delay, and the better of two agents drawn by lot.
- `priced`: round trips times a price for each agent, which rises where work piles up. The default. `outlook`
  says whether it is worth it to try an agent that never visited the host.

The functions are written over plain rows of numbers, so that the same code runs compiled in the
lab's simulation (on arrays) and as it is in a live agent (on lists, through `balancer`). Chance comes in
as standard normal numbers. What a rule learns of a host travels with it as a `triprow`, by agents' names.
"""

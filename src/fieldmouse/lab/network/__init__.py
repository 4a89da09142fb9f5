"""A network of agents on the simulated web of the thesis (chapter 7), in virtual time.

Hosts lie in four partitions of the world, agents too; a round trip costs the host's own mean, and more
the farther they are apart. An agent serves one host at a time, first come first served, and
then says who visits that host next. `environment` is the web, `kernel` the simulation, `limit` the best that
anybody could do, `play` puts them together.
"""

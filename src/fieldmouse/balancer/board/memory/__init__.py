"""Coordinator in the memory of one process, a plain description of the behaviour of all coordinators.

`board` answers calls, `ledger` has the rules, `standing` the records of hosts, agents and addresses,
`wishes` the hosts that agents wish for; `builder` rebuilds a lost crawl.
"""

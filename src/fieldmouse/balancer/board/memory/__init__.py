"""The board in the memory of one process, which says in plain code what every board does.

`board` answers calls, `ledger` has the rules, `standing` what is known of hosts, agents and addresses,
`wishes` who waits for which host; `builder` makes a lost crawl again.
"""

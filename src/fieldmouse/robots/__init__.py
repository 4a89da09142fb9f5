"""Robots run errands: one host, a few URLs, one request after the other.

A robot gets an `Errand` from the frontier. It looks the host's name up (the
guard says no to private addresses), gets the host's robots.txt if it is not at
hand, and then asks for the URLs one by one, through the gate. Each answer
becomes an `Outcome` and is delivered; what could not be asked in this visit is
given back. The robot never decides when the host may be visited again:
`policy.politeness` does. Nor does it decide whose fault a failure is: `blame.py` asks
the prober, who sees all robots' troubles together and knows an outage of our own.
"""

"""Crawl on many machines: agents that share hosts through a coordinator. Follow one host through it.

A page links to a host that is new to the crawl. The agent that read the page *offers* the link to the
**coordinator**, which every agent can reach. The coordinator keeps the seen keys of the whole crawl. If
the URL is new, the same call adds it to the URLs that wait for their host.

An agent with idle fetch workers asks for hosts and is *granted* ours. It holds the host under an
**epoch**, a number that is never used again, together with some of its URLs. From now on no other agent
visits the host. Before each visit the agent also leases the host's IP address, because hosts of other
agents may share it. It frees the address afterwards and says how long the address must rest. Pages,
archive and index stay with the agent.

The agent *acknowledges* URLs when their pages are durable on its disk and the links found on them are at
the coordinator. Only then is the coordinator done with those URLs. After a visit a policy
(`policy/balance`) chooses the agent for the next visit. If that is another agent, the host is *given
back* with its state: delays, robots.txt, and measured round trips. URLs that the agent still fetches stay
with it until they are acknowledged.

Every agent sends a heartbeat every few seconds. An agent that sends none for longer than its lease is
*fenced*: its hosts and its unacknowledged URLs go to other agents, and its calls are rejected until it
joins again. It stops fetching before that, by a clock that also counts while the machine sleeps.

The coordinator may be killed, too. Its server loses at most the last second. Agents keep every message in
an outbox until it is safe, and send it again to a server that was restarted. Every call may be repeated.
A crawl may be sharded over several servers by site.

`coordinator` is the interface, also for building a lost coordinator again; `redis` and `sharded`
implement it and know nothing about agents. `client` is the agent's side: its frontier fills the pending
calls and the outbox, the session delivers them, and status figures and the placement decide where hosts
go.

Invariant: a URL that was accepted waits at the coordinator, or is held by one agent under an epoch, or is
acknowledged.
"""

from __future__ import annotations

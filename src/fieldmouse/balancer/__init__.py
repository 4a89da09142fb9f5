"""A crawl on many machines: agents that meet on a board. Follow one host through it.

A page mentions a host that nobody knows. The agent that read the page *offers* the link to the **board**,
which every agent can reach. The board has the seen keys of the whole crawl: if the URL is new, it is put
among those that wait for their host, in the same act. Nothing else is remembered by agents alone.

Some agent with robots to spare asks for hosts, and is *granted* ours: it holds the host under an
**epoch**, a number that is never given again, with some of its URLs. From now on nobody else visits it.
Before each errand the agent also asks for the host's address, since hosts of other agents may live there,
and frees it afterwards with the rest that it wants. Pages, archive and index stay with the agent.

When pages are durable on the agent's disk, and the links found on them are on the board, they are
*booked*: only now has the board done with those URLs. After a visit a policy (`policy/balance`) says who
should visit the host next; if that is somebody else, the host is *given back* with all that is known of
it: its delays, its robots.txt, what was learned of round trips. URLs that the agent still has in the air
stay with it until they are booked.

An agent that lives says so every few seconds. One that does not for longer than its lease is *fenced*:
its hosts and its URLs that are not booked go to others, and nothing it says counts until it has joined
again. It stops asking by itself before that, by a clock that counts sleep (`lease`).

The board may be killed, too. Its server keeps what it was told but for the last second; agents keep what
they told until that is safe (`tellings`), and when the server is another one they tell it again.
Everything they say may be said twice. A crawl may lie on several servers (`board/spread`): each has some
sites.

What a board is lies in `board/`, and knows nothing of agents. The modules beside this page are an agent's
side of it: `mailbox` and `tellings` are filled by its frontier, `messenger`, `teller` and `door` bring that
to the board, `adverts` and `choice` are what agents say and think of each other, and `opening` finds the
board of a URL.

Invariant: a URL that was accepted is waiting on the board, or held by one agent under an epoch, or
booked.
"""

"""Hosts that agents wish for at the coordinator in memory, because they want to fetch known pages again."""

from __future__ import annotations

from collections.abc import Callable

from fieldmouse.balancer.board.memory.standing import HostRecord
from fieldmouse.url import Host

LOOK_AGAIN = 1.0
"""Seconds after which a host that was held, or kept for another agent, is tried again."""
AT_ONCE = 64
"""Wishes tried in one call."""


class Wishes:
    """Wished hosts by agent, and when each is tried next. `hosts` are those of the crawl."""

    def __init__(self, hosts: dict[Host, HostRecord]) -> None:
        self._hosts = hosts
        self._by_agent: dict[str, dict[Host, float]] = {}

    def add(self, agent: str, host: Host, now: float) -> None:
        self._hosts.setdefault(host, HostRecord())
        self._by_agent.setdefault(agent, {}).setdefault(host, now)

    def drop(self, agent: str) -> None:
        """Remove the wishes of an agent that left."""
        self._by_agent.pop(agent, None)

    def has(self, agent: str, host: Host) -> bool:
        return host in self._by_agent.get(agent, {})

    def granted(self, agent: str, host: Host) -> None:
        self._by_agent.get(agent, {}).pop(host, None)

    def look(self, agent: str, now: float, soon: float, next_of: Callable[[Host], str]) -> list[Host]:
        """Hosts that the agent may have now. The first agent that finds a host held gets it next."""
        wishes, hosts = self._by_agent.get(agent, {}), list[Host]()
        due = sorted((at, host) for host, at in wishes.items() if at <= now)
        for _, host in due[:AT_ONCE]:
            record = self._hosts[host]
            other = next_of(host)
            if record.holder is not None or (other not in ("", agent) and now < record.kept_until):
                if not other:
                    record.reserve(agent)
                wishes[host] = now + LOOK_AGAIN
            elif record.not_before > now + soon:
                wishes[host] = record.not_before - soon
            else:
                hosts.append(host)
        return hosts

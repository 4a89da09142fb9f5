"""Audit of a coordinator's stored data: the location of each URL, and whether the records agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from fieldmouse.cluster.coordinator import AgentId, LeaseId
from fieldmouse.cluster.decoding import block_rows
from fieldmouse.testing.memory_crawl_state import MemoryCrawl
from fieldmouse.url import Host


@dataclass(frozen=True)
class Audit:
    seen: frozenset[int]
    settled: int
    queued: dict[int, Host]  # by key
    owed: dict[int, tuple[AgentId, LeaseId]]
    holders: dict[Host, tuple[AgentId, int]]
    stranded: frozenset[Host] = frozenset()  # hosts placed at an agent that left

    def check(self) -> None:
        """Each URL is waiting, or owed once, or settled."""
        assert not self.queued.keys() & self.owed.keys(), "waits, and is owed"
        assert self.queued.keys() <= self.seen
        assert self.owed.keys() <= self.seen
        assert len(self.seen) == self.settled + len(self.queued) + len(self.owed)
        assert not self.stranded, "no agent can be granted these"


def merged(audits: Sequence[Audit]) -> Audit:
    """Merge the data of several servers; no key and no host may be on two of them."""
    whole = audits[0]
    for audit in audits[1:]:
        assert not whole.seen & audit.seen, "seen on two servers"
        assert not whole.holders.keys() & audit.holders.keys(), "held on two servers"
        whole = Audit(
            seen=whole.seen | audit.seen,
            settled=whole.settled + audit.settled,
            queued=whole.queued | audit.queued,
            owed=whole.owed | audit.owed,
            holders=whole.holders | audit.holders,
            stranded=whole.stranded | audit.stranded,
        )
    return whole


def once(pairs: list[tuple[int, Host]]) -> dict[int, Host]:
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    assert not twice, f"wait twice: {twice}"
    return dict(pairs)


def audit_of_ledger(ledger: MemoryCrawl) -> Audit:
    owed: dict[int, tuple[AgentId, LeaseId]] = {}
    for epoch, lease in ledger.leases.items():
        assert lease.owed, "a lease of nothing"
        for key in lease.owed:
            assert key not in owed, "owed twice"
            owed[key] = (lease.agent_id, LeaseId(lease.host, epoch))
    return Audit(
        seen=frozenset(ledger.seen),
        settled=ledger.settled,
        queued=once([(key, host) for host, record in ledger.hosts.items() for key, _ in record.waiting]),
        owed=owed,
        holders={h: (record.holder, record.epoch) for h, record in ledger.hosts.items() if record.holder},
        stranded=frozenset(
            host
            for host, record in ledger.hosts.items()
            if record.is_available and record.place and record.place not in ledger.members
        ),
    )


def audit_of_server(client: redis.Redis, prefix: str = "fm:{fieldmouse}:") -> Audit:
    """Read key by key; there must be no other writer."""
    keys = {key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*", count=1000)}
    meta = client.hgetall(prefix + "meta")
    kinds: dict[str, list[str]] = {}
    for key in keys:
        kind, _, rest = key.partition(":")
        kinds.setdefault(kind, []).append(rest)

    seen: set[int] = set()
    for bucket in kinds.get("s", ()):
        members = {int(key) for key in client.smembers(f"{prefix}s:{bucket}")}
        assert not members & seen, "seen twice"
        assert client.object("encoding", f"{prefix}s:{bucket}") == b"intset"
        seen |= members
    assert int(meta[b"seen"]) == len(seen)

    queued: list[tuple[int, Host]] = []
    standing = _standing(client, prefix, kinds.get("r", []))
    holders: dict[Host, tuple[AgentId, int]] = {}
    for host in kinds.get("h", ()):
        record = client.hgetall(f"{prefix}h:{host}")
        rows = [row for blob in client.lrange(f"{prefix}q:{host}", 0, -1) for row in block_rows(blob)]
        assert int(record.get(b"n", 0)) == len(rows), "the host's count is not its rows"
        queued += ((key, Host(host)) for key, _ in rows)
        if b"by" in record:
            holders[Host(host)] = (_name(record[b"by"].decode()), int(record[b"e"]))
            assert host not in standing, "held, and to be had"
        else:
            assert (host in standing) == bool(rows)
            assert not rows or standing[host] == record.get(b"p", b"").decode()
    assert int(meta[b"hosts"]) == len(kinds.get("h", ()))
    pages = [client.hmget(f"{prefix}agent:{agent}", "pages", "counts") for agent in kinds.get("agent", ())]
    assert int(meta.get(b"reserved", 0)) == sum(int(its or 0) for its, _ in pages)
    assert not any(int(its or 0) for its, counts in pages if counts == b"0"), "reserved for nobody"

    held = {
        Host(host.decode()): (_name(id), int(epoch))
        for id in kinds.get("held", ())
        for host, epoch in client.hgetall(f"{prefix}held:{id}").items()
    }
    assert held == holders

    owed: dict[int, tuple[AgentId, LeaseId]] = {}
    epochs = set()
    for id in kinds.get("owe", ()):
        for epoch, debt in client.hgetall(f"{prefix}owe:{id}").items():
            number = epoch.decode()
            epochs.add(number)
            total, _, host = debt.decode().split(" ", 2)
            blobs = [block_rows(blob) for blob in client.lrange(f"{prefix}o:{number}", 0, -1)]
            assert sum(map(len, blobs)) == int(total)
            inside = {key for blob in blobs for key, _ in blob}
            keys_owed = {int(key) % 2**64 for key in client.smembers(f"{prefix}k:{number}")}
            assert keys_owed, "a lease of nothing"
            assert keys_owed <= inside, "owed, but the row is gone"
            for key in keys_owed:
                assert key not in owed, "owed twice"
                owed[key] = (_name(id), LeaseId(Host(host), int(number)))
    assert set(kinds.get("o", ())) == set(kinds.get("k", ())) == epochs, "left behind"
    return Audit(
        seen=frozenset(key % 2**64 for key in seen),
        settled=int(meta[b"settled"]),
        queued=once(queued),
        owed=owed,
        holders=holders,
        stranded=frozenset(
            Host(host)
            for host, place in standing.items()
            if place
            and client.zscore(prefix + "names", place) is None
            and not client.sismember(prefix + "moving", place)
        ),
    )


def _standing(client: redis.Redis, prefix: str, places: list[str]) -> dict[str, str]:
    standing: dict[str, str] = {}
    for place in places:
        for host in client.zrange(f"{prefix}r:{place}", 0, -1):
            assert host.decode() not in standing, "stands twice"
            standing[host.decode()] = place
    return standing


def _name(id: str) -> AgentId:
    start, _, agent = id.partition(":")
    return AgentId(agent, int(start))

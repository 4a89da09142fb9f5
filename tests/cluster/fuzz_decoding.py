"""Fuzz driver for `decoding` and `replies` of `balancer.board`: damaged values of a coordinator.

    python -m balancer.fuzz_decoding --cases 1000000 --seed 1

runs in the directory `tests`. Each case decodes one value, and uses an accepted value as an agent would.
It fails on any exception but `DamagedValue` (or the error for a newer format), on a case that takes longer
than `--slow` seconds of CPU time, and when memory grows by more than `--memory` MiB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import struct
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import zstandard

from fieldmouse.cluster import decoding
from fieldmouse.cluster import decoding as blocks
from fieldmouse.cluster.client.host_placement import agent_table, share_of_pages
from fieldmouse.cluster.coordinator import AgentReport, CrawlSpec, HostPayload, LeaseId, ListedAgent
from fieldmouse.cluster.decoding import DamagedValue, UrlsToRefetch, encode_row, pack_urls
from fieldmouse.cluster.redis import script_codec
from fieldmouse.errors import CoordinatorError
from fieldmouse.policy import local_outage
from fieldmouse.policy.balance import agent_choice
from fieldmouse.robotstxt.parser import RobotsTxt
from fieldmouse.types.host_state import AgentConnectFailure, HostState
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.types.request import Request
from fieldmouse.url import Host, Url

HOST = Host("http://a.test")
HELD = [LeaseId(HOST, 7), LeaseId(Host("https://b.test:8443"), 8)]
_encode = msgspec.msgpack.encode
_BALANCERS = [agent_choice.find_balancer(name)(np.random.default_rng(1)) for name in agent_choice.BALANCERS]


@dataclass(frozen=True)
class Target:
    """A decoder, and values that it accepts."""

    name: str
    decode: Callable[[Any], object]
    samples: tuple[Any, ...]


def _row(path: str, **more: Any) -> bytes:
    return encode_row(Request(Url(HOST + path), via=HOST + "/", seen_at=1.7e9, **more), HOST, 0.0)


def _a_block(count: int) -> bytes:
    return blocks.encode_block([(n * 7919 + 5, _row(f"/page/{n}?q={n * n}")) for n in range(count)])


def _excluding(count: int) -> bytes:
    inner = _a_block(count)
    keys = struct.pack("<2Q", 5, 7924)
    return b"x" + struct.pack("<II", count - 2, 2) + keys + inner


def _learned() -> bytes:
    row = b""
    for agent in ("east", "west", "north"):
        row = _BALANCERS[-1].record_visit(row, agent, 0.7, 0.1)
    return row


_unreached = AgentConnectFailure("east", "m1", OutcomeReason.NO_ADDRESS, 30.0)
STATE = _encode(HostState(address="192.0.2.7", crawl_delay=2.0, failures=1, pages=9, unreached=(_unreached,)))
ADVERT = _encode(AgentReport(3.0, 1.1, 0.2, 500, 3.5, 16, "m1", "/srv/crawl", 300.0, 4, True, False))
ROBOTS = b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\nSitemap: http://a.test/s.xml\n"
CHARTER = CrawlSpec(4711, '[crawl]\nseeds = ["http://a.test/"]\n', ("http://a.test/",), "fieldmouse/0.1")


def _grant(blobs: int = 2) -> list[Any]:
    rows, robots_txt = [_a_block(3), _a_block(40), _excluding(6)][:blobs], blocks.compress_text(ROBOTS)
    return [HOST.encode(), 7, 12, 1500, 1000, STATE, _learned(), robots_txt, 60_000, rows]


def _note(agent: bytes = b"east-1a2b3c") -> list[Any]:
    return [agent, b"1700000000000000", 1, 0, ADVERT, 1200, 3]


def _books() -> list[Any]:
    sums = [900, 700, 12, 1, 60_000, b"", 0, b"a1b2c3", 0]
    return [sums, [b"page", b"600", b"failed", b"100"], [_note(), _note(b"west-9f8e7d")]]


def _use_link(value: bytes) -> object:
    link = decoding.decode_row(value, HOST, 1.7e9)
    assert link.url.startswith(HOST + "/")
    return encode_row(link, HOST, 1.7e9)


def _use_learned(value: bytes) -> object:
    row = decoding.check_policy_data(value)
    table = agent_choice.AgentTable.from_names(["east", "west", "south"])
    for each in _BALANCERS:
        each.choose(HOST, row, 0, table)
        each.record_visit(row, "east", 0.4, 0.1)
    return row


def _use_state(value: bytes) -> object:
    state = decoding.decode_host_state(value)
    return local_outage.import_notes(state.unreached, 1.7e9)


def _use_robots_txt(value: bytes) -> object:
    return RobotsTxt.parse(decoding.decode_robots_txt(value)[: 1 << 14], "fieldmouse").allows("/x")


def _use_pulse(value: Any) -> object:
    pulse, _ = script_codec.parse_heartbeat_reply(value)
    agent_table(pulse.agents)
    return share_of_pages(pulse.agents, "east-1a2b3c", pulse.alive)


def _use_advert(value: bytes) -> object:
    return agent_table([ListedAgent("east", 1, True, False, value, 0.0)])


def _use_kept(value: Any) -> object:
    _, urls, counted, kinds = script_codec.parse_kept_batch(value)
    try:
        return UrlsToRefetch(urls, counted, kinds, Counter(), 4711)
    except DamagedValue:
        raise
    except ValueError as trouble:  # lists of different lengths
        raise DamagedValue("kept", str(trouble)) from None


def targets() -> list[Target]:
    kept = [b"110", [b"page", b"failed"], b"010", pack_urls([f"{HOST}/{n}" for n in range(3)]), b"d" * 40]
    return [
        Target("rows", decoding.block_rows, (_a_block(3), _a_block(60), _excluding(6))),
        Target("keys", decoding.block_keys, (_a_block(3), _a_block(60), _excluding(6))),
        Target("row", _use_link, (_row("/"), _row("/a?b", tries=2, not_before=9.0, trail=("http://c.test/",)))),
        Target("urls", decoding.decode_urls, (kept[3],)),
        Target("state", _use_state, (STATE, b"")),
        Target("learned", _use_learned, (_learned(),)),
        Target(
            "values", lambda v: decoding.decode_host_payload(HostPayload(state=v, policy_data=v)), (STATE, _learned())
        ),
        Target("robots.txt", _use_robots_txt, (blocks.compress_text(ROBOTS), blocks.compress_text(ROBOTS * 900))),
        Target("advert", _use_advert, (ADVERT,)),
        Target("charter", lambda v: decoding.decode_crawl_spec(v, "here"), (msgspec.json.encode(CHARTER),)),
        Target("grant", script_codec.parse_grant, (_grant(), _grant(3))),
        Target("lease", script_codec.parse_grants, ([[_grant(), _grant(3)], 1],)),
        Target("more", lambda v: script_codec.parse_more_urls(v, HELD), ([_grant(), 0],)),
        Target("stranded", script_codec.parse_stranded, ([b"17", 2, [HOST.encode(), b"http://b.test"], 4],)),
        Target("offered", script_codec.parse_offer_result, ([5, 0, 1, [HOST.encode()]],)),
        Target("tails", lambda v: script_codec.parse_queue_ends(v, 1), ([[[_a_block(3)], b"d" * 40]],)),
        Target("holdings", script_codec.parse_leases, ([[HOST.encode(), b"7"], [b"7", b"3 1 http://a.test"]],)),
        Target("addresses", lambda v: script_codec.parse_address_replies(v, 2), ([[1, 0, b""], [0, 50, b"west"]],)),
        Target("booked", lambda v: script_codec.parse_ack_results(v, 2), ([1, 0],)),
        Target("kept", _use_kept, (kept,)),
        Target("keys again", script_codec.parse_keys, ([b"-5", b"77"],)),
        Target("taken back", script_codec.parse_retry_counts, ([b"-5", b"1", b"77", b"2"],)),
        Target("books", script_codec.parse_totals, (_books(),)),
        Target("agents", script_codec.parse_agents_of_totals, (_books(),)),
        Target("departed", script_codec.parse_agents, ([_note(), _note(b"west")],)),
        Target("pulse", _use_pulse, ([_books(), 0, 1, 2, 2, b"", [f"{HOST}/".encode()]],)),
        Target("pages", script_codec.parse_page_count, ([b"600", 0],)),
        Target("names", script_codec.parse_scan, ([b"0", [b"fm:{fieldmouse}:meta"]],)),
    ]


# -- damage


def _bomb(size: int) -> bytes:
    return zstandard.ZstdCompressor(3).compress(bytes(size))


def claiming_frame(size: int) -> bytes:
    """A zstd frame of one byte whose head claims `size`."""
    frame = zstandard.ZstdCompressor(3, write_content_size=True).compress(b"x" * 70_000)
    head = bytes([0b1110_0000]) + struct.pack("<Q", size)  # 8 bytes of size, one segment
    return frame[:4] + head + frame[8:40]


_unsized = zstandard.ZstdCompressor(3, write_content_size=False).compress(bytes(1 << 20))
BOMBS = (_bomb(64 << 20), _bomb(4 << 20), *map(claiming_frame, (16 << 40, 3 << 30, 8 << 20)), _unsized)
NUMBERS = (b"9" * 400, b"-1", b"1e999", b"nan", b"inf", b"", b"0x10", b"00", b"1.5", str(2**63).encode())
DEEP = (b"\x91" * 5000, b"\x91" * 100_000 + b"\xc0", b"\x81\xa1a" * 5000)
DEEP += (b"[" * 100_000, b'{"a":' * 50_000)
HEADS = (b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff")
_NUMBERS, _TEXTS = (True, 3.5, -1, 2**63, 10**400), ("text", b"", b"\xff\xfe", b"\x00" * 40)
STRANGE = (None, *_NUMBERS, [], [[]], [None], {}, *_TEXTS)
FLOATS = tuple(struct.pack(">d", value) for value in (float("nan"), float("inf"), -1e300, 1e300, 5e-324))


def damaged(value: Any, dice: random.Random, depth: int = 0) -> Any:
    """The value with some damage; usually one item of a list."""
    if isinstance(value, list) and value and depth < 8 and dice.random() < 0.9:
        items = list(value)
        match dice.randrange(12):
            case 0:
                del items[dice.randrange(len(items))]
            case 1:
                items.insert(dice.randrange(len(items) + 1), dice.choice(STRANGE))
            case 2:
                items = items * dice.choice((2, 50))
            case 3:
                nest: Any = items
                for _ in range(dice.choice((2, 200))):
                    nest = [nest]
                return nest
            case 4:
                dice.shuffle(items)
            case _:
                place = dice.randrange(len(items))
                items[place] = damaged(items[place], dice, depth + 1)
        return items
    if isinstance(value, int) and dice.random() < 0.7:
        return dice.choice((-1, 0, 1, 2, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**400, *NUMBERS))
    if isinstance(value, bytes) and dice.random() < 0.95:
        return _damaged_bytes(value, dice)
    return dice.choice(STRANGE)


def _damaged_bytes(value: bytes, dice: random.Random) -> bytes:
    body = bytearray(value)
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        place = dice.randrange(len(body) + 1)
        match dice.randrange(14):
            case 0 | 1 | 2 if body:
                body[place % len(body)] ^= 1 << dice.randrange(8)
            case 3 | 4 if body:
                body[place % len(body)] = dice.randrange(256)
            case 5:
                del body[place:]
            case 6:
                del body[: place // 2]
            case 7:
                body[place:place] = dice.randbytes(dice.choice((1, 4, 64)))
            case 8:
                body[place:place] = dice.choice(HEADS)
            case 9:
                body[place : place + 8] = dice.choice(FLOATS)
            case 10:
                body[place : place + 4] = struct.pack("<I", dice.choice((0, 1, 65536, 65537, 2**31, 2**32 - 1)))
            case 11:
                body[place:place] = bytes(body[: dice.randrange(len(body) + 1)])
            case 12:
                return dice.choice(NUMBERS)
            case _ if dice.random() < 0.05:
                rare = dice.choice((*BOMBS, *DEEP))
                return rare if dice.random() < 0.5 else bytes(body[: min(place, 13)]) + rare
            case _ if body:
                body[place % len(body)] = 0xFF
    return bytes(body[: 1 << 20])


# -- the run


@dataclass
class Findings:
    """Results of a run. `failures` are reproduced by seed and number."""

    cases: int = 0
    accepted: int = 0
    slowest: float = 0.0
    grown_mb: float = 0.0
    seconds: float = 0.0
    failures: list[str] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.failures = []


def fuzz(cases: int, seed: int, slow: float = 2.0, memory: float = 64.0) -> Findings:
    """Decode `cases` damaged values. Memory is the growth of the process's peak, in MiB."""
    found, every = Findings(), targets()
    for target in every:  # so that nothing is imported later
        for sample in target.samples:
            target.decode(sample)
    began_with, begun_at = _peak_mb(), time.perf_counter()
    for number in range(cases):
        dice = random.Random(seed * 1_000_003 + number)
        target = every[number % len(every)]
        value = damaged(dice.choice(target.samples), dice)
        started = time.process_time()
        try:
            target.decode(value)
            found.accepted += 1
        except (DamagedValue, CoordinatorError):
            pass
        except BaseException as mistake:
            if isinstance(mistake, KeyboardInterrupt):
                raise
            trace = traceback.format_exc(limit=-3)
            found.failures.append(f"{target.name}, case {number}: {trace}")
        took = time.process_time() - started
        found.slowest = max(found.slowest, took)
        if took > slow:
            found.failures.append(f"{target.name}, case {number}: took {took:.1f} s")
        found.cases += 1
        if len(found.failures) > 20:
            break
    found.seconds = time.perf_counter() - begun_at
    found.grown_mb = _peak_mb() - began_with
    if found.grown_mb > memory:
        found.failures.append(f"memory grew by {found.grown_mb:.0f} MiB")
    return found


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    words = argparse.ArgumentParser(description="Decode damaged values of a coordinator.")
    words.add_argument("--cases", type=int, default=1_000_000)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--slow", type=float, default=2.0, help="CPU seconds that one case may take")
    words.add_argument("--memory", type=float, default=64.0, help="MiB by which memory may grow")
    asked = words.parse_args()
    found = fuzz(asked.cases, asked.seed, asked.slow, asked.memory)
    for failure in found.failures:
        print(failure)
    shown = {name: value for name, value in vars(found).items() if name != "failures"}
    print(json.dumps({**shown, "failures": len(found.failures)}))
    return 1 if found.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())

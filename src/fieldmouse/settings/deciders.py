"""Table of who decides each setting of a shared crawl: the crawl, the machine, or both.

The settings of a crawl are stored on a server that other people and programs can write to. An agent takes
the subject of the crawl from there, and nothing that its machine must decide: code, private addresses,
certificates, robots.txt, memory, disk, names, credentials.

A test checks that every setting is in this table once.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from fieldmouse.settings.reading import abouts, sections, written


class Decider(Enum):
    """Authority over a setting when an agent joins a crawl."""

    CRAWL = "the crawl"
    """The first agent sets it, and all agents have the same value."""
    RUN = "each run"
    """An agent may change it at each start, for the whole crawl."""
    MACHINE = "the machine"
    """Each agent sets its own. It is never written to the server, and ignored if found there."""
    PERMIT = "the crawl, if the machine allows it"
    """A switch. The crawl may change it from its default only if the machine has changed it too."""
    AGREE = "both"
    """A value other than the default must be set to the same on the machine."""
    CODE = "both, where it names code"
    """As `AGREE` for a value such as `package.module:name`; the crawl decides between built-in policies."""
    LONGER = "the crawl, and the machine may lengthen it"
    """The longer of both durations applies."""
    AT_MOST = "the crawl, up to what the machine allows"
    """A value above the machine's, or above the default if the machine sets none, is refused."""


_C, _R, _M, _P, _A = Decider.CRAWL, Decider.RUN, Decider.MACHINE, Decider.PERMIT, Decider.AGREE
_L, _T = Decider.LONGER, Decider.AT_MOST

_BY_SECTION: dict[str, Decider | dict[str, Decider]] = {
    # `product` chooses the group of a robots.txt that is obeyed.
    "crawl": {"seeds": _C, "contact": _C, "product": _A, "pages": _R, "time": _R, "max_depth": _C},
    "scope": _C,
    "politeness": {
        "delay": _L, "address_delay": _L, "obey_robots_txt": _P, "crawl_delay_cap": _L, "retry_after_cap": _L,
        "backoff": _L, "backoff_cap": _L, "patience": _L,
    },
    "fetch": _M,
    "limits": {
        "body": _T, "decoded": _T, "ratio": _T, "headers": _T, "robots_txt": _T,
        "connect": _C, "first_byte": _C, "total": _C, "idle": _C, "min_speed": _C, "grace": _C,
        "redirects": _C, "url_length": _C, "pages_per_host": _C, "links_per_page": _C, "hosts_per_site": _C,
        "urls_per_site": _C, "traps": _C,
    },
    "network": {
        "allow_private": _P, "tls_verify": _P, "resolve": _M, "nameservers": _M, "source": _M, "ca_file": _M,
        "headers": _M,  # they may hold passwords
    },
    "frontier": _M,
    "buffer": _M,
    "control": _M,
    "cost": _M,
    "index": {"shards": _M, "heap": _M, "sitemaps": _C, "feeds": _C, "store_text": _C},
    "archive": _M,
    "plugins": {
        "extract": _A, "admit": _A, "readers": _A, "sign": _A, "sign_hosts": _A, "keep_signatures": _P,
        "patience": _C, "items": _C,
    },
    "notify": _M,
    "storage": _M,
    "refresh": {"on": _R, "budget": _R, "policy": Decider.CODE, "share": _C, "retry": _C, "revisits": _C},
    "noise": _C,
    "cluster": {"policy": _C, "lease": _C, "heartbeat": _C, "keep_acked": _C},
}  # fmt: skip
"""By section, or by key where the keys of a section differ."""


def decider(section: str, key: str) -> Decider:
    """Who decides `section.key`; KeyError if the table lacks it."""
    its = _BY_SECTION[section]
    return its if isinstance(its, Decider) else its[key]


def undecided(settings: type[msgspec.Struct]) -> list[str]:
    """Settings that the table lacks, and entries of the table that are no settings."""
    known = {(section, key) for section, table in sections(settings).items() for key in abouts(table)}
    named = {
        (section, key)
        for section, its in _BY_SECTION.items()
        for key in (its if isinstance(its, dict) else [key for where, key in known if where == section])
    }
    return sorted(f"{section}.{key}" for section, key in known ^ named)


def is_of_a_machine(section: str, key: str) -> bool:
    """Whether each agent sets this for itself, and no server stores it."""
    return decider(section, key) is Decider.MACHINE


def is_of_a_run(section: str, key: str) -> bool:
    """Whether each start may set it anew, for the whole crawl."""
    return decider(section, key) is Decider.RUN


def published(settings: msgspec.Struct) -> str:
    """TOML of the settings that other machines may see: all but those that each machine decides for itself.
    """
    lines = []
    for section, table in sections(type(settings)).items():
        keys = [key for key in abouts(table) if not is_of_a_machine(section, key)]
        if keys:
            lines += ["", f"[{section}]", *(f"{key} = {written(settings, section, key)}" for key in keys)]
    return "\n".join(lines[1:]) + "\n"

"""Table of who decides each setting of a shared crawl: the crawl, the machine, or both.

The settings of a crawl are stored on a server that other people and programs can write to. An agent takes
the subject of the crawl from there, and nothing that its machine must decide: code, private addresses,
certificates, robots.txt, memory, disk, names, credentials.

A test checks that every setting is in this table once.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

import msgspec

from fieldmouse.config.settings_file import Settings, parse
from fieldmouse.config.toml_format import keys_of, sections_of, shown_value


class Authority(Enum):
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


_SETTINGS_OF = {
    Authority.CRAWL: """
        crawl.seeds crawl.contact crawl.max_depth scope.* noise.*
        limits.connect limits.first_byte limits.total limits.idle limits.min_speed limits.grace
        limits.redirects limits.url_length limits.pages_per_host limits.links_per_page
        limits.hosts_per_site limits.urls_per_site limits.traps
        index.sitemaps index.feeds index.store_text plugins.patience plugins.items
        refresh.share refresh.retry refresh.revisits
        cluster.policy cluster.lease cluster.heartbeat cluster.keep_acked
    """,
    Authority.RUN: "crawl.pages crawl.time refresh.on refresh.budget",
    # `network.headers` may hold passwords.
    Authority.MACHINE: """
        fetch.* frontier.* buffer.* control.* cost.* archive.* notify.* storage.* index.shards index.heap
        network.resolve network.nameservers network.source network.ca_file network.headers
    """,
    Authority.PERMIT: """
        politeness.obey_robots_txt network.allow_private network.tls_verify plugins.keep_signatures
    """,
    # `crawl.product` chooses the group of a robots.txt that is obeyed.
    Authority.AGREE: """
        crawl.product plugins.extract plugins.admit plugins.readers plugins.sign plugins.sign_hosts
    """,
    Authority.CODE: "refresh.policy",
    Authority.LONGER: """
        politeness.delay politeness.address_delay politeness.crawl_delay_cap politeness.retry_after_cap
        politeness.backoff politeness.backoff_cap politeness.patience
    """,
    Authority.AT_MOST: "limits.body limits.decoded limits.ratio limits.headers limits.robots_txt",
}
"""Settings of each decider; `section.*` is a whole section, with the keys that it will have."""

_DECIDER_OF = {name: who for who, names in _SETTINGS_OF.items() for name in names.split()}


def authority_over(section: str, key: str) -> Authority:
    """Who decides `section.key`; KeyError if the table lacks it."""
    return _DECIDER_OF.get(f"{section}.*") or _DECIDER_OF[f"{section}.{key}"]


def unlisted_settings(settings: type[msgspec.Struct]) -> list[str]:
    """Settings that the table lacks or has twice, and entries of the table that are no settings."""
    listed = Counter(name for names in _SETTINGS_OF.values() for name in names.split())
    wanted = Counter[str]()
    for section, table in sections_of(settings).items():
        whole = f"{section}.*"
        wanted.update([whole] if whole in listed else [f"{section}.{key}" for key in keys_of(table)])
    return sorted(name for name in wanted | listed if wanted[name] != listed[name])


def is_machine_setting(section: str, key: str) -> bool:
    """Whether each agent sets this for itself, and no server stores it."""
    return authority_over(section, key) is Authority.MACHINE


def render_published(settings: msgspec.Struct) -> str:
    """TOML of the settings that other machines may see: all but those that each machine decides."""
    lines = []
    for section, table in sections_of(type(settings)).items():
        keys = [key for key in keys_of(table) if not is_machine_setting(section, key)]
        if keys:
            lines += ["", f"[{section}]", *(f"{key} = {shown_value(settings, section, key)}" for key in keys)]
    return "\n".join(lines[1:]) + "\n"


def parse_published(text: str, where: str) -> Settings:
    """Read the settings of a crawl from a coordinator; keys that each machine decides are ignored."""
    return parse(text, where, is_ignored=is_machine_setting)

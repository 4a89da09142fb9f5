"""Files of a crawl directory, what its journal and its JSON files name, and keys on Redis.

Digits and hashes in names are replaced. The journal is read here without the code of the package: each record
is its length and its CRC-32, both little-endian with 32 bits, and a checkpoint in MessagePack.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from formats.conftest import Live
from formats.golden import PACKAGES, ROOT, check_same, check_superset, key_paths, normalised

HOSTS = re.compile(r"http://[a-c]\.fence\.test")


def named(files: set[str]) -> set[str]:
    """Without what LMDB and tantivy make for themselves: locks, and marks of deleted documents."""
    return {normalised(name) for name in files if not name.endswith((".tantivy-meta.lock", "-lock", ".del"))}


def checkpoints(home: Path) -> Iterator[Any]:
    raw, at = (home / "journal").read_bytes(), 0
    while at < len(raw):
        length, checksum = struct.unpack_from("<II", raw, at)
        record = raw[at + 8 : at + 8 + length]
        assert zlib.crc32(record) == checksum
        yield msgspec.msgpack.decode(record)
        at += 8 + length


def journal_keys(home: Path) -> set[str]:
    """The paths of keys in all checkpoints; arrays by their length, since their items have no names."""
    return {line for checkpoint in checkpoints(home) for line in _keys(checkpoint, "")}


def _keys(value: Any, path: str) -> Iterator[str]:
    match value:
        case dict() if path.endswith((".reasons", ".moving")):
            yield f"{path} table"
        case dict():
            for key, inner in value.items():
                yield from _keys(inner, f"{path}.{normalised(str(key))}")
        case _:
            yield path


def test_file_names_of_a_crawl(live: Live) -> None:
    for moment in ("finished", "stopped", "refreshed"):
        check_same(f"files_{moment}", named(live.files[moment]))


def test_file_names_of_an_agent(cluster: Live) -> None:
    for moment in ("agent stopped", "agent finished"):
        check_same(f"files_{moment.replace(' ', '_')}", named(cluster.files[moment]))


def test_keys_in_the_journal(live: Live, cluster: Live) -> None:
    check_superset("journal_crawl", sorted(journal_keys(live.home("refreshed"))))
    check_superset("journal_agent", sorted(journal_keys(cluster.home("agent"))))


def test_keys_in_json_files(live: Live, cluster: Live) -> None:
    found = set()
    for home in (live.home("refreshed"), cluster.home("agent")):
        for path in home.glob("*.json"):
            found |= {f"{path.name}: {line}" for line in key_paths(json.loads(path.read_text()))}
    check_superset("json_files", sorted(line for line in found if not line.startswith("pack.json")))


def test_fields_of_a_line_in_the_cdxj(live: Live) -> None:
    lines = (live.home("refreshed") / "archive" / "index.cdxj").read_text().splitlines()
    found = {key for line in lines if line.startswith("test,") for key in json.loads(line.split(" ", 2)[2])}
    check_same("cdxj_fields", found)


def redis_names(keys: dict[str, Any]) -> set[str]:
    """Each key with its type, and with the names of its fields where these are fixed."""
    found = set()
    for key, (kind, value) in keys.items():
        name = normalised(re.sub(r"(?<=:)[^:]+-[0-9a-f]{6}$", "AGENT", HOSTS.sub("HOST", key)))
        found.add(f"{name} {kind}")
        if kind == "hash" and not name.endswith((":told", ":heard", ":kinds", ":forgave", ":restored")):
            found |= {f"{name} {normalised(field)}" for field in value if not HOSTS.match(field)}
    return found


def test_keys_on_redis(cluster: Live) -> None:
    """While an agent works, after it was stopped, at the end, and when the crawl was built again."""
    check_superset("redis_keys", sorted(set().union(*map(redis_names, cluster.redis.values()))))


def test_words_in_the_scripts_for_redis() -> None:
    """Keys, fields and commands are texts in the Lua scripts; sentences count by their first word."""
    scripts = [path for package in PACKAGES for path in (ROOT / "src" / package).rglob("*.lua")]
    code = [re.sub(r"--.*", "", path.read_text()) for path in scripts]
    texts = [text for one in code for text in re.findall(r"'([^']*)'", one)]
    check_superset("lua_words", [text.split(" ")[0] for text in texts])

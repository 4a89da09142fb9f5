"""Maker of the crawls in `tests/data/fence/crawl-*.tar.xz`: `python -m formats.make_crawls DIR`, in `tests`.

They were made by fieldmouse 0.1.0, before its modules were renamed, and stand for the crawls of users.
Never make them again under the same name: a format that changes on purpose needs a new crawl beside the old
ones, which must still open. Each lies in a folder `crawl` in its archive. That of an agent has beside it
`redis.json`: the keys of its cluster.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import redis

from formats.golden import COMMAND, ROOT, run
from formats.smallsite import SEEDS, SmallSite, running_site

SEED_WORDS = [word for seed in SEEDS for word in ("--seed", seed)]
MANNERS = ["--allow-private", "--delay", "0s", "--set", "index.shards=1"]
GREEDY = "fieldmouse.policy.distribution.greedy:Greedy"
UNIFORM = "fieldmouse.policy.polling.uniform:Uniform"


def finished(site: SmallSite, path: Path) -> Any:
    """A crawl that came to its end, with a policy by its full name, rows of a plug-in, and a feed."""
    named = ["--policy", GREEDY, "--set", f"refresh.policy={UNIFORM}", "--set", "notify.feed=changes.atom"]
    named += ["--set", "plugins.extract=formats.sample_plugins:rows"]
    return run("crawl", path, *SEED_WORDS, *site.words, *MANNERS, *named)


def stopped(site: SmallSite, path: Path) -> Any:
    """A crawl that its limit has stopped after four pages."""
    return run("crawl", path, *SEED_WORDS, *site.words, *MANNERS, "--pages", "4", "--robots", "1", expect=3)


def refreshed(site: SmallSite, path: Path) -> Any:
    """One whose site has changed since."""
    run("crawl", path, *SEED_WORDS, *site.words, *MANNERS)
    site.edition = 2
    try:
        return run("refresh", path, "--once", *site.words, "--delay", "0s")
    finally:
        site.edition = 1


def agent(site: SmallSite, path: Path, board: str, pages: int = 5, during: Any = None) -> Any:
    """An agent alone in its cluster, stopped by Ctrl-C while it asks for its fifth page."""
    words = ["agent", path, "--board", board, "--crawl", "fence", *SEED_WORDS, *site.words, *MANNERS]
    words += ["--set", "board.lease=4s", "--set", "board.heartbeat=1s"]  # a server that is new waits as long
    asked: list[str] = []

    def on_page(url: str) -> None:
        asked.append(url)
        if len(asked) == pages:
            if during is not None:
                during()
            process.send_signal(signal.SIGINT)

    site.on_page = on_page
    command = [*map(str, (COMMAND, *words, "--robots", "1", "--json"))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, trouble = process.communicate(timeout=120)
    site.on_page = lambda url: None
    assert process.returncode == 130, (process.returncode, said, trouble)
    return json.loads(said)


def dump(client: redis.Redis) -> dict[str, Any]:
    """The contents of a server as JSON: each key, its type, and its value with bytes as Latin-1."""
    read = {
        "string": client.get,
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
    }
    found = {}
    for key in client.scan_iter("*"):
        kind = client.type(key).decode()
        found[key.decode()] = [kind, _text(read[kind](key))]
    return dict(sorted(found.items()))


def restore(client: redis.Redis, keys: dict[str, Any]) -> None:
    """Make a server hold what `dump` has read."""
    for key, (kind, value) in keys.items():
        match kind:
            case "string":
                client.set(key, _bytes(value))
            case "hash":
                client.hset(key, mapping={_bytes(name): _bytes(held) for name, held in value.items()})
            case "list":
                client.rpush(key, *map(_bytes, value))
            case "set":
                client.sadd(key, *map(_bytes, value))
            case "zset":
                client.zadd(key, {_bytes(name): score for name, score in value})


def _text(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("latin-1")
        case dict():
            return {_text(key): _text(inner) for key, inner in sorted(value.items())}
        case list() | tuple():
            return [_text(inner) for inner in value]
        case set():
            return sorted(map(_text, value))
    return value


def _bytes(value: str) -> bytes:
    return value.encode("latin-1")


def pack(target: Path, folder: Path) -> None:
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            if not path.name.endswith(".lmdb-lock"):
                archive.add(path, path.relative_to(folder), recursive=False)


def main(target: Path) -> None:
    from cluster.coordinators import a_server

    os.chdir(ROOT / "tests")  # where the plug-in lies
    with running_site() as site, a_server() as server:
        for make in (finished, stopped, refreshed):
            folder = target / make.__name__
            folder.mkdir(parents=True)
            print(make(site, folder / "crawl"))
            pack(target / f"crawl-{make.__name__}.tar.xz", folder)
        folder = target / "agent"
        folder.mkdir()
        print(agent(site, folder / "crawl", server.url))
        (folder / "redis.json").write_text(json.dumps(dump(server.client()), indent=1))
        pack(target / "crawl-agent.tar.xz", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())

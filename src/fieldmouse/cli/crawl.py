"""`fieldmouse crawl`: a new crawl in a new directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fieldmouse import settings as settings_file
from fieldmouse import url
from fieldmouse.cli import options, progress, voice
from fieldmouse.crawldir import CrawlDir
from fieldmouse.errors import CrawlExists, UsageError, storing
from fieldmouse.plugins.names import PluginNames
from fieldmouse.policy.distribution.lookup import strategy
from fieldmouse.records import Summary
from fieldmouse.settings import Settings
from fieldmouse.url import Url
from fieldmouse.web.names import NameMap

if TYPE_CHECKING:
    from fieldmouse.agent import Forgiven


@click.command(
    epilog="""\b
Examples:
  fieldmouse crawl atlas --seed https://example.org/ --contact you@example.org
  fieldmouse crawl atlas --seeds-file seeds.txt --pages 10000 --delay 2s
  fieldmouse crawl local --seed http://127.0.0.1:8000/ --allow-private --delay 0s"""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--seed", "seeds", metavar="URL", multiple=True, help="Where to begin; may be given many times."
)
@click.option("--seeds-file", metavar="FILE", help="A file with one URL a line; - for standard input.")
@click.option(
    "--scope", metavar="MODE", help="page, host, site or web: how far to go from the seeds.  [default: site]"
)
@click.option(
    "--policy",
    metavar="NAME",
    help="Which hosts come first: index, mice-and-elephants, greedy, neutral, or package.module:Class.",
)
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Settings to start from.")
@options.limits
@options.as_json
def command(directory: Path, seeds: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Crawl websites into DIRECTORY, which must be new or empty.

    The default scope is "site": the crawl follows links to every host that shares
    a registered domain with a seed (all loopback addresses count as one site), and
    stays off everything else. Every host gets one request at a time and one second
    of quiet between two, and robots.txt is obeyed.

    The directory receives the pages as WARC files, a full-text index, a
    fieldmouse.toml with all settings, and everything needed to go on after a stop
    or a kill with `fieldmouse resume`.
    """
    every = options.progress_every(given)
    if (directory / "crawl.json").exists():
        raise CrawlExists(directory)
    asked = options.apply(_settings_from(directory, given["config"]), given)
    wanted = _seeds(asked, seeds, given["seeds_file"])
    asked = asked.override({"crawl.seeds": wanted})
    _advise(asked, wanted)
    # Better said before anything is made: somebody else's policy may not be there, an address may be none.
    strategy(asked.frontier.policy)
    PluginNames.of(asked.plugins).check()
    NameMap(asked.network.resolve)
    shards = asked.index.shards or len(os.sched_getaffinity(0))
    with storing(directory):
        home = CrawlDir.create(directory, shards=shards, settings=settings_file.render(asked).encode())
    return run(home, asked, wanted, as_json=as_json, every=every)


def run(
    home: CrawlDir,
    asked: Settings,
    seeds: list[Url],
    *,
    as_json: bool,
    every: float | None,
    on_forgiven: Callable[[Forgiven], None] | None = None,
) -> int:
    """Crawl, with progress for people and a summary for all; returns the exit code."""
    from fieldmouse import agent  # the whole house: loaded once we know that we crawl
    from fieldmouse.cli.emptiness import why_nothing

    voice.show_warnings()
    voice.say(f"crawling into `{home.path}` as {asked.crawl.user_agent}")
    with agent.Signals(voice.urge) as signals:
        with progress.shown(every=every) as line:
            summary: Summary = agent.crawl(
                home,
                asked,
                seeds,
                on_reading=line.show,
                signals=signals,
                mercy=agent.Mercy(on_forgiven) if on_forgiven else None,
            )
        why, hint = why_nothing(home) if summary.exit == 1 else ("", "")
        if as_json:
            voice.json(msgspec.to_builtins(summary) | ({"error": why, "hint": hint} if why else {}))
        else:
            progress.tell(summary, asked, str(home.path))
            if why:
                voice.error(why, hint)
    return summary.exit


def _settings_from(directory: Path, config: Path | None) -> Settings:
    """The settings named, else those laid ready in the directory, else the defaults."""
    if config is not None:
        return settings_file.load(config)
    ready = directory / "fieldmouse.toml"
    return settings_file.load(ready) if ready.is_file() else Settings()


def _seeds(asked: Settings, words: Iterable[str], file: str | None) -> list[Url]:
    given = [*asked.crawl.seeds, *words, *(_lines(file) if file else ())]
    found: dict[Url, None] = {}
    for text in given:
        seed = url.parse(text)
        if seed is None:
            near = f"https://{text.strip()}"
            could = "://" not in text and url.parse(near) is not None
            raise UsageError(
                f"`{text}` is no URL we can crawl",
                f"did you mean `{near}`?" if could else "a seed begins with http:// or https://",
            )
        found[seed] = None
    if not found:
        raise UsageError("there is nowhere to begin", "name a URL with `--seed https://...`")
    return list(found)


def _lines(file: str) -> list[str]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as trouble:
        raise UsageError(
            f"cannot read the seeds in `{file}`: {trouble}", "check the name of the file"
        ) from trouble
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _advise(asked: Settings, seeds: list[Url]) -> None:
    """Say beforehand what would surprise afterwards."""
    sites = {url.site_of(url.name_of(url.host_of(seed))) for seed in seeds}
    if sites != {url.LOOPBACK} and not asked.crawl.contact:
        voice.say("note: servers are not told whom to ask about this crawl; `--contact you@example.org` does")
    if url.LOOPBACK in sites and not asked.network.allow_private:
        voice.say("note: loopback and private addresses are refused; `--allow-private` visits them")

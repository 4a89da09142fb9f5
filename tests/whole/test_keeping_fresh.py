"""Every step of the guide "crawl a site today, keep it fresh, see what changed this week".

Its commands, settings and Python are extracted in their order and run by a reader: once on a small site
like the one in the guide, and once on a meadow (a synthetic web), in which a week passes between the crawl
and the first refresh. Both replace example.org.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fieldmouse.config import settings_file
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.url import Url, host_of, path_of
from meadowland import running_meadow

from .crawling import COMMAND
from .test_notifications import site, text

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "keeping-fresh.md"
HERE = ("--allow-private", "--delay", "20ms", "--set", "storage.checkpoint=300ms")
STEP = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WORDS = "the harvest mouse builds its nest high in the grass and leaves it in the autumn"
BEGAN, WEEK = 1.7e9, 7 * 86_400.0
TROUBLE = "duplicates robots sitemaps private nofollow redirects not_found server_error broken busy traps"
CALM: dict[str, Any] = dict.fromkeys(TROUBLE.split(), 0.0)
LIVELY = CALM | {
    "hosts": 1,
    "pages": 60,
    "links": 10,
    "page_kb": 1.0,
    "seed": 11,
    "changing": 0.5,
    "change_every": WEEK,
    "rewriting": True,
    "appearing": 0.5,
    "vanishing": 0.3,
    "moving": 0.3,
    "staying": WEEK,
    "began": BEGAN,
}

Refreshed = Callable[[int], None]
"""Called before each refresh with its number; the first is 1."""


def steps() -> list[tuple[str, str]]:
    """Steps of the reader, in order: commands, settings or Python; output of commands is left out."""
    found: list[tuple[str, str]] = []
    for language, block in STEP.findall(GUIDE.read_text()):
        if language == "console":
            found += [("console", line[2:]) for line in block.splitlines() if line.startswith("$ ")]
        else:
            found.append((language, block))
    return found


class Reader:
    """A reader of the guide in an empty directory; `said` is the output of each command."""

    def __init__(self, home: Path, origin: str, instead: dict[str, str], refreshed: Refreshed):
        self.home, self._origin, self._instead, self._refreshed = home, origin, instead, refreshed
        self.said: dict[str, str] = {}
        self.refreshes = 0

    def follow(self) -> None:
        for language, step in steps():
            for theirs, ours in self._instead.items():
                step = step.replace(theirs, ours)
            step = step.replace("https://example.org", self._origin)
            if language == "console":
                self._type(step)
            elif language == "python":
                with redirect_stdout(io.StringIO()) as out:
                    exec(compile(step, GUIDE.name, "exec"), {})
                self.said["python"] = out.getvalue()
            elif language == "toml":
                self._set(tomllib.loads(step.replace("example.org", self._origin.split(":")[1][2:])))
            else:
                assert (language, " refresh atlas --once" in step) == ("cron", True)

    def _type(self, line: str) -> None:
        words = shlex.split(line.replace("--for 1d", "--for 1s"))  # the test does not wait for a day
        assert words.pop(0) == "fieldmouse"
        if words[0] == "crawl":
            words += HERE
        if words[0] == "refresh":
            self.refreshes += 1
            self._refreshed(self.refreshes)
        said = self.run(*words)
        self.said[" ".join(word for word in words if not word.startswith(self._origin))] = said

    def run(self, *words: str) -> str:
        command = [COMMAND, *words]
        done = subprocess.run(command, cwd=self.home, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def _set(self, asked: dict[str, dict[str, Any]]) -> None:
        path = self.home / "atlas" / "fieldmouse.toml"
        dotted = {f"{section}.{key}": value for section, keys in asked.items() for key, value in keys.items()}
        path.write_text(settings_file.render(settings_file.load(path).override(dotted)))

    def listed(self) -> list[tuple[str, str]]:
        """Kind and path of every change, oldest first."""
        changes = json.loads(self.run("changes", "atlas", "--json"))
        return [(change["kind"], change["url"].removeprefix(self._origin)) for change in changes]

    def feed(self) -> list[str]:
        """The titles of what the feed tells."""
        feed = ElementTree.parse(self.home / "atlas" / "changes.atom").getroot()
        entries = feed.iter("{http://www.w3.org/2005/Atom}entry")
        return [entry.findtext("{http://www.w3.org/2005/Atom}title") or "" for entry in entries]


def test_every_step_of_the_guide_works_on_a_site_like_the_one_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    door = ("/terms", "/jobs/42", "/about", "/shop")
    with site() as (origin, pages):
        pages["/"] = text("Home", WORDS, *door)
        pages["/terms"] = text("Terms of use", f"{WORDS}</p><p>cancelled within 30 days")
        pages["/jobs/42"] = text("Field hand wanted", f"{WORDS}</p><p>field hand wanted for the harvest")
        pages["/about"] = text("About us", f"{WORDS}</p><p>we are three people and a dog")
        pages["/shop"] = text("Shop", f"{WORDS}</p><div class=advert>buy one</div><p>end")

        def refreshed(number: int) -> None:
            if number == 1:
                pages["/"] = text("Home", WORDS, *door, "/blog/harvest")
                pages["/blog/harvest"] = text("The harvest mouse", f"{WORDS}</p><p>a story that is new")
                pages["/terms"] = text("Terms of use", f"{WORDS}</p><p>cancelled within 14 days")
                pages["/shop"] = text("Shop", f"{WORDS}</p><div class=advert>buy two, or more</div><p>end")
                pages["/company"] = pages["/about"]
                pages["/jobs/42"], pages["/about"] = 404, "/company"
            if number == 3:
                pages["/terms"] = text("Terms of use", f"{WORDS}</p><p>cancelled never")

        reader = Reader(tmp_path, origin, {}, refreshed)
        reader.follow()
        said = reader.said
        assert f"{origin}/terms" in said["search atlas terms of use"]
        told = said["changes atlas --since 7d"]
        kinds = set(re.findall(r"^\S+ +(\w+) .*?(/[\w/]*)  ", told.replace(origin, ""), re.MULTILINE))
        assert kinds >= {("changed", "/terms"), ("new", "/blog/harvest"), ("gone", "/jobs/42"), ("changed", "/shop")}
        assert f"{origin}/about -> {origin}/company" in told
        assert "[-30-] {+14+}" in said["changes atlas --diff"]
        assert len(said["changes atlas --versions"].splitlines()) == 2
        assert f"{origin}/jobs/42" in said["search atlas --versions field hand wanted"]
        assert "404" in said["explain atlas"]
        assert f"changed {origin}/terms" in said["python"]
        assert ("changed", "/shop") not in reader.listed(), "the rule works on the past"
        assert ("changed", "/terms") in reader.listed()
        assert any("Terms of use" in title for title in reader.feed())
        assert "expected" in said["freshness atlas"]
        assert reader.refreshes == 3


@contextmanager
def meadow_of_a_week() -> Iterator[tuple[str, Meadow, Refreshed]]:
    """A meadow that stands still while it is crawled, a week later at the first refresh, and a day after that
    at the third."""
    with ExitStack() as stack:
        running = stack.enter_context(running_meadow(**LIVELY, stands_at=BEGAN))
        meadow = Meadow(MeadowOptions(**LIVELY), running.port)

        def refreshed(number: int) -> None:
            later = {1: BEGAN + WEEK, 3: BEGAN + WEEK + 86_400.0}.get(number)
            if later is not None:
                stack.close()
                again = LIVELY | {"port": running.port, "stands_at": later}
                stack.enter_context(running_meadow(**again))

        yield running.seeds[0].rstrip("/"), meadow, refreshed


def shown(meadow: Meadow, url: str, at: float) -> tuple[int, bytes]:
    answer = meadow.respond(host_of(Url(url)), path_of(Url(url)), at)
    return answer.status, answer.body


def truly_changed(meadow: Meadow, old: float, new: float) -> dict[str, set[str]]:
    """True changes of the known pages: their paths, by kind of change."""
    found: dict[str, set[str]] = {"changed": set(), "gone": set(), "moved": set()}
    for fact in meadow.true_urls():
        before, now = shown(meadow, fact.url, old), shown(meadow, fact.url, new)
        assert before[0] == fact.status == 200, "the meadow is calm"
        kind = {301: "moved", 404: "gone", 410: "gone"}.get(now[0], "changed" if now != before else "")
        if kind:
            found[kind].add(path_of(fact.url))
    return found


def test_every_step_of_the_guide_works_on_a_meadow_and_reports_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with meadow_of_a_week() as (origin, meadow, refreshed):
        truth = truly_changed(meadow, BEGAN, BEGAN + WEEK)
        assert all(len(paths) > 2 for paths in truth.values())
        changed, gone = (min(truth[kind]) for kind in ("changed", "gone"))
        was = shown(meadow, origin + gone, BEGAN)[1].decode()
        title = re.findall("<title>(.*?)</title>", was)[0].replace(":", "")
        ours = {"https://example.org/terms": origin + changed, "https://example.org/jobs/42": origin + gone}
        week: list[list[tuple[str, str]]] = []

        def before(number: int) -> None:
            refreshed(number)
            if number == 3:
                week.append(reader.listed())

        reader = Reader(tmp_path, origin, ours | {"field hand wanted": title}, before)
        reader.follow()
        (listed,) = week
        assert sorted(one for one in listed if one[0] != "new") == sorted(
            (kind, path) for kind, paths in truth.items() for path in paths
        )
        new = {path for kind, path in listed if kind == "new"}
        assert len(new) > len(truth["moved"]), "where pages moved to, and some that nobody had seen"
        for path in new:
            assert shown(meadow, origin + path, BEGAN)[0] == 404
            assert shown(meadow, origin + path, BEGAN + WEEK)[0] == 200
        said = reader.said
        assert len(said["changes atlas --since 7d"].splitlines()) == len(listed)
        assert len(said["python"].splitlines()) == len(listed) + 2
        assert "{+" in said["changes atlas --diff"]
        assert len(said["changes atlas --versions"].splitlines()) == 2
        assert origin + gone in said[f"search atlas --versions {title}"]
        in_all = reader.listed()
        assert in_all[: len(listed)] == listed
        told = [title.partition(":")[0] for title in reader.feed()]
        assert sorted(told) == sorted(kind for kind, _ in in_all[len(listed) :]), "what came after it was set"
        assert told
        assert "expected" in said["freshness atlas"]


def test_the_guide_is_linked_for_beginners() -> None:
    root = GUIDE.parents[2]
    for name, link in (
        ("README.md", "docs/guides/keeping-fresh.md"),
        ("docs/quickstart.md", "guides/keeping-fresh.md"),
    ):
        assert f"]({link})" in (root / name).read_text()

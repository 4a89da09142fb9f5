"""`import fieldmouse`: few modules until it is used, typed, and one spelling of each option."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

import fieldmouse
from fieldmouse.api.crawl_preparation import KEYWORD_SETTINGS, plan
from fieldmouse.cli import main
from fieldmouse.policy.distribution.registry import POLICIES

ROOT = Path(__file__).resolve().parent.parent.parent

EXPORTS = {"Crawl", "CrawlLocked", "CrawlReader", "FieldmouseError", "MultiCrawlReader", "StoredPage"}
EXPORTS |= {"Summary", "__version__", "crawl", "open"}


def loaded_by(code: str) -> set[str]:
    """The modules loaded in a process after running this code."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_importing_the_library_loads_no_crawler() -> None:
    ours = {name for name in loaded_by("import fieldmouse") if name.startswith("fieldmouse")}
    assert ours == {"fieldmouse", "fieldmouse.lazy_names"}
    assert "asyncio" not in loaded_by("import fieldmouse; fieldmouse.__version__, dir(fieldmouse)")


def test_reading_loads_no_crawler_and_planning_no_stage() -> None:
    reading = loaded_by("import fieldmouse; fieldmouse.CrawlReader")
    assert not {"fieldmouse.crawler", "fieldmouse.fetch", "uvloop"} & reading
    planning = loaded_by("import fieldmouse; fieldmouse.Crawl('nowhere', seeds=['https://example.org/'])")
    assert not {"fieldmouse.fetch", "fieldmouse.frontier.frontier", "uvloop", "tantivy"} & planning


def test_every_export_is_listed_and_documented() -> None:
    assert set(fieldmouse.__all__) == set(dir(fieldmouse)) == EXPORTS
    for name in EXPORTS - {"__version__"}:
        assert inspect.getdoc(getattr(fieldmouse, name)), name
    assert fieldmouse.ReadingRoom is fieldmouse.CrawlReader, "the former name still works"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'crwal'"):
        fieldmouse.crwal  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        ({}, "9 pages from 1 host in 2 s"),
        ({"failed": 3}, "9 pages from 1 host in 2 s; 3 URLs failed"),
        ({"pages": 0, "reasons": {"private address": 1}}, "0 pages from 1 host in 2 s; private address (1)"),
        ({"waiting": 1}, "9 pages from 1 host in 2 s; done for now, 1 URL waiting"),
        ({"waiting": 2, "stopped_by": "pages"}, "; stopped by the limit of pages, 2 URLs waiting"),
        ({"waiting": 2, "stopped_by": "time"}, "; stopped by the limit of time, 2 URLs waiting"),
        ({"waiting": 2, "stopped_by": "disk"}, "; stopped: the disk is nearly full, 2 URLs waiting"),
        ({"waiting": 2, "stopped_by": "signal"}, "; stopped by you, 2 URLs waiting"),
    ],
)
def test_a_printed_summary_says_what_failed_and_what_ended_it(ended: dict[str, object], sentence: str) -> None:
    plain = dict.fromkeys(fieldmouse.Summary.__struct_fields__[:13], 0)
    known = plain | {"pages": 9, "giving_hosts": 1, "seconds": 2.0}
    assert str(msgspec.convert(known | ended, fieldmouse.Summary)).endswith(sentence)


def test_every_short_option_of_the_command_is_a_keyword() -> None:
    keywords = set(inspect.signature(fieldmouse.Crawl).parameters)
    assert keywords == {"directory", "seeds", "settings", "retry_failed", *KEYWORD_SETTINGS}
    from fieldmouse.cli.crawl.crawl import command

    options = {option.name for option in command.params}
    assert set(KEYWORD_SETTINGS) - {"extract", "admit", "readers", "sign"} <= options


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        (["--seed", "nonsense"], {"seeds": ["nonsense"]}),
        (["--seed", "http://a/", "--delay", "soon"], {"seeds": ["http://a/"], "delay": "soon"}),
        (["--seed", "http://a/", "--pages", "many"], {"seeds": ["http://a/"], "pages": "many"}),
        (["--seed", "http://a/", "--pages", "-1"], {"seeds": ["http://a/"], "pages": "-1"}),
        (["--seed", "http://a/", "--scope", "all"], {"seeds": ["http://a/"], "scope": "all"}),
        (["--seed", "http://a/", "--policy", "x.y:Z"], {"seeds": ["http://a/"], "policy": "x.y:Z"}),
        (["--seed", "http://a/", "--resolve", "a"], {"seeds": ["http://a/"], "resolve": ["a"]}),
        (["--seed", "http://a/", "--set", "a.b=1"], {"seeds": ["http://a/"], "settings": {"a.b": 1}}),
        ([], {}),
    ],
)
def test_invalid_arguments_raise_the_error_that_the_command_prints(
    words: list[str], keywords: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "c"
    assert main.run_command(["crawl", str(home), *words]) == 2
    printed = capsys.readouterr().err
    with pytest.raises(fieldmouse.FieldmouseError) as raised:
        fieldmouse.Crawl(home, **keywords)  # type: ignore[arg-type]
    assert f"error: {raised.value}\nhint: {raised.value.hint}\n" in printed
    assert not list(tmp_path.iterdir())


def test_user_code_may_be_an_object_that_can_be_imported_by_name(tmp_path: Path) -> None:
    class Local:
        pass

    seeds = ["http://a/"]
    for wrong, says in ((lambda page: None, "no name to"), (Local, "no name to"), (5, "cannot be called")):
        with pytest.raises(fieldmouse.FieldmouseError, match=says) as told:
            fieldmouse.Crawl(tmp_path / "c", seeds=seeds, extract=wrong)  # type: ignore[arg-type]
        assert told.value.hint
    with pytest.raises(fieldmouse.FieldmouseError, match="is no policy"):
        fieldmouse.Crawl(tmp_path / "c", seeds=seeds, policy=textwrap.dedent)
    index = POLICIES["index"]
    readers = {"text/csv": textwrap.indent}
    words = {"policy": index, "extract": textwrap.dedent, "readers": readers, "sign": textwrap.fill}
    planned = plan(tmp_path / "c", words, {}, seeds).settings
    assert planned.frontier.policy == f"{index.__module__}:{index.__qualname__}"
    assert planned.plugins.extract == "textwrap:dedent"
    assert planned.plugins.sign == "textwrap:fill"
    assert planned.plugins.readers == {"text/csv": "textwrap:indent"}
    assert not (tmp_path / "c").exists()


SCRIPT = """
import fieldmouse
from fieldmouse import Crawl, FieldmouseError, CrawlReader, StoredPage, Summary

async def main() -> list[str]:
    async with fieldmouse.Crawl("other", seeds=["https://example.org/"]) as crawl:
        return [page.title async for page in crawl]

try:
    crawl = Crawl("atlas", seeds=["https://example.org/"], delay=1.0, pages=1000, scope="web",
                  allow_private=True, policy="index", contact="me@example.org", resolve=["a=127.0.0.1"],
                  settings={"storage.checkpoint": "300ms"})
    for page in crawl:
        stored: StoredPage = page
        title: str = page.title
        body: bytes = page.body
        links: list[str] = page.links
    summary: Summary = crawl.summary
    last: Summary = fieldmouse.crawl("third", seeds=["https://example.org/"], pages=5)
except FieldmouseError as trouble:
    hint: str = trouble.hint
atlas: CrawlReader = fieldmouse.open("atlas")
urls: list[str] = [page.url for page in atlas.pages(host="example.org")]
"""

WRONG = """
fieldmouse.Crawl("atlas", pages="many")
fieldmouse.Crawl("atlas", sedes=["https://example.org/"])
fieldmouse.crawl("atlas", delay=[])
"""


def test_a_user_script_passes_the_type_checker(tmp_path: Path) -> None:
    """The package is marked as typed, so a type checker checks user code against it."""
    assert (ROOT / "src" / "fieldmouse" / "py.typed").exists()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(script)]
    env = {"PATH": "", "MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=env)
    first = SCRIPT.count("\n") + 1
    complaints = [line for line in done.stdout.splitlines() if line.startswith("script.py")]
    assert [int(line.split(":")[1]) for line in complaints if " error:" in line] == [first + 1, first + 2, first + 3]

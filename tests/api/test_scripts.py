"""Scripts that iterate a crawl and are stopped or killed continue it when run again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldmouse.storage.checkpoint import read_checkpoint
from fieldmouse.storage.directory import CrawlDir
from meadowland import RunningMeadow, running_meadow

from .scripting import COLLECT, heard, run, start, stop, until

KILLS = int(os.environ.get("FIELDMOUSE_KILLS", "5"))
SLOW = COLLECT.replace("delay=0.0", "delay=0.2")
"""The largest host has dozens of pages, so the crawl is not done before the signal."""


@pytest.fixture(scope="module")
def meadow() -> Iterator[RunningMeadow]:
    with running_meadow(hosts=6, pages=120, seed=21, page_kb=4) as running:
        yield running


def ended_in_good_order(home: Path) -> bool:
    last = read_checkpoint(CrawlDir.open(home))
    return last is not None and last.clean and not CrawlDir.open(home).was_killed


def test_a_script_killed_at_any_moment_gets_every_page_when_run_again(meadow: RunningMeadow, tmp_path: Path) -> None:
    rng, home = random.Random(7), tmp_path / "c"
    kills = 0
    while kills < KILLS:
        process = start(meadow, home, script=SLOW)
        try:
            process.wait(rng.uniform(0.2, 3.0))
        except subprocess.TimeoutExpired:
            kills += 1
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        else:
            raise AssertionError(process.communicate())
    code, out, err = run(meadow, home)
    assert (code, err) == (0, "")
    assert out.split() == [str(len(meadow.pages())), "0", "0"]
    assert kills == KILLS
    assert set(heard(home)) == meadow.pages()
    before = heard(home)
    assert run(meadow, home)[0] == 0
    assert heard(home) == before, "what was delivered and is durable does not come again"


@pytest.mark.parametrize("moment", ["while it waits", "in the loop's body"])
def test_ctrl_c_stops_the_crawl_and_the_next_run_continues_it(
    meadow: RunningMeadow, tmp_path: Path, moment: str
) -> None:
    home = tmp_path / "c"
    in_body = moment == "in the loop's body"
    pause = "if len(open(heard).readlines()) == 30: import signal; signal.pause()"
    process = start(meadow, home, pause if in_body else "", SLOW)
    until(process, lambda: len(heard(home)) >= 30)
    code, err = stop(process, signal.SIGINT)
    assert code in (1, 130, -signal.SIGINT)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in err
    assert ended_in_good_order(home)
    first = heard(home)
    assert set(first.values()) == {1}
    assert run(meadow, home)[0] == 0
    assert set(heard(home)) == meadow.pages()
    twice = [url for url, times in heard(home).items() if times > 1]
    assert len(twice) <= 1, "only what was in hand may come again"


def test_a_second_ctrl_c_does_not_wait(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    process = start(meadow, home, script=SLOW)
    until(process, lambda: len(heard(home)) >= 5)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=100)
    assert process.returncode != 0
    assert run(meadow, home)[0] == 0
    assert set(heard(home)) == meadow.pages()


def test_a_program_with_an_open_crawl_can_exit(meadow: RunningMeadow, tmp_path: Path) -> None:
    """The crawl ends as if killed: nothing is lost, and the next run continues it."""
    home = tmp_path / "c"
    open_ended = (
        COLLECT.partition("with open")[0] + "\npages = iter(crawl)\nprint(next(pages).url, file=open(heard, 'a'))\n"
    )
    code, _, err = run(meadow, home, script=open_ended)
    assert (code, err) == (0, "")
    assert len(heard(home)) == 1
    assert run(meadow, home)[0] == 0
    assert set(heard(home)) == meadow.pages()


def test_a_fork_of_the_program_leaves_the_crawl_alone(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    fork = """
        import os
        child = os.fork()
        if not child:
            break
        os.waitpid(child, 0)
"""
    code, _, err = run(meadow, home, body=fork.strip(), script=COLLECT.replace("delay=0.0", "delay=0.0, pages=5"))
    assert (code, err.count("has not ended")) == (0, 5), err
    assert list(heard(home).values()) == [1] * 5


def test_a_full_disk_raises_a_clear_error_in_the_loop(meadow: RunningMeadow, tmp_path: Path) -> None:
    home = tmp_path / "c"
    confine = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))\n"
    told = f"""
import fieldmouse
try:
    exec({confine + COLLECT!r})
except fieldmouse.FieldmouseError as trouble:
    print("said:", trouble, "-", trouble.hint)
try:
    crawl.summary
except fieldmouse.FieldmouseError as trouble:
    print("again:", trouble)
"""
    code, out, _ = run(meadow, home, script=told)
    assert code == 0
    assert "said: " in out
    assert "File too large" in out
    assert "make room; nothing is lost" in out
    assert "again: " in out
    assert run(meadow, home)[0] == 0
    assert set(heard(home)) == meadow.pages()

"""`fieldmouse model fit`: from the trace in a crawl's directory to a model that the other commands take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fieldmouse.cli.main import run_command
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.control.buffer_trace import ROW, BufferEvent, TraceFileWriter
from fieldmouse.storage.directory import CrawlDir

Said = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl with 4 and then 8 robots, each bringing a page every two seconds; a service takes 0.15 s."""
    rng = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("fit") / "atlas"
    home = CrawlDir.create(path, shards=1, settings=settings_file.render(Settings()).encode())
    arrived = np.concatenate((rng.exponential(0.5, 1000).cumsum(), 520 + rng.exponential(0.25, 2000).cumsum()))
    robots = np.repeat([4, 8], [1000, 2000])
    begun = np.zeros(3002, ROW)
    rows, free = begun[1:], 0.0
    begun[0]["at"], begun[0]["robots"], begun[0]["fate"] = 1e9 - 1, 4, BufferEvent.BEGAN
    for place, (at, mode) in enumerate(zip(arrived, robots, strict=True)):
        row = rows[place + (place >= 1000)]
        start = max(at, free)
        free = start + rng.gamma(2.0, 0.075)
        row["at"], row["stay"], row["wait"] = 1e9 + at, free - at, start - at
        row["robots"] = row["allowed"] = mode
        row["fate"] = BufferEvent.SERVED
    rows[1000]["at"], rows[1000]["robots"], rows[1000]["allowed"] = 1e9 + 515.0, 8, 8
    rows[1000]["fate"] = BufferEvent.SWITCHED
    file = TraceFileWriter(home / "pages.trace", 1 << 24)
    file.append(begun.tobytes())
    file.close()
    return path


def test_a_crawl_is_fitted_solved_and_optimised(crawl: Path, tmp_path: Path, capsys: Said) -> None:
    model, plot = tmp_path / "model.json", tmp_path / "fit.svg"
    words = ["--to", str(model), "--plot", str(plot), "--draws", "4", "--capacity", "20", "--json"]
    assert run_command(["model", "fit", str(crawl), *words]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["model"] == json.loads(model.read_text())
    assert told["model"]["K"] == 20
    assert set(told["model"]["modes"]) == {"4", "8"}
    parts = {part["part"]: part for part in told["report"]["parts"]}
    assert parts["arrivals with 4 robots"]["fit"]["mean"] == pytest.approx(0.5, rel=0.15)
    assert parts["arrivals with 8 robots"]["fit"]["mean"] == pytest.approx(0.25, rel=0.15)
    assert parts["service"]["fit"]["mean"] == pytest.approx(0.15, rel=0.1)
    assert parts["service"]["fit"]["scv"] == pytest.approx(0.5, abs=0.1)
    assert plot.read_bytes().startswith(b"<?xml")
    assert run_command(["model", "optimise", str(model), "--json"]) == 0
    best = json.loads(capsys.readouterr().out)
    assert set(best["robots"]) <= {4, 8}


def test_people_get_a_table_and_what_to_know_before_trusting_it(crawl: Path, capsys: Said) -> None:
    assert run_command(["model", "fit", str(crawl), "--modes", "4,16", "--capacity", "30", "--draws", "0"]) == 0
    said = capsys.readouterr()
    assert "arrivals with 4 robots" in said.out
    assert "service" in said.out
    assert "16 robots were hardly seen" in said.err
    assert "endless" in said.err


def test_the_model_alone_can_go_down_a_pipe(crawl: Path, capsys: Said) -> None:
    assert run_command(["model", "fit", str(crawl), "--to", "-", "--draws", "0", "--service", "moments"]) == 0
    assert json.loads(capsys.readouterr().out)["K"] == Settings().buffer.pages


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (["--modes", "four"], "is no list of numbers", 2),
        (["--plot", "fit.pdf"], "neither .svg nor .png", 2),
        (["--to", "no/such/place.json", "--draws", "0"], "cannot write", 1),
        (["--gap", "1e9"], "no number of robots brought", 1),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    crawl: Path, capsys: Said, words: list[str], says: str, code: int
) -> None:
    assert run_command(["model", "fit", str(crawl), *words]) == code
    assert says in capsys.readouterr().err


def test_a_crawl_without_a_trace_is_told_how_to_get_one(tmp_path: Path, capsys: Said) -> None:
    CrawlDir.create(tmp_path / "atlas", shards=1, settings=settings_file.render(Settings()).encode())
    assert run_command(["model", "fit", str(tmp_path / "atlas")]) == 1
    assert "control.trace" in capsys.readouterr().err

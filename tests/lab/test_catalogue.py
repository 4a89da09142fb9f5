"""Which experiments there are, and how one asks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import tinypaper
from fieldmouse_lab import catalogue
from fieldmouse_lab.catalogue import MissingExtra, NoSuchExperiment

IDS = [experiment.id for experiment in tinypaper.EXPERIMENTS]


@pytest.fixture
def paper() -> Iterator[None]:
    with tinypaper.in_the_catalogue():
        yield


def ids(*names: str) -> list[str]:
    return [experiment.id for experiment in catalogue.select_experiments(*names)]


@pytest.mark.usefixtures("paper")
def test_an_id_a_group_or_all_can_be_asked_for() -> None:
    assert ids("tiny-grid") == ["tiny-grid"]
    assert ids("tiny") == ["tiny-table", "tiny-grid"]
    assert ids() == ids("all") == ids("tiny", "all") == IDS


@pytest.mark.usefixtures("paper")
def test_an_experiment_named_twice_runs_once_in_catalogue_order() -> None:
    assert ids("tiny-grid", "lost", "tiny", "tiny-grid") == ["tiny-table", "tiny-grid", "tiny-lost"]


@pytest.mark.usefixtures("paper")
@pytest.mark.parametrize(
    ("name", "advice"), [("tiny-tabel", "did you mean `tiny-table`?"), ("voles", "fieldmouse lab list")]
)
def test_a_name_that_is_not_there_is_named(name: str, advice: str) -> None:
    with pytest.raises(NoSuchExperiment, match=f"`{name}`") as missing:
        catalogue.select_experiments("tiny", name)
    assert advice in missing.value.hint


def test_an_id_that_is_also_a_group_means_the_experiment() -> None:
    one, two = (catalogue.Experiment(name, "live", "", "", tinypaper.table) for name in ("live", "live-too"))
    with tinypaper.in_the_catalogue(one, two):
        assert ids("live") == ["live"]


def test_an_empty_catalogue_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "PAPERS", ())
    with pytest.raises(NoSuchExperiment, match="no experiments"):
        catalogue.experiments()


def test_a_paper_that_lacks_a_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="scipy.sparse")

    monkeypatch.setattr(catalogue.importlib, "import_module", lacking)
    monkeypatch.setattr(catalogue, "PAPERS", ("tiny",))
    with pytest.raises(MissingExtra, match="scipy") as missing:
        catalogue.experiments()
    assert "fieldmouse[lab]" in missing.value.hint


def test_every_experiment_has_a_typeable_id_and_a_one_line_title() -> None:
    for experiment in catalogue.select_experiments():
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", experiment.id), experiment.id
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", experiment.group), experiment.id
        assert experiment.id != "all"
        assert experiment.title
        assert "\n" not in experiment.title
        assert len(experiment.title) <= 100, experiment.title

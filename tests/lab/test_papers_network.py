"""Experiments of the thesis on KALMAN-BLAWLB: verdicts, and the inputs that change them."""

from __future__ import annotations

import re

import pytest

from fieldmouse_lab.catalogue import Row, Verdict
from fieldmouse_lab.network.environment import SHARES, TripReading
from fieldmouse_lab.network.play import play_network
from fieldmouse_lab.papers.network import tables
from fieldmouse_lab.papers.network.printed import BLIND_TOLERANCE, PARTITIONS, RUNS, blind_rate, interpretations

pytest.importorskip("numba", reason="without a compiler a run takes a minute")

FEW = (31, 32, 33, 34)


def quiet(share: float, doing: str) -> None:
    """Nobody watches."""


def forget() -> None:
    tables._course.cache_clear()
    tables._course_in_reading.cache_clear()


def by_label(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.label: row for row in rows}


def test_only_calibrated_trips_give_the_printed_level_of_hashing() -> None:
    for environment in ("Small", "Large"):
        rows = by_label(tables.levels(environment, quiet, FEW).rows)
        hashing = rows[f"rate of consistent hashing, {environment}"]
        literal = rows[f"rate of consistent hashing, {environment}, literal reading"]
        assert hashing.verdict is Verdict.SAME
        assert hashing.ours is not None
        assert literal.ours is not None
        assert literal.ours > 1.6 * hashing.ours


def test_fairness_is_ranked_as_printed() -> None:
    for environment in ("Small", "Large"):
        remarks = tables.levels(environment, quiet, FEW).remarks
        assert "ours: kalman < hash < ipmicra" in remarks[0]


def test_exchanges_in_the_large_web_are_ordered_as_printed() -> None:
    found = tables.exchanges(quiet, FEW)
    rows = by_label(found.rows)
    assert "6 the most, as printed" in found.remarks[0]
    assert rows["exchanges of consistent hashing, Small"].ours == 0
    assert rows["exchanges of experiment 4"].verdict is Verdict.SAME


def test_a_number_between_readings_is_open_and_one_outside_all_of_them_different() -> None:
    between = by_label(tables.exchanges(quiet, FEW).rows)["exchanges of experiment 6"]
    outside = by_label(tables.levels("Large", quiet, FEW).rows)["fairness of IPMicra, Large"]
    assert (between.verdict, outside.verdict) == (Verdict.OPEN, Verdict.DIFFERENT)
    for row, is_between in ((between, True), (outside, False)):
        means = [float(number.replace(",", "")) for number in re.findall(r": ([\d,]+)", row.note)]
        assert len(means) == 4, row.note
        assert row.printed is not None
        assert (min(means) <= row.printed <= max(means)) is is_between


def test_rates_in_the_large_web_are_those_of_distance_blind_rules() -> None:
    """The exact law: agents are never idle, so that each visits 1 / (its mean over all hosts) a second."""
    rows = by_label(tables.levels("Large", quiet, FEW).rows)
    for number in (4, 5, 6):
        row = rows[f"rate of experiment {number}"]
        assert row.verdict is Verdict.DIFFERENT, "a number that we do not get is no misprint"
        assert "distances are hardly seen in Large" in row.note
        assert row.ours == pytest.approx(1.0666, rel=BLIND_TOLERANCE)
    assert rows["rate of consistent hashing, Large"].ours == pytest.approx(1.0666, rel=BLIND_TOLERANCE)
    small = tables.network_setting(RUNS[0], TripReading.CALIBRATED)
    assert play_network(small, 36).throughput > (1 + BLIND_TOLERANCE) * blind_rate(small, (36,)), (
        "in Small they are seen"
    )


def test_noises_read_as_variances_change_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same table by another reading: then what agreed does not."""
    wrong = tables.network_setting

    def squared(one: tables.PrintedRun, reading: TripReading) -> tables.NetworkSetting:
        setting = wrong(one, reading)
        return tables.replace(setting, sigma_tr=setting.sigma_tr**0.5, sigma_ob=setting.sigma_ob**0.5)

    monkeypatch.setattr(tables, "network_setting", squared)
    forget()
    try:
        rows = by_label(tables.exchanges(quiet, FEW).rows)
    finally:
        forget()
    assert rows["exchanges of experiment 4"].verdict is not Verdict.SAME


def test_every_reading_gives_the_printed_level_of_hashing() -> None:
    """One that does not is no reading of this thesis, and must not make a number open."""
    for one in RUNS:
        if one.policy == "hash":
            base = tables.network_setting(one, TripReading.CALIBRATED)
            for reading in interpretations(one):
                rates = [play_network(reading.apply(base), seed).throughput for seed in FEW]
                assert 1.0 <= sum(rates) / len(rates) < 1.15, reading.name


def test_only_results_get_a_verdict_not_settings() -> None:
    rows = [*tables.exchanges(quiet, FEW).rows]
    rows += [row for environment in PARTITIONS for row in tables.levels(environment, quiet, FEW).rows]
    printed = [row.label for row in rows if row.printed is not None]
    assert len(printed) == 24
    assert not [label for label in printed if "partition" in label]


def test_the_printed_runs_match_the_tables() -> None:
    assert {"Small": SHARES, "Large": tuple(10 * share for share in SHARES)} == PARTITIONS
    assert [one.environment for one in RUNS].count("Small") == 5
    setting = tables.network_setting(RUNS[1], TripReading.CALIBRATED)
    assert (setting.sigma_tr, setting.sigma_ob, setting.times) == (2.0, 4.0, 1)
    assert (
        play_network(setting, 35).throughput
        < play_network(tables.network_setting(RUNS[0], TripReading.CALIBRATED), 35).throughput
    )

"""The report stands alone, names every number, and hides none that differs."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

import tinypaper
from fieldmouse_lab import grid, plot, report
from fieldmouse_lab.catalogue import Experiment, Result, Row, Verdict
from fieldmouse_lab.findings import LabFinding

VOID = {"br", "meta", "path", "use", "rect", "circle", "hr"}


def finding_of(experiment: Experiment) -> LabFinding:
    return LabFinding.of(experiment, experiment.run(lambda *_: None), 1.5)


TINY = [finding_of(one) for one in tinypaper.EXPERIMENTS[:3]]


@pytest.fixture(scope="module")
def text() -> str:
    return report.render_report(TINY, made="on a Monday")


@pytest.fixture(scope="module")
def tree(text: str) -> LexborHTMLParser:
    return LexborHTMLParser(text)


class Balance(HTMLParser):
    """Tags that are open; each must be closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def test_the_page_is_well_formed(text: str) -> None:
    balance = Balance()
    balance.feed(text)
    assert not balance.open


def test_nothing_is_fetched_and_nothing_runs(text: str, tree: LexborHTMLParser) -> None:
    assert not tree.css("script, link, img[src^=http], iframe")
    assert not re.findall(r"@import|url\((?!#)", text)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_every_link_leads_somewhere_and_every_name_is_one_place(tree: LexborHTMLParser) -> None:
    names = [node.attributes["id"] for node in tree.css("[id]")]
    assert len(names) == len(set(names))
    targets = {(node.attributes["href"] or "").removeprefix("#") for node in tree.css("a[href]")}
    assert {finding.id for finding in TINY} <= targets <= set(names)


def test_the_summary_counts_what_the_rows_say(tree: LexborHTMLParser) -> None:
    rows = [row for finding in TINY for row in finding.result.rows]
    for verdict in Verdict:
        tile, count = tree.css_first(f".tiles .{verdict}"), sum(row.verdict is verdict for row in rows)
        if not count:
            assert tile is None
            continue
        assert tile is not None
        assert tile.css_first("b").text() == str(count)
        assert verdict.value in tile.text()


def test_every_number_that_is_not_as_printed_stands_on_top_with_its_reason(tree: LexborHTMLParser) -> None:
    first = tree.css_first("main table")
    assert first is not None
    said = first.text()
    for row in (tinypaper.LOST, tinypaper.LUCKY, tinypaper.SLIPPED):
        assert row.label in said
        assert row.note in said
        assert row.verdict.value in said
    assert tinypaper.MICE.label not in said


def test_every_row_is_shown_with_label_numbers_and_verdict_in_words(tree: LexborHTMLParser) -> None:
    for finding in TINY:
        section = tree.css_first(f'section[id="{finding.id}"]')
        assert section is not None
        lines = [[cell.text() for cell in line.css("th, td")] for line in section.css("table.list tbody tr")]
        expected = [
            [
                row.label,
                grid.format_printed(row),
                grid.format_ours(row),
                grid.format_spread(row),
                row.verdict.value,
                row.note,
            ]
            for row in finding.result.rows
        ]
        assert lines == expected


def test_a_grid_shows_ours_and_the_printed_number_where_they_belong(tree: LexborHTMLParser) -> None:
    lines = tree.css('section[id="tiny-grid"] table.grid tbody tr')
    assert [line.css_first("th").text() for line in lines] == ["10", "9", "8"]
    shown = [[cell.text(separator=" ").split() for cell in line.css("td")] for line in lines]
    assert shown == [[["7", "7"], ["9", "9"]], [["6.3", "6.3"], ["8.1", "8.1"]], [["5.6", "5.6"], ["7.2", "7.2"]]]


def test_a_cell_that_differs_says_so_in_a_word() -> None:
    verdicts = iter([Verdict.SAME, Verdict.MISPRINT, Verdict.OPEN, Verdict.DIFFERENT])
    rows = tuple(
        Row(f"delta {d}, gamma {g}", 1.0, 2.0, None, next(verdicts), "because") for d in (1, 2) for g in (3, 4)
    )
    page = report.render_report([LabFinding("g", "g", "G", "", Result(rows), 0.0)], made="")
    cells = [cell.text(separator=" ").split() for cell in LexborHTMLParser(page).css("table.grid td")]
    assert [cell[2:] for cell in cells] == [[], ["misprint"], ["open"], ["different"]]


def test_remarks_about_and_figures_are_there(tree: LexborHTMLParser) -> None:
    section = tree.css_first('section[id="tiny-table"]')
    assert section is not None
    assert "Mice were counted at dawn." in section.text()
    assert [paragraph.text() for paragraph in section.css("p")][1:3] == ["Counts mice.", "Twice."]
    (figure,) = section.css("figure")
    assert figure.css_first("svg") is not None
    assert figure.css_first("figcaption").text() == "How many By hand."


def test_a_page_where_all_is_as_printed_says_so() -> None:
    page = LexborHTMLParser(report.render_report([TINY[1]], made=""))
    assert "every printed number is the same" in page.css_first("main").text()


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12))
def test_text_is_escaped_in_the_report(words: str) -> None:
    nasty = f"<mouse>{words}</mouse>&\"'"
    row = Row(nasty, 1.0, 2.0, None, Verdict.DIFFERENT, nasty)
    page = report.render_report([LabFinding("x", "g", nasty, nasty, Result((row,), (), (nasty,)), 0.0)], made="now")
    balance = Balance()
    balance.feed(page)
    assert not balance.open
    # Once each in: contents, the list on top (title, label, note), and the experiment (title, label, note).
    assert LexborHTMLParser(page).body.text().count("<mouse>") >= 7
    assert "<mouse>" not in page


def test_the_page_knows_every_colour_a_figure_asks_for_in_light_and_dark() -> None:
    style = files("fieldmouse_lab").joinpath("report.css").read_text()
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for variable in plot.VARIABLES.values():
        assert f"{variable}:" in light
        assert f"{variable}:" in dark.partition("* {")[0]
    for verdict in Verdict:
        assert f"--{verdict}:" in light
        assert f"--{verdict}:" in dark
        assert f".{verdict} {{" in style

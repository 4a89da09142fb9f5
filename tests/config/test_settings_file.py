"""Settings files: reading, writing, and an error with a hint for every mistake."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.config import settings_file, values
from fieldmouse.config import settings_file as toml_format
from fieldmouse.config.sections import Section
from fieldmouse.config.settings_file import Settings, parse, render
from fieldmouse.errors import SettingsError

durations = st.floats(0, 1e9, allow_nan=False)
words = st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]), max_size=12)
lists = st.lists(words, max_size=3).map(tuple)
VALUES: dict[values.ValueKind, st.SearchStrategy[Any]] = {
    values.DURATION: durations,
    values.INTERVAL: durations,
    values.INTERVAL_OR_SAME: st.none() | durations,
    values.SIZE: st.integers(15 << 20, 1 << 50),
    values.SPEED: st.floats(0, 1e12),
    values.COUNT: st.integers(0, 1 << 62),
    values.POSITIVE: st.integers(1, 1 << 62),
    values.COUNT_OR_NONE: st.none() | st.integers(0, 1 << 62),
    values.DURATION_OR_NEVER: st.none() | st.floats(1e-3, 1e9),
    values.NUMBER: st.floats(0, 1e300),
    values.FLAG: st.booleans(),
    values.TEXT: words,
    values.TEXTS: lists,
    values.HEADERS: st.dictionaries(st.from_regex(r"[A-Za-z][A-Za-z-]{0,9}", fullmatch=True), words, max_size=3),
}


def values_of(section: type[Section]) -> st.SearchStrategy[dict[str, Any]]:
    known = {key: VALUES[about.kind] for key, about in toml_format.keys_of(section).items() if about.kind in VALUES}
    return st.fixed_dictionaries({}, optional=known)


anything = st.fixed_dictionaries(
    {name: values_of(section) for name, section in toml_format.sections_of(Settings).items()}
)


@given(anything)
def test_rendered_settings_parse_to_the_same_settings(chosen: Mapping[str, Mapping[str, Any]]) -> None:
    asked = Settings(
        **{name: section(**chosen[name]) for name, section in toml_format.sections_of(Settings).items()}  # type: ignore[arg-type]
    )
    if asked.frontier.front_min > asked.frontier.front_max:
        asked = msgspec.structs.replace(asked, frontier=Settings().frontier)
    assert settings_file.parse(settings_file.render(asked)) == asked


@given(st.floats(0, 1e12), st.sampled_from(["ms", "s", "m", "h", "d"]))
def test_a_duration_is_its_number_times_its_unit(number: float, unit: str) -> None:
    assert math.isclose(values.seconds(f"{number}{unit}"), number * values.SECONDS[unit], rel_tol=1e-9)


@given(st.integers(0, 1 << 40), st.sampled_from(sorted(values.BYTES)))
def test_a_size_is_exact(number: int, unit: str) -> None:
    assert values.size(f"{number}{unit}") == number * values.BYTES[unit]


@given(st.text() | st.from_regex(r"[0-9]{1,3}(\.[0-9])?(e[0-9]{1,4})?(ms|s|d|B|MiB|TB)?(/[smh])?", fullmatch=True))
def test_readers_of_quantities_raise_only_value_error(text: str) -> None:
    for read in (values.seconds, values.size, values.speed, values.interval):
        with suppress(ValueError):
            assert 0 <= read(text) < math.inf


def test_every_key_has_a_text_and_is_in_the_rendered_file() -> None:
    text = settings_file.render(Settings())
    for name, section in toml_format.sections_of(Settings).items():
        assert f"\n[{name}]\n" in text
        for key, about in toml_format.keys_of(section).items():
            assert len(about.purpose) > 8
            assert f"\n{key} = " in text


def test_the_text_of_a_choice_begins_with_its_values() -> None:
    for dotted in ("scope.mode", "control.mode", "buffer.when_full", "refresh.policy"):
        section, key = toml_format.split_name(Settings, dotted)
        about = toml_format.keys_of(toml_format.sections_of(Settings)[section])[key]
        values_of_kind = re.findall(r'"([a-z]+)"', about.kind.accepts)
        assert re.findall(r"[a-z]+", about.purpose)[: len(values_of_kind) + 1] in (
            [*values_of_kind[:-1], "or", values_of_kind[-1]],
            [*values_of_kind, "or"],
        )


@pytest.mark.parametrize(
    ("text", "names", "advises"),
    [
        ("[politness]", "politness", "did you mean `politeness`"),
        ('[politeness]\ndealy = "1s"', "politeness.dealy", "did you mean `delay`"),
        ("[politeness]\ndelay = 10", "`politeness.delay` is 10", 'the unit is missing: write "10s"'),
        ('[politeness]\ndelay = "10 parsecs"', "10 parsecs", "10s"),
        ('[politeness]\ndelay = "0/h"', "0/h", "500/h"),
        ('[limits]\nbody = "lots"', "limits.body", "64MiB"),
        ("[limits]\nredirects = -1", "limits.redirects", "0 or more"),
        ("[limits]\nredirects = true", "true", "whole number"),
        ("[fetch]\nconcurrency = 0", "fetch.concurrency", "1 or more"),
        ('[scope]\nmode = "planet"', "planet", '"web"'),
        ('[scope]\ninclude_regex = ["("]', "scope.include_regex", "backslash"),
        ('[network]\nresolve = ["a.example"]', "network.resolve", "www.example.org=192.0.2.7"),
        ('[network]\nresolve = ["a=999.1.1.1"]', "`network.resolve` in `some.toml`", "www.example.org="),
        ('[network]\nnameservers = ["ns.example"]', "`ns.example` is not", "192.0.2.53"),
        ('[network]\nheaders = {X_From = "us"}', "`X_From` cannot be sent", "letters, digits and dashes"),
        ('[crawl]\nseeds = ["example.org/a"]', "crawl.seeds", "`https://example.org/a`"),
        ('[crawl]\ntime = "1e90w"', "crawl.time", "less"),
        ('[limits]\nbody = "1e20TiB"', "limits.body", "less"),
        ('[network]\nheaders = {"X" = "a\\nb"}', "network.headers", "header lines"),
        ('[crawl]\nproduct = "a\\r\\nHost: b"', "crawl.product", "name and version"),
        ('[crawl]\nuser_agent = "x"', "crawl.user_agent", "`product` and `contact`"),
        ('[archive]\nprefix = "../x"', "archive.prefix", "file name"),
        ("[frontier]\nfront_min = 9\nfront_max = 8", "front_min", "lower"),
        ('[buffer]\nobsolete_after = "0s"', "buffer.obsolete_after", '"never"'),
        ('[control]\nmode = "thresholds"', "`control.robots` has 0 numbers", "robots = [8, 2]"),
        ('[control]\nmode = "thresholds"\nrobots = [8, 2]', "`control.limits` has 0", "limits = [100]"),
        ('[control]\nmode = "thresholds"\nrobots = [2, 8]\nlimits = [5]', "rise", "must not wake more"),
        ('[control]\nmode = "thresholds"\nrobots = [4, 2, 1]\nlimits = [5, 4]', "fall", "ascending"),
        ('[control]\nmode = "thresholds"\nrobots = [0]', "no fetch", "above 0"),
        ('[control]\nmode = "thresholds"\nrobots = [200]', "200 robots", "fetch.concurrency"),
        ("[control]\nmodes = [0, 1]", "control.modes", "from 1 on"),
        ("[control]\nmodes = 4", "control.modes", "[8, 2]"),
        ("crawl = 3", "`crawl` is a section", "[crawl]"),
        ("pages = 3", "`pages` outside a section", "sections are"),
        ("[crawl", "not TOML", "correct"),
    ],
)
def test_invalid_settings_raise_an_error_with_a_hint(text: str, names: str, advises: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_file.parse(text, "some.toml")
    assert names in str(caught.value)
    assert advises in caught.value.hint


@pytest.mark.parametrize(
    "headers",
    [
        '{"Authorization" = "s3cret\\n"}',
        '{"X_Token" = "s3cret"}',
        '{"Cookie" = "s3cret", "X" = 5}',
        '"s3cret"',
        '["s3cret"]',
        '{"Range" = "s3cret"}',
    ],
)
def test_errors_about_headers_do_not_show_their_values(headers: str) -> None:
    for make in (
        lambda: parse(f"[network]\nheaders = {headers}"),
        lambda: Settings().override({"network.headers": headers}),
    ):
        with pytest.raises(SettingsError) as caught:
            make()
        assert "network.headers" in str(caught.value)
        assert "s3cret" not in f"{caught.value} {caught.value.hint}"


def test_settings_are_shown_without_secrets() -> None:
    asked = Settings().override(
        {"network.headers": {"Cookie": "s3cret", "DNT": "1"}, "notify.webhook": "https://hooks.example/s3cret"}
    )
    assert toml_format.redacted_value(asked, "network", "headers") == '{"Cookie" = "(blanked)", "DNT" = "1"}'
    assert toml_format.redacted_value(asked, "notify", "webhook") == '"(blanked)"'
    assert asked.secret_names == ["network.headers", "notify.webhook"]
    assert Settings().override({"notify.webhook": "env:HOOK", "network.headers": {"DNT": "1"}}).secret_names == []
    assert parse(render(asked)) == asked, "the file has them, of course"


def test_rules_of_an_unused_mode_do_not_limit_concurrency() -> None:
    ruled = {"control.mode": "thresholds", "control.robots": [32, 4], "control.limits": [60]}
    asked = Settings().override({**ruled, "control.modes": [8, 32]})
    assert asked.override({"control.mode": "fixed", "fetch.concurrency": 2}).fetch.concurrency == 2
    for mode, name in (("thresholds", "`control.robots`"), ("auto", "`control.modes`")):
        with pytest.raises(SettingsError, match=name):
            asked.override({"control.mode": mode, "fetch.concurrency": 2})


@given(st.lists(st.integers(1, 128), max_size=5).map(tuple))
def test_modes_are_written_and_read_as_lists(modes: tuple[int, ...]) -> None:
    asked = Settings().override({"control.modes": list(modes)})
    assert settings_file.parse(settings_file.render(asked)).control.modes == modes
    assert Settings().override({"control.modes": str(list(modes))}).control.modes == modes


@given(st.integers(1, 5000))
def test_candidates_are_few_and_end_with_full_concurrency(count: int) -> None:
    found = Settings().control.concurrency_choices(count)
    assert found[-1] == count
    assert found[0] >= 1
    assert len(found) <= 4
    assert sorted(set(found)) == list(found)


def test_override_reads_text_like_the_file() -> None:
    changed = Settings().override(
        {
            "politeness.delay": "250ms",
            "crawl.pages": "500",
            "crawl.max_depth": "none",
            "politeness.obey_robots_txt": "false",
            "scope.include_hosts": '["a.example", "b.example"]',
            "network.resolve": ("*.example=127.0.0.1:8000",),
            "limits.traps": False,
        }
    )
    assert changed.politeness.delay == 0.25
    assert changed.politeness.effective_address_delay == 0.25
    assert changed.crawl.pages == 500
    assert changed.crawl.max_depth is None
    assert changed.politeness.obey_robots_txt is False
    assert changed.scope.include_hosts == ("a.example", "b.example")
    assert changed.network.resolve == ("*.example=127.0.0.1:8000",)
    assert changed.limits.traps is False


@pytest.mark.parametrize(
    ("name", "word", "read"),
    [
        ("notify.feed", '"changes.atom"', "changes.atom"),
        ("notify.feed", "'changes.atom'", "changes.atom"),
        ("notify.feed", "changes.atom", "changes.atom"),
        ("crawl.contact", '"me\\u0040example.org"', "me@example.org"),
        ("network.ca_file", '"me" or "you"', '"me" or "you"'),  # no TOML: taken as it is
        ("network.ca_file", "'\"me\"'", '"me"'),
        ("crawl.contact", "2026", "2026"),
        ("crawl.contact", "true", "true"),
        ("crawl.contact", "", ""),
        ("crawl.contact", '""', ""),
        ("politeness.delay", '"2s"', 2.0),
        ("politeness.delay", "2s", 2.0),
        ("politeness.delay", "500/h", 7.2),
        ("limits.body", '"4MiB"', 4 << 20),
        ("scope.mode", '"host"', "host"),
        ("crawl.max_depth", '"none"', None),
        ("crawl.pages", "500", 500),
        ("politeness.obey_robots_txt", "false", False),
    ],
)
def test_command_line_text_may_be_toml_or_unquoted(name: str, word: str, read: object) -> None:
    section, _, key = name.partition(".")
    assert getattr(getattr(Settings().override({name: word}), section), key) == read


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("crawl.pages", '"500"'),
        ("crawl.pages", "5\nx = 1"),
        ("politeness.obey_robots_txt", '"yes"'),
        ("politeness.delay", "2"),
        ("notify.feed", '"a\\nb"'),
    ],
)
def test_command_line_text_of_the_wrong_kind_is_refused_with_a_hint(name: str, word: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings().override({name: word})
    assert f"`{name}` is" in str(refused.value)
    assert refused.value.hint.startswith("it must be")


@pytest.mark.parametrize("name", ["delay", "politeness", "politeness.dely", "nowhere.delay", ""])
def test_override_of_an_unknown_setting_is_an_error(name: str) -> None:
    with pytest.raises(SettingsError, match="there is no setting"):
        Settings().override({name: "1s"})


def test_an_unreadable_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        settings_file.load(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b"# caf\xe9")
    with pytest.raises(SettingsError, match="UTF-8"):
        settings_file.load(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("example.org", "something is missing"),
        ("example.org jquery p", "none of css, xpath and regex"),
        ("* css div[[", "no CSS selector"),
        ("* xpath //a[", "no XPath"),
        ("* xpath 1+1", "finds no elements"),
        ("* regex (", "not a regular expression"),
        ("*.example.org css p", "no host"),
        ("ftp://a css p", "no beginning of a URL"),
    ],
)
def test_an_invalid_noise_rule_is_refused_with_a_hint(rule: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as refused:
        parse(f"[noise]\nignore = [{rule!r}]")
    assert refused.value.hint
    good = parse('[noise]\nonly = ["Example.org xpath //p", "* css .a > b"]')
    assert parse(render(good)) == good

"""What happens in a meadow while it serves: pages change, appear, vanish and move."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import statistics
import time
from datetime import datetime
from email.utils import formatdate, parsedate_to_datetime
from itertools import islice, takewhile

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import UsageError
from fieldmouse.testing.meadow.meadow import Meadow
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.responder import MeadowRequest, MeadowResponse, has_false_lastmod, sitemap_paths
from fieldmouse.testing.meadow.serve import MeadowChange, page_changes_after
from fieldmouse.url import Host, Url, host_of, path_of
from meadowland import running_meadow

BEGAN = 1.7e9
HOUR = 3600.0
CALM = {"busy": 0.0, "server_error": 0.0, "traps": 0.0, "page_kb": 2.0, "links": 20, "compression": False}


def lively(**options: object) -> Meadow:
    usual = {"hosts": 12, "pages": 600, "began": BEGAN, "changing": 1.0, "change_every": HOUR, **CALM}
    return Meadow(MeadowOptions(**(usual | options)))  # type: ignore[arg-type]


def asked(meadow: Meadow, url: Url, at: float, etag: str = "", date: str = "") -> MeadowResponse:
    site = meadow.site_of_host(host_of(url))
    assert site is not None
    return meadow.responder.respond(site, MeadowRequest(path_of(url), "", etag, date), at)


def header(answer: MeadowResponse, name: str) -> str:
    found = re.search(rf"{name}: (.*)\r\n", answer.headers.decode())
    return found[1] if found else ""


def pages_of(meadow: Meadow) -> list[Url]:
    return [
        fact.url for fact in meadow.true_urls() if fact.status == 200 and meadow.page_version(fact.url, 0) is not None
    ]


def test_a_meadow_with_default_options_is_byte_for_byte_unchanged():
    """Old measurements and other people's seeds stay comparable: this number is older than lively meadows."""
    meadow = Meadow(MeadowOptions(hosts=10, pages=120, sitemaps=0.5, page_kb=3.0, links=30))
    digest = hashlib.sha256()
    for fact in meadow.true_urls():
        for at in (1e9, BEGAN, BEGAN + 5000):
            # the number is of the class's former name
            text = repr(asked(meadow, fact.url, at)).replace("MeadowResponse(", "MeadowAnswer(")
            digest.update(text.encode())
    assert digest.hexdigest() == "d32bf88b3da6bd8e70b435ad5f519cb40f291808264d984ad7dda57664d9ccdc"


@pytest.mark.parametrize("sigma", [0.0, 0.7, 2.0])
def test_rates_are_log_normal_about_the_median_that_was_asked_for(sigma):
    meadow = lively(pages=4000, change_sigma=sigma)
    logs = [math.log(meadow.change_rate(url) * HOUR) for url in pages_of(meadow)]
    assert statistics.median(logs) == pytest.approx(0.0, abs=0.15 * sigma + 1e-9)
    assert statistics.pstdev(logs) == pytest.approx(sigma, rel=0.05)


def test_an_impossible_spread_is_refused():
    with pytest.raises(UsageError, match="cannot be spread by 9"):
        MeadowOptions(change_sigma=9.0)


def test_predicted_versions_equal_later_versions():
    meadow = lively(change_sigma=1.5)
    for url in pages_of(meadow)[::20]:
        site = meadow.site_of_host(host_of(url))
        assert site is not None
        found = meadow._site_and_page(url)
        assert found is not None
        coming = meadow.responder.changes.versions_after(*found, BEGAN)
        soon = list(takewhile(lambda version: version.since <= BEGAN + 20 * HOUR, islice(coming, 10_000)))
        assert [version.since for version in soon] == meadow.change_times(url, BEGAN, BEGAN + 20 * HOUR)
        for version in soon:
            assert meadow.page_version(url, version.since) == version


def test_a_change_rewrites_a_paragraph_and_leaves_the_links():
    meadow = lively(rewriting=True)
    links = re.compile(r'href="([^"]*)"')
    told = 0
    for url in pages_of(meadow)[:60]:
        for moment in meadow.change_times(url, BEGAN, BEGAN + HOUR)[:1]:
            old, new = (asked(meadow, url, at).body.decode() for at in (moment - 1e-3, moment))
            assert links.findall(old) == links.findall(new)
            words = (set(re.findall(r"\w+", text)) for text in (old, new))
            told += len(next(words) ^ next(words)) > 20
    assert told > 20


def test_noise_differs_at_every_fetch_and_is_no_new_version():
    meadow = lively(noise=0.4, changing=0.0, duplicates=0.0)
    noisy = 0
    kinds = set()
    for url in pages_of(meadow):
        one, two = asked(meadow, url, BEGAN), asked(meadow, url, BEGAN + 1.0)
        if one.body == two.body:
            continue
        noisy += 1
        assert header(one, "ETag") == header(one, "Last-Modified") == ""
        first, second = one.body.decode().splitlines(), two.body.decode().splitlines()
        differing = [line for line, other in zip(first, second, strict=True) if line != other]
        assert len(differing) == 1
        kinds.add(differing[0][:18])
    assert noisy / len(pages_of(meadow)) == pytest.approx(0.4, abs=0.08)
    assert len(kinds) == 4


@given(st.integers(0, 500), st.floats(0, 1e5), st.floats(0, 3.0))
def test_an_outdated_validator_never_gets_304(k, start, wait):
    at = BEGAN + start
    url = RESTLESS_PAGES[k % len(RESTLESS_PAGES)]
    held = asked(RESTLESS, url, at)
    etag, date = header(held, "ETag"), header(held, "Last-Modified")
    same = RESTLESS.page_version(url, at) == RESTLESS.page_version(url, at + wait)
    if etag:
        assert (asked(RESTLESS, url, at + wait, etag=etag, date=date).status == 304) == same
    if date and asked(RESTLESS, url, at + wait, date=date).status == 304:
        assert same


RESTLESS = lively(change_every=2.0, pages=100)
RESTLESS_PAGES = pages_of(RESTLESS)


def test_a_date_in_seconds_is_good_enough_most_of_the_time():
    meadow = lively()
    dated = [url for url in pages_of(meadow) if header(asked(meadow, url, BEGAN), "Last-Modified")]
    known = [asked(meadow, url, BEGAN, date=header(asked(meadow, url, BEGAN), "Last-Modified")).status for url in dated]
    assert known.count(304) / len(known) > 0.99


LIVELY = {"appearing": 0.2, "vanishing": 0.3, "moving": 0.3, "staying": 5 * HOUR, "sitemaps": 1.0, "robots": 1.0}


def test_every_line_of_the_log_of_changes_is_true_at_its_time_and_was_not_before():
    meadow = lively(**LIVELY)
    before = meadow.true_urls()
    assert all(asked(meadow, fact.url, BEGAN - 1).status == fact.status for fact in before if fact.allowed), (
        "until it begins, a meadow is as its truth says"
    )
    kinds: dict[str, int] = {}
    for change in takewhile(lambda change: change.t < BEGAN + 10 * HOUR, page_changes_after(meadow, BEGAN)):
        kinds[change.kind] = kinds.get(change.kind, 0) + 1
        old, new = asked(meadow, change.url, change.t - 1e-4), asked(meadow, change.url, change.t + 1e-6)
        match change.kind:
            case "changed":
                assert (old.status, new.status) == (200, 200)
                assert old.body != new.body
                assert f"Revision {change.revision}." in new.body.decode()
            case "new":
                assert (old.status, new.status) == (404, 200)
            case "back":
                assert (old.status, new.status) == (404, 200)
                assert f"Revision {change.revision}." in new.body.decode()
            case "gone":
                assert old.status == 200
                assert new.status in (404, 410)
            case "moved":
                assert (old.status, new.status) == (200, 301)
                home = Url(host_of(change.url) + header(new, "Location"))
                assert f'rel="canonical" href="{home}"' in asked(meadow, home, change.t).body.decode()
    assert kinds.keys() == {"changed", "new", "back", "gone", "moved"}
    assert min(kinds.values()) > 20


def test_the_change_log_is_complete():
    meadow = lively(**LIVELY, change_sigma=1.0)
    end = BEGAN + 10 * HOUR
    told: dict[str, list[MeadowChange]] = {}
    times = []
    for change in takewhile(lambda change: change.t <= end, page_changes_after(meadow, BEGAN)):
        told.setdefault(change.url, []).append(change)
        times.append(change.t)
    assert times == sorted(times)
    for url in pages_of(meadow):
        mine = told.get(url, [])
        assert (asked(meadow, url, BEGAN).status != asked(meadow, url, end).status) <= bool(mine)
        if not [change for change in mine if change.kind != "changed"]:
            assert [change.t for change in mine] == meadow.change_times(url, BEGAN, end)


def test_a_sitemap_lists_present_pages_and_changed_pages_link_to_new_ones():
    meadow = lively(**LIVELY)
    end = BEGAN + 10 * HOUR
    there: dict[str, bool] = dict.fromkeys(pages_of(meadow), True)
    linked = 0
    for change in takewhile(lambda change: change.t <= end, page_changes_after(meadow, BEGAN)):
        if change.kind == "moved":
            home = host_of(change.url) + header(asked(meadow, change.url, change.t), "Location")
            there[home] = True
        there[change.url] = change.kind not in ("gone", "moved")
        if change.kind == "new":
            pages = [url for url in pages_of(meadow) if host_of(url) == host_of(change.url)]
            path = path_of(change.url).encode()
            linked += any(path in asked(meadow, url, end).body for url in pages)
    assert linked == sum(url.count("/stories/") for url in there)
    named = set()
    for site in meadow.plan.sites:
        for path in sitemap_paths(site):
            body = meadow.respond(Host(site.origin), path, end).body
            text = (gzip.decompress(body) if path.endswith(".gz") else body).decode()
            named |= {loc.replace("&amp;", "&") for loc in re.findall("<url><loc>(.*?)</loc>", text)}
    assert named == {url for url, is_there in there.items() if is_there}


def test_lastmod_is_true_on_honest_hosts_and_on_no_other():
    meadow = lively(hosts=40, sitemaps=1.0, robots=1.0, sitemap_lies=0.5)
    false = [site for site in meadow.plan.sites if has_false_lastmod(site, meadow.options)]
    assert len(false) == pytest.approx(20, abs=10)
    for site in meadow.plan.sites:
        honest = True
        for path in sitemap_paths(site):
            body = meadow.respond(Host(site.origin), path, BEGAN + 5 * HOUR).body
            text = (gzip.decompress(body) if path.endswith(".gz") else body).decode()
            for loc, date in re.findall("<loc>(.*?)</loc><lastmod>(.*?)</lastmod>", text):
                version = meadow.page_version(Url(loc.replace("&amp;", "&")), BEGAN + 5 * HOUR)
                assert version is not None
                since = msgspec.convert(date, type=datetime).timestamp()
                honest = honest and since == int(version.since)
        assert honest != has_false_lastmod(site, meadow.options)


def test_last_modified_is_true_on_honest_hosts_and_on_no_other():
    meadow, at = lively(hosts=60, date_lies=0.5), BEGAN + 5 * HOUR
    met = set()
    for url in pages_of(meadow):
        site, version, etag = meadow.site_of_host(host_of(url)), meadow.page_version(url, at), ""
        for ask_at in (at, at + 10.0):  # what is remembered must not be older than it says
            answer = asked(meadow, url, ask_at, etag)
            etag, date = header(answer, "ETag"), header(answer, "Last-Modified")
            assert bool(date) == bool(site.habits.validators)
            if date and version == meadow.page_version(url, ask_at):
                told = {"": int(version.since), "now": int(ask_at), "never": int(1e9)}[site.habits.date_lie]
                assert parsedate_to_datetime(date).timestamp() == told
                met.add((site.habits.date_lie, answer.status))
    assert met >= {(lie, status) for lie in ("", "now", "never") for status in (200, 304)}


def test_hosts_with_false_dates_ignore_if_modified_since():
    liars, honest = lively(hosts=60, date_lies=1.0), lively(hosts=60)
    at = BEGAN + 5 * HOUR
    for url in pages_of(liars):
        if liars.site_of_host(host_of(url)).habits.validators == 1:
            assert asked(liars, url, at, date=formatdate(at, usegmt=True)).status == 200
            assert asked(honest, url, at, date=formatdate(at, usegmt=True)).status == 304


def test_a_served_meadow_writes_its_changes_as_they_happen(tmp_path):
    log = tmp_path / "changes.jsonl"
    options = {"hosts": 3, "pages": 60, "changing": 1.0, "change_every": 2.0, "change_sigma": 1.0, **CALM}
    with running_meadow(changes=str(log), processes=2, **options) as running:
        while log.stat().st_size < 5_000:
            time.sleep(0.05)
        port = running.port
        running.stop()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {tuple(line) for line in lines} == {("t", "url", "revision")}
    began = lines[0]["t"] - 1e-6
    twin = page_changes_after(Meadow(MeadowOptions(port=port, began=began, **options)), began)  # type: ignore[arg-type]
    for line, change in zip(lines, twin, strict=False):
        assert line == {"t": change.t, "url": change.url, "revision": change.revision}

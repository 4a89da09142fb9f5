"""Tests of feeds: read for links in scope, limited per host, and only if enabled."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.parse.content import PageContent, read_page_content
from fieldmouse.parse.links import FEEDS_PER_HOST, LinkExtractor
from fieldmouse.policy.scope import Scope
from fieldmouse.types.outcome import Page
from fieldmouse.types.request import RequestKind
from fieldmouse.url import Url
from workers.responses import CONFIG, page

RSS = b"<rss><channel><item><link>/1</link></item><item><link>http://example.org/2</link></item></channel></rss>"
ATOM = b"<feed><entry><link href='/1'/></entry><entry><link href='/2'/></entry></feed>"
TYPE = "application/rss+xml"
ITEMS = ["http://example.org/1", "http://example.org/2"]


def read(asked: Page, config: PageProcessingConfig = CONFIG, links: LinkExtractor | None = None) -> PageContent:
    return read_page_content(asked.link, asked.response, config, links or LinkExtractor(config))


def named(*tags: str) -> bytes:
    return ("<head>" + "".join(tags) + "</head><p>words").encode()


def link(href: str, kind: str = TYPE, rel: str = "alternate") -> str:
    return f'<link rel="{rel}" type="{kind}" href="{href}">'


@pytest.mark.parametrize(
    "kind", [TYPE, "application/atom+xml", "Application/RSS+XML; charset=utf-8", "application/feed+json"]
)
@pytest.mark.parametrize("rel", ["alternate", "Alternate home", "alternate feed"])
def test_feed_named_by_a_page_is_requested_as_a_feed(kind: str, rel: str) -> None:
    found = read(page(body=named(link("/feed", kind, rel)), depth=2)).links
    assert [(one.url, one.kind, one.depth) for one in found] == [("http://example.org/feed", RequestKind.FEED, 3)]


@pytest.mark.parametrize(
    "tag",
    [
        link("/feed", rel="stylesheet"),
        link("/feed", rel="nofollow alternate"),
        link("/feed", "application/json"),
        link("/feed", "text/xml"),
        link("http://elsewhere.example/feed"),
        link("mailto:x"),
        link(""),
        "<link rel=alternate type=application/rss+xml>",
    ],
)
def test_other_links_are_not_feeds(tag: str) -> None:
    config = replace(CONFIG, scope=Scope.from_seeds([Url("http://example.org/")], mode="host"))
    assert [one for one in read(page(body=named(tag)), config).links if one.kind is RequestKind.FEED] == []


def test_feed_that_is_also_a_plain_link_is_requested_as_a_feed() -> None:
    found = read(page(body=named(link("/feed")) + b"<a href=/feed>feed</a><a href=/x>x</a>")).links
    assert [(one.url[18:], one.kind) for one in found] == [("/feed", RequestKind.FEED), ("/x", RequestKind.PAGE)]


@pytest.mark.parametrize("body", [RSS, ATOM], ids=["RSS", "Atom"])
@pytest.mark.parametrize("mime", [TYPE, "application/xml", "text/xml", "text/html; charset=utf-8", "", "text/plain"])
def test_pages_of_a_feed_are_one_link_deeper(body: bytes, mime: str) -> None:
    feed = read(page("http://example.org/feed", body, kind=RequestKind.FEED, depth=3, mime=mime))
    assert [one.url for one in feed.links] == ITEMS
    assert {(one.kind, one.depth, one.via) for one in feed.links} == {(RequestKind.PAGE, 4, "http://example.org/feed")}


def test_documents_are_read_by_their_actual_type_feed_or_page() -> None:
    assert [one.url for one in read(page("http://example.org/f", RSS, mime=TYPE)).links] == ITEMS
    html = read(page("http://example.org/f", b"<title>x</title><a href=/1>", kind=RequestKind.FEED))
    assert (html.document.title, [one.url for one in html.links]) == ("x", ITEMS[:1])


def test_feeds_can_be_turned_off() -> None:
    config = replace(CONFIG, feeds=False)
    assert read(page(body=named(link("/feed"))), config).links == []
    assert read(page("http://example.org/feed", RSS, kind=RequestKind.FEED, mime=TYPE), config).links == []


@pytest.mark.parametrize("words", ["nofollow", "none", "fieldmouse: nofollow"])
def test_nofollow_of_pages_and_feeds_is_respected(words: str) -> None:
    assert read(page(body=named(link("/feed")), x_robots_tag=words)).links == []
    assert read(page("http://example.org/feed", RSS, kind=RequestKind.FEED, mime=TYPE, x_robots_tag=words)).links == []


def test_seeds_only_crawl_requests_no_feeds() -> None:
    config = replace(CONFIG, scope=Scope(max_depth=0))
    assert read(page(body=named(link("/feed"))), config).links == []


def test_number_of_feeds_per_host_is_limited() -> None:
    links, found = LinkExtractor(CONFIG), []
    for post in range(50):
        tags = [link("/feed"), link(f"/{post}/feed"), link(f"http://other-{post}.example/feed")]
        found += read(page(f"http://example.org/{post}", named(*tags)), links=links).links
    ours = [one.url for one in found if one.url.startswith("http://example.org/")]
    assert len(ours) == len(set(ours)) == FEEDS_PER_HOST
    assert len(found) == FEEDS_PER_HOST + 50


def test_links_of_a_broken_feed_are_kept_and_its_error_reported() -> None:
    feed = read(page("http://example.org/feed", RSS[:60], kind=RequestKind.FEED, mime=TYPE))
    assert [one.url for one in feed.links] == ITEMS[:1]
    assert feed.detail == "feed left after 1 URLs: the file ends early"


def test_redirect_of_a_feed_stays_a_feed() -> None:
    feed = page("http://example.org/feed", kind=RequestKind.FEED).link
    (moved,) = LinkExtractor(CONFIG).redirect_link(feed, Url("http://example.org/feed/"), 0.0)
    assert moved.kind is RequestKind.FEED

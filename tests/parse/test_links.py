"""Tests of link resolution: equal to the URL parser, without missing a link."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fieldmouse.config.rules_from_settings import PageProcessingConfig
from fieldmouse.parse.links import _ANYWHERE, BaseDirectory, LinkExtractor, is_cacheable, join_plain_href
from fieldmouse.policy.scope import Scope
from fieldmouse.types.request import Request, RequestKind
from fieldmouse.url import Url, host_of, parse, resolve

NOW = 1_800_000_000.0
BASES = [
    Url("http://example.org/"),
    Url("http://example.org/a/b/c.html?q=1"),
    Url("https://example.org:8443/a/b/"),
    Url("http://127.0.0.1:8000/x/y?z=/w/"),
    Url("http://[::1]:81/deep/er/and/deeper"),
]
WORDS = r"""
/ // .. . ../ ./ ? # %2e %2E % %41 : @ \ a b.html A é http: https: HTTP: HTTP:// http:// https://
example.org 127.0.0.1 :80 :443 :8000 0x7f 1 xn-- &x=1 ; = ~ | < " ' ` { ^ $ * + mailto:x javascript:
[ ] , ! ( _ - HTTP http Http HTTPS mailto MAILTO:x tel:1 tel javascript example.org. example.org.:80
~u x.html
"""
PIECES = [*WORDS.split(), " ", "\t", "\n", "\x00", "\x7f"]
hrefs = st.lists(st.sampled_from(PIECES), max_size=9).map("".join) | st.text(max_size=20)


def origin_of(origin: str) -> str | None:
    root = resolve(origin + "/")
    return None if root is None else root[:-1]


@settings(max_examples=1500)
@given(st.sampled_from(BASES), hrefs)
@example(BASES[1], "/.?")
@example(BASES[1], "/..?x")
@example(BASES[1], "../../../../x")
@example(BASES[1], "a:b")
@example(BASES[1], "a.:/b")
@example(BASES[1], "/.%2e/x")
@example(BASES[1], "/%2e./x")
@example(BASES[0], "http://1/")
@example(BASES[0], "//EXAMPLE.org:80/x")
def test_fast_link_resolution_equals_the_url_parser(base: Url, href: str) -> None:
    by_hand = join_plain_href(href, BaseDirectory(base), origin_of)
    if by_hand is not None:
        assert by_hand == resolve(href, base)


@settings(max_examples=1500)
@given(st.sampled_from(BASES), hrefs)
@example(BASES[1], "HTTPS-guide.html")
@example(BASES[1], "_x")
@example(BASES[1], "~user/")
def test_every_plain_href_is_cacheable(base: Url, href: str) -> None:
    if join_plain_href(href, BaseDirectory(base), origin_of) is not None:
        assert is_cacheable(href)


@settings(max_examples=1000)
@given(hrefs, st.sampled_from(["p", "q.html", "q.html?a=/b/", ""]))
def test_cacheable_href_resolves_equally_in_its_whole_directory(href: str, leaf: str) -> None:
    if is_cacheable(href):
        ground = "http://example.org/a/b/"
        assert resolve(href, ground + "c.html?q=1") == resolve(href, ground + leaf)
        if href.startswith("/"):
            assert resolve(href, ground) == resolve(href, "http://example.org/other?x")
        if href.startswith(_ANYWHERE):
            assert resolve(href, ground) == resolve(href, "https://elsewhere.example/z")


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(BASES), st.lists(hrefs, max_size=8)), max_size=8))
@example([(BASES[0], ["HTTP.html"]), (BASES[1], ["HTTP.html"])])
@example([(BASES[2], ["HTTPS-a", "http-b", "Http"]), (BASES[3], ["HTTPS-a", "http-b", "Http"])])
def test_every_link_of_every_page_is_returned(pages: list[tuple[Url, list[str]]]) -> None:
    links = LinkExtractor(PageProcessingConfig(key_seed=3, scope=Scope()))
    told: set[str] = set()
    meant: set[str] = set()
    for base, found in pages:
        told |= {link.url for link in links.new_links_of_page(Request(base), base, found, NOW)}
        meant |= {url for href in found if not href.startswith("#") and (url := resolve(href, base))}
    assert told == meant


def test_link_is_returned_once() -> None:
    links = LinkExtractor(PageProcessingConfig(scope=Scope()))
    here = Url("http://example.org/a/")
    assert len(links.new_links_of_page(Request(here), here, ["b", "./b", "/a/b", "b#x", "//example.org/a/b"], NOW)) == 1
    assert links.new_links_of_page(Request(here), here, ["b", "http://example.org/a/b"], NOW) == []


def test_links_out_of_scope_or_too_deep_are_dropped() -> None:
    scope = Scope.from_seeds([Url("http://example.org/")], "host", max_depth=2)
    links = LinkExtractor(PageProcessingConfig(scope=scope))
    here = Url("http://example.org/")
    found = links.new_links_of_page(
        Request(here, depth=1), here, ["/in", "http://other.org/out", "//sub.example.org/"], NOW
    )
    assert [link.url for link in found] == ["http://example.org/in"]
    assert found[0].depth == 2
    assert links.new_links_of_page(Request(here, depth=2), here, ["/deeper"], NOW) == []
    # A link refused for its depth may still be found from a shallower page.
    assert len(links.new_links_of_page(Request(here, depth=0), here, ["/deeper"], NOW)) == 1


def test_redirect_keeps_its_depth_and_counts_redirects() -> None:
    links = LinkExtractor(PageProcessingConfig(scope=Scope.from_seeds([Url("http://example.org/")])))
    page = Request(Url("http://example.org/a"), depth=3, redirects=1)
    (link,) = links.redirect_link(page, Url("http://www.example.org/b"), NOW)
    assert (link.depth, link.redirects, link.kind, link.via) == (3, 2, RequestKind.REDIRECT, page.url)
    assert link.trail == (page.url,)
    (further,) = links.redirect_link(link, Url("http://www.example.org/c"), NOW)
    assert further.trail == (page.url, link.url)
    assert links.redirect_link(page, Url("http://elsewhere.net/"), NOW) == []


def test_endless_chain_of_sitemaps_is_cut() -> None:
    links = LinkExtractor(PageProcessingConfig())
    sitemap, followed = Request(Url("http://example.org/0.xml"), kind=RequestKind.SITEMAP), 0
    while found := links.listed_links(
        sitemap, [Url(f"http://example.org/{followed + 1}.xml")], RequestKind.SITEMAP, NOW
    ):
        (sitemap,) = found
        followed += 1
        assert followed < 10
    assert followed >= 2  # an index of an index is tolerated
    (page,) = links.listed_links(sitemap, [Url("http://example.org/page")], RequestKind.PAGE, NOW)
    assert page.depth == 1


def test_seeds_only_crawl_takes_no_links_from_sitemaps() -> None:
    links = LinkExtractor(PageProcessingConfig(scope=Scope.from_seeds([Url("http://example.org/")], max_depth=0)))
    sitemap = Request(Url("http://example.org/sitemap.xml"), kind=RequestKind.SITEMAP)
    assert links.listed_links(sitemap, [Url("http://example.org/page")], RequestKind.PAGE, NOW) == []


def test_session_ids_are_removed_and_traps_dropped() -> None:
    links = LinkExtractor(PageProcessingConfig(scope=Scope()))
    here = Url("http://example.org/")
    found = links.new_links_of_page(
        Request(here), here, ["/a;jsessionid=0123456789ABC", "/x/x/x/x/", "/y?PHPSESSID=1"], NOW
    )
    assert [link.url for link in found] == ["http://example.org/a", "http://example.org/y"]


def test_every_base_directory_belongs_to_its_host() -> None:
    for base in BASES:
        ground = BaseDirectory(base)
        assert ground.origin == host_of(base)
        assert parse(ground.origin + ground.directory) == resolve("", ground.origin + ground.directory)


def test_each_href_resolves_on_every_page_as_the_url_parser_does() -> None:
    """All short hrefs of a few letters, on all pages, in an order that would expose a wrong cache."""
    starts = ["", "HTTP", "http", "https", "Https", "mailto", "javascript", "tel", "data", "_", "-", "~", ".", ".."]
    starts += [
        "HTTP:",
        "http:",
        "https:/",
        "http://",
        "HTTPS://",
        "mailto:",
        "tel:",
        "/",
        "//",
        "\\\\",
        "?",
        "a:",
        "%2e",
    ]
    ends = ["", "a", "x.html", "/a", "//a", ":", ":80", "?q", "#f", "example.org/", "example.org./", " ", "\t", "b:c"]
    every = [start + end for start in starts for end in ends]
    places = [*BASES, Url("http://example.org/a/other/"), Url("https://example.org/a/b/c.html")]
    for shift in range(len(places)):
        links = LinkExtractor(PageProcessingConfig(key_seed=3, scope=Scope()))
        for base in places[shift:] + places[:shift]:
            found = {link.url for href in every for link in links.new_links_of_page(Request(base), base, [href], NOW)}
            missed = {resolve(href, base) for href in every if not href.startswith("#")} - {None} - found
            assert all(links.new_links_of_page(Request(base), base, [url], NOW) == [] for url in missed if url)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("http://example.org./", "http://example.org/"),
        ("http://EXAMPLE.org.:80/a.?b.#c.", "http://example.org/a.?b."),
        ("https://example.org.:8443", "https://example.org:8443/"),
        ("http://user:x@www.example.org./", "http://www.example.org/"),
        ("http://example.org%2e/", "http://example.org/"),
        ("http://example.org\u3002/", "http://example.org/"),
        ("http://127.0.0.1./", "http://127.0.0.1/"),
        ("http://localhost./", "http://localhost/"),
        ("http://[::1]:81/a./", "http://[::1]:81/a./"),
        ("http://example.org/x.:y./", "http://example.org/x.:y./"),
        ("http://example.org../", "http://example.org../"),
        ("http://./", "http://./"),
    ],
)
def test_trailing_dot_does_not_make_another_host(written: str, meant: str) -> None:
    assert parse(written) == meant
    assert resolve(meant) == meant
    links = LinkExtractor(PageProcessingConfig(scope=Scope()))
    here = Url("http://start.example/")
    assert [link.url for link in links.new_links_of_page(Request(here), here, [written, meant], NOW)] == [meant]

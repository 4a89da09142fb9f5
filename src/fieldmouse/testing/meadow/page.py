"""Rendering of the synthetic web's pages: markup, text and about a hundred links, mostly from precompressed
pieces.

Deflate streams that end on a byte boundary can be concatenated, so a page of 30 KB consists of pieces
that are stored in both forms, and only the page's individual parts are compressed on request. Head, menu
and footer are the same on all pages of a host. Paragraphs come from a pool by topic. Some links come in
blocks that several pages of a host share, like side bars; others are individual, in all the forms that
people write. The links that keep the meadow connected (a page's children, a root's hosts) are always
individual. Noise (counters, times of day, tokens) differs at every fetch but is not a change.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from isal import isal_zlib

from fieldmouse.testing.meadow import rng
from fieldmouse.testing.meadow.changes import PageVersion
from fieldmouse.testing.meadow.options import MeadowOptions
from fieldmouse.testing.meadow.paths import PageTraits, SpecialPath, child_pages, path_of, special_path
from fieldmouse.testing.meadow.plan import MeadowPlan, Site
from fieldmouse.testing.meadow.rng import lognormal_quantiles, random_threshold, random_words
from fieldmouse.testing.meadow.words import ALL_TOPIC_WORDS, NAMES, TOPIC_WORDS, paragraphs


def render_noise(options: MeadowOptions, site: Site, page: int, at: float) -> str:
    """Markup with the page's noise; "" on a page without noise."""
    if not options.noise:
        return ""
    dice = random_words(options.seed, "noise", site.number, page)
    if dice[0] >= random_threshold(options.noise):
        return ""
    token = random_words(options.seed, "token", site.number, page, repr(at))
    match dice[1] % 4:
        case 0:
            return f'<p class="counter">You are visitor number {int(at * 100) - 10**11:,} of this page.</p>\n'
        case 1:
            now = time.strftime("%A, %d %B %Y, %H:%M:%S", time.gmtime(at))
            return f'<p class="clock">It is {now} and {token[0] % 1000} milliseconds.</p>\n'
        case 2:
            return f'<p class="served">Made in {token[0] % 900 + 100} us by node {token[1]:08x}.</p>\n'
        case _:
            value = "".join(f"{face:08x}" for face in token[:4])
            return f'<form method="post"><input type="hidden" name="token" value="{value}"></form>\n'


_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK = b"\x03\x00"
_STORED = struct.Struct("<BHH")
_TRAILER = struct.Struct("<II")


class CompressedPiece(NamedTuple):
    plain: bytes
    # raw, without a last block, ending on a byte boundary, without references to earlier data
    deflated: bytes


def compress_well(text: str) -> CompressedPiece:
    """Make a piece for all hosts; compressed well, because it is made once."""
    return _deflate(text, zlib.compressobj(6, zlib.DEFLATED, -15))


def compress_fast(text: str) -> CompressedPiece:
    """Make a piece for one page or one host; compressed fast, because a client is waiting."""
    return _deflate(text, isal_zlib.compressobj(0, isal_zlib.DEFLATED, -15))


def _deflate(text: str, deflater: Any) -> CompressedPiece:
    plain = text.encode()
    return CompressedPiece(plain, deflater.compress(plain) + deflater.flush(zlib.Z_FULL_FLUSH))


def store_uncompressed(text: str) -> CompressedPiece:
    """Make a piece too short to be worth compressing; at most 64 KB."""
    plain = text.encode()
    return CompressedPiece(plain, _STORED.pack(0, len(plain), len(plain) ^ 0xFFFF) + plain)


def gzip_member(pieces: list[CompressedPiece]) -> bytes:
    """Gzip member of all pieces concatenated.

    >>> import gzip
    >>> gzip.decompress(gzip_member([compress_well("field"), compress_fast("mou"), store_uncompressed("se")]))
    b'fieldmouse'
    """
    plain = join_plain(pieces)
    trailer = _TRAILER.pack(isal_zlib.crc32(plain), len(plain) & 0xFFFFFFFF)
    return b"".join((_GZIP_HEAD, *[piece[1] for piece in pieces], _LAST_BLOCK, trailer))


def join_plain(pieces: list[CompressedPiece]) -> bytes:
    return b"".join([piece[0] for piece in pieces])


_SMALLEST = 512
_CLASSES = 8  # each twice as large as the previous one
_VARIANTS = 8


class FillerPieces:
    """Precompressed fillers in doubling sizes, so that any gap needs few of them."""

    def __init__(self, seed: int):
        self._classes = [
            [_make_filler(seed, _SMALLEST << size, variant) for variant in range(_VARIANTS)] for size in range(_CLASSES)
        ]

    def pieces_of_size(self, missing: int, choice: int) -> list[CompressedPiece]:
        """Return pieces of about `missing` bytes in total; none if that is less than the smallest piece."""
        taken = []
        while missing >= _SMALLEST:
            size = min((missing // _SMALLEST).bit_length(), _CLASSES) - 1
            piece = self._classes[size][choice % _VARIANTS]
            choice >>= 3
            taken.append(piece)
            missing -= len(piece.plain)
        return taken


def _make_filler(seed: int, size: int, variant: int) -> CompressedPiece:
    cells: list[str] = []
    length = 0
    while length < size - 60:
        for face in random_words(seed, "filler", size, variant, len(cells)):
            cells.append(f'"{ALL_TOPIC_WORDS[face % len(ALL_TOPIC_WORDS)]}":{{"id":{face >> 12},"on":{face & 3}}}')
            length += len(cells[-1]) + 1
            if length >= size - 60:
                break
    return compress_well(f'<script type="application/json">{{{",".join(cells)}}}</script>\n')


_PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


class PageFrame:
    """Pieces around a page, compressed once per host."""

    def __init__(self, plan: MeadowPlan, site: Site):
        options = plan.options
        dice = random_words(options.seed, "shell", site.number)
        language = ("en", "en-GB", "en-US")[dice[0] % 3]
        name = ALL_TOPIC_WORDS[dice[1] % len(ALL_TOPIC_WORDS)].capitalize()
        self.top = compress_fast(
            f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'
            f"<style>\n{_lines_of_size(int(options.page_kb * 100), dice[2], 7919, _style_rule)}</style>\n"
            f"<script>\n{_lines_of_size(int(options.page_kb * 60), dice[3], 104729, _script_line)}</script>\n"
        )
        menu = range(min(site.original, max(2, min(20, options.links // 5))))
        entries = "".join(
            f'<li class="menu-item depth-1"><a href="{path_of(site, k).replace("&", "&amp;")}">'
            f"{ALL_TOPIC_WORDS[(dice[4] + k) % len(ALL_TOPIC_WORDS)]}</a></li>\n"
            for k in menu
        )
        middle = path_of(site, site.original // 2).replace("&", "&amp;")
        self.nav = compress_fast(
            f'<body class="host-{site.number}">\n<a class="skip" href="#content">skip to content</a>\n'
            f'<header><div class="brand"><img src="{_PIXEL}" alt="{name}"> {name}</div></header>\n'
            f'<nav aria-label="main"><ul class="menu">\n{entries}</ul></nav>\n'
            f'<map name="parts"><area shape="rect" coords="0,0,1,1" href="{middle}" alt="middle"></map>\n'
            '<!-- <a href="/gone/commented-out.html">an old link</a> -->\n<div id="content">\n'
        )
        # Every page links to the first host, so a crawl finds all pages from any start.
        self.footer = compress_fast(
            "</article></main></div>\n<footer><p>Made of clover. "
            '<a href="mailto:mouse@meadow.test">Write to us</a>, '
            '<a href="javascript:void(0)">share</a>, <a href="tel:+0000">call</a> or '
            f'<a href="/">start again</a>. A '
            f'<a href="{plan.sites[0].origin}/">neighbour</a> of many.</p></footer>\n'
            "</body>\n</html>\n"
        )
        self.links = len(menu) + 3


def _lines_of_size(size: int, salt: int, step: int, line: Callable[[str, int, int], str]) -> str:
    """Join lines until they have `size` letters. A line is made from a word, its number, and a random number."""
    text = ""
    number = 0
    while len(text) < size:
        k = salt + number * step
        text += line(ALL_TOPIC_WORDS[k % len(ALL_TOPIC_WORDS)], number, k)
        number += 1
    return text


def _style_rule(word: str, number: int, k: int) -> str:
    return (
        f".{word}-{number}>.item{{margin:{k % 13}px {k % 7}px;color:#{k * 40503 & 0xFFFFFF:06x};"
        f"font:{k % 9 + 9}px/1.{k % 8} sans-serif}}\n"
    )


def _script_line(word: str, number: int, k: int) -> str:
    return f'window.{word}{number}=function(a){{return a<{k % 97}?"<b href=/no>"+a:a*{k % 1009}}};\n'


_BLOCK = 16  # links in a shared block
_SINGLES = 16  # individual links, beside those that keep the meadow connected
_FOREIGN_BLOCKS = 1024
_ITEM = '<li class="item"><a class="entry link" href="%s">%s</a></li>\n'
_BUNDLES = 64  # of paragraphs, for each topic


class PageRenderer:
    """Page renderer, one per process. Its caches grow with the number of visited hosts, within bounds."""

    def __init__(self, plan: MeadowPlan):
        options = plan.options
        self.plan = plan
        self.traits = PageTraits(options)
        self._links = options.links
        self._bytes = options.page_kb * 1024
        self._paragraphs = paragraphs(options.seed)
        self._text = [_articles_of_topic(topic, k) for k, topic in enumerate(self._paragraphs)]
        self._rewriting = options.rewriting
        self._fillers = FillerPieces(options.seed)
        self._shells: dict[int, PageFrame] = {}
        self._blocks: dict[tuple[int, int], CompressedPiece] = {}
        self._hrefs: list[list[str]] = [[] for _ in plan.sites]  # absolute, by host and page; "" until first used
        self._sizes = lognormal_quantiles(0.45)
        self._counts = lognormal_quantiles(0.35)
        self._popular = plan.popular_sites
        self._anchors = _anchor_texts(options.seed)

    def render(
        self, site: Site, page: int, dice: list[int], version: PageVersion, noise: str, story: bool, moved: bool
    ) -> list[CompressedPiece]:
        """Render an original page as pieces. `dice` are the page's random numbers; with `moved` the page is
        at its new URL."""
        shell = self._shells.get(site.number)
        if shell is None:
            shell = self._shells[site.number] = PageFrame(self.plan, site)
        topic = dice[13] % len(NAMES)
        words = TOPIC_WORDS[topic]
        first, second = words[dice[14] % len(words)], words[(dice[14] >> 8) % len(words)]
        title = f"{first.capitalize()} and {second}: {NAMES[topic]} {site.number}-{page}"
        wanted = int(self._links * self._counts[dice[10] & 1023]) - shell.links
        own = self._individual_links(site, page, dice, wanted)
        if story:
            own.append(self._link_item(special_path(SpecialPath.STORY, page), page))
        home = site.origin + special_path(SpecialPath.HOME, page) if moved else self._absolute_url(site, page)
        pieces = [
            shell.top,
            store_uncompressed(
                f'<title>{title}</title>\n<meta name="description" content="{first}, {second} and other '
                f'{NAMES[topic]}: page {page} of {site.authority}">\n<link rel="canonical" '
                f'href="{home}">\n{self._robots_meta_tag(site, page, dice)}</head>\n'
            ),
            shell.nav,
            compress_fast(
                f"<main><article><h1>{title}</h1>\n<p class=lead>All that is known of {first}, {second} and "
                f"{words[(dice[14] >> 16) % len(words)]}. Revision {version.number}.</p>\n{noise}"
                f"{self._rewritten_paragraph(site, page, topic, version)}"
                f'<ul class="related">\n{"".join(own)}</ul>\n'
            ),
            self._text[topic][dice[15] % _BUNDLES],
        ]
        x = dice[15]
        for k in range((wanted - len(own) + _BLOCK // 2) // _BLOCK):
            x = (x * rng.MULTIPLIER + 1) & rng.MASK
            pieces.append(self._shared_link_block(site, x >> 40, own=k % 3 != 2))
        missing = int(self._bytes * self._sizes[dice[15] >> 8 & 1023]) - sum([len(piece[0]) for piece in pieces])
        pieces += self._fillers.pieces_of_size(missing - len(shell.footer[0]), x >> 24)
        pieces.append(shell.footer)
        return pieces

    def _rewritten_paragraph(self, site: Site, page: int, topic: int, version: PageVersion) -> str:
        """The paragraph that a change rewrites; "" if a change only alters the revision number."""
        if not self._rewriting:
            return ""
        texts, words = self._paragraphs[topic], TOPIC_WORDS[topic]
        face, *faces = random_words(self.plan.options.seed, "latest", site.number, page, version.number)
        # A text may recur by chance; the words after it make every version different.
        last = " ".join(words[other % len(words)] for other in faces[:10])
        return f"<p>{texts[face % len(texts)]} Of late {last}.</p>\n"

    def _individual_links(self, site: Site, page: int, dice: list[int], wanted: int) -> list[str]:
        """Links that only this page has, as list items."""
        anchors, popular = self._anchors, self._popular
        items = [
            self._link_item(self._link_in_varied_form(site, child, child + page), child)
            for child in child_pages(site, page)
        ]
        if page == 0:
            sites = self.plan.sites
            items += [self._link_item(f"{sites[k].origin}/", k) for k in site.links_to_sites]
        else:
            step = len(site.sections)
            for near in (page - step, page + step):
                if 0 < near < site.original and near % 97 != 5 and page % 97 != 5:  # in the same directory
                    items.append(self._link_item(self._absolute_url(site, near).rpartition("/")[2], near))
        for nook in self.traits.special_links(site, page, dice):
            items.append(self._special_link_item(site, page, nook, dice))
        singles = max(0, min(_SINGLES, wanted - len(items)))
        faces = rng.salted_random_words(site.salt, -1 - page)
        own, hrefs = site.linked, self._hrefs
        half = singles // 2 if own > 4 else 0
        for face in faces[:half]:
            href = self._link_in_varied_form(site, face % own, face >> 5)
            items.append(_ITEM % (href, anchors[face >> 9 & 1023]))
        for face in faces[half:singles]:
            other = popular[face & 4095]
            at = (face >> 12) % other.linked
            made = hrefs[other.number]
            items.append(_ITEM % ((made and made[at]) or self._absolute_url(other, at), anchors[face >> 9 & 1023]))
        return items

    def _link_item(self, href: str, number: int) -> str:
        return _ITEM % (href, self._anchors[number & 1023])

    def _special_link_item(self, site: Site, page: int, nook: SpecialPath, dice: list[int]) -> str:
        if nook is SpecialPath.SESSION:
            return self._link_item(f"{path_of(site, page)}?sid={dice[9]:08x}", page)
        if nook is SpecialPath.CALENDAR:
            return self._link_item(special_path(nook, 0), page)
        if nook is SpecialPath.PARTNER:
            return f'<li><a rel="sponsored nofollow" href="{special_path(nook, page)}">our partner</a></li>\n'
        return self._link_item(special_path(nook, page), page)

    def _robots_meta_tag(self, site: Site, page: int, dice: list[int]) -> str:
        # Half of the nofollow pages say so in a header instead; see `Responder`.
        words = ["nofollow"] if self.traits.is_nofollow(site, page, dice) and dice[6] & 1 else []
        if dice[7] < self.traits.noindex:
            words.append("noindex")
        return f'<meta name="robots" content="{",".join(words)}">\n' if words else ""

    def _shared_link_block(self, site: Site, number: int, own: bool) -> CompressedPiece:
        """One of a limited number of shared link lists: of this host's pages, or of all hosts' pages."""
        if own and site.linked > 4:
            key = (site.number, number % (1 + min(63, site.size // _BLOCK)))
        else:
            key = (-1, number % _FOREIGN_BLOCKS)
        if key not in self._blocks:
            self._blocks[key] = self._make_shared_link_block(*key)
        return self._blocks[key]

    def _make_shared_link_block(self, host: int, number: int) -> CompressedPiece:
        items = []
        for face in random_words(self.plan.options.seed, "block", host, number)[:_BLOCK]:
            if host >= 0:
                site = self.plan.sites[host]
                items.append(self._link_item(self._link_in_varied_form(site, face % site.linked, face >> 5), face))
            else:
                other = self._popular[face & 4095]
                items.append(self._link_item(self._absolute_url(other, (face >> 12) % other.linked), face >> 3))
        return compress_fast('<aside><ul class="side">\n' + "".join(items) + "</ul></aside>\n")

    def _absolute_url(self, site: Site, page: int) -> str:
        """Absolute URL of a page, escaped for an attribute; cached, because many links use it."""
        hrefs = self._hrefs[site.number]
        if not hrefs:
            hrefs += [""] * site.size
        href = hrefs[page]
        if not href:
            href = hrefs[page] = f"http://{site.authority}{path_of(site, page)}".replace("&", "&amp;")
        return href

    def _link_in_varied_form(self, site: Site, page: int, form: int) -> str:
        """Link to a page of the same host, in one of the forms people write."""
        href = self._absolute_url(site, page)
        start = site.path_start
        if page & 63 == 9 and form & 8:
            href = href.replace("%C3%A9%20", "é ")
        form &= 7
        if form < 3:
            return href[start:]
        if form == 3:
            return f"..{href[start:]}"
        if form == 4:
            return f"{href[start:]}#part-{page % 7}"
        if form == 5:
            return href[5:]
        if form == 6 or page & 31:  # unusual forms are rare
            return href
        return f"HTTP{href[4:start]}/./x/..{href[start:]}#top"


def _articles_of_topic(texts: list[str], topic: int) -> list[CompressedPiece]:
    """Articles for pages of one topic, with two to five of its paragraphs each."""
    made = []
    for k in range(_BUNDLES):
        r = random_words("bundle", topic, k)
        chosen = [texts[face % len(texts)] for face in r[1 : 3 + r[0] % 4]]
        made.append(compress_well("".join(f"<p>{text}</p>\n" for text in chosen)))
    return made


def _anchor_texts(seed: int) -> list[str]:
    made = []
    for k in range(1024):
        r = random_words(seed, "anchor", k)
        words = TOPIC_WORDS[r[0] % len(TOPIC_WORDS)]
        made.append(f"{words[r[1] % len(words)]} {words[r[2] % len(words)]} {words[r[3] % len(words)]}")
    return made

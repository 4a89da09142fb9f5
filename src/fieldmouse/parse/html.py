"""HTML parser: title, text, language, robots rules and raw hrefs of a page, in one parse.

lexbor builds the tree that a browser would; everything is read from that tree. Scripts are not run, so the
content of `<noscript>` counts. Robots rules come from `<meta name=robots>`, from a meta with the crawler's
name, and from X-Robots-Tag; they add up.

Words are split as a reader sees them: an inline tag inside a word does not split it, a block does. So
inline elements are removed from the tree, which joins the text around them; every remaining boundary
between two texts becomes a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from fieldmouse.parse.charset import encode_query
from fieldmouse.parse.html_parse_cost import limit_parse_cost
from fieldmouse.url import Url, resolve

DEFAULT_ROBOT_NAME = "fieldmouse"  # the name under which pages address the crawler, unless configured otherwise
MAX_TITLE = 300  # characters kept of a title
MAX_TEXT = 1 << 20  # characters kept of a text
MAX_TITLE_TAGS, MAX_ANCESTORS = 100, 64  # title elements examined; ancestors of each that are checked for svg

WITHOUT_EVENTS = int(LexborDocumentOptions.WO_EVENTS)  # no handler for changes of the tree
FEED_TYPES = frozenset(("application/rss+xml", "application/atom+xml", "application/feed+json"))
_FOLLOWED = frozenset(("canonical", "alternate", "next", "prev"))
_SPACE = "\t\n\f\r "
_delayed = re.compile(rf"[{_SPACE}]*+(?:[0-9]++|(?=\.))[0-9.]*+(?=[;,{_SPACE}])[{_SPACE}]*+[;,]?+[{_SPACE}]*+").match
_separators = re.compile(r"[\s,;]+").split
_robot_name = re.compile(r"[a-z_-][a-z0-9_.-]*").fullmatch
_named = re.compile(rf"[uU][rR][lL][{_SPACE}]*+=[{_SPACE}]*+").match
# Directives of X-Robots-Tag with a value after a colon; any other name before a colon is a crawler's.
_DIRECTIVES_WITH_VALUE = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))


class RobotsDirectives(msgspec.Struct):
    """Robots rules of a page."""

    nofollow: bool = False
    noindex: bool = False

    def add_directives(self, directives: str) -> None:
        # Google splits at commas only. Pages also use blanks and semicolons with the same meaning.
        words = set(_separators(directives.lower()))
        self.nofollow |= not words.isdisjoint(("none", "nofollow"))
        self.noindex |= not words.isdisjoint(("none", "noindex"))


class Document(msgspec.Struct):
    """A parsed page."""

    title: str = ""
    text: str = ""
    language: str = ""
    canonical: str = ""
    base: str = ""  # URL that relative hrefs resolve against
    hrefs: list[str] = msgspec.field(default_factory=list)  # hrefs to follow, as written
    feeds: list[str] = msgspec.field(default_factory=list)  # hrefs of the feeds that it declares
    anchors: int = 0  # links on the page, followed or not
    rules: RobotsDirectives = msgspec.field(default_factory=RobotsDirectives)
    parse_error: str = ""  # why a part of it was not read
    charset: str = ""  # of its text
    pages: list[Url] = msgspec.field(default_factory=list)  # URLs that a sitemap or feed lists
    sitemaps: list[Url] = msgspec.field(default_factory=list)
    plugin_error: str = ""  # error of a plug-in that failed to read it


def _tag_ids(names: str) -> frozenset[int]:
    """Return lexbor's numbers of elements."""
    tree = LexborHTMLParser("")
    return frozenset(tree.create_node(name).tag_id for name in names.split())


def _tag_id(name: str) -> int:
    return next(iter(_tag_ids(name)))


_A, _AREA, _LINK, _BASE, TITLE_TAG, _META, _HEAD = map(_tag_id, "a area link base title meta head".split())
COMMENT_TAG = 4
FRAME_TAGS = _tag_ids("iframe frame")
HIDDEN_TAGS = _tag_ids("script style iframe noembed noframes")  # their content is not text of the page
INLINE_TAGS = _tag_ids(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q s samp "
    "small span strike strong sub sup time tt u var wbr"
)
# content inside is HTML again
_INTEGRATION_POINTS = frozenset("foreignobject desc title mi mo mn ms mtext annotation-xml body".split())
_REMOVED = HIDDEN_TAGS | FRAME_TAGS | {COMMENT_TAG}
_RELEVANT = _REMOVED | INLINE_TAGS | {_AREA, _LINK, _BASE, TITLE_TAG, _META}


def parse_html(
    html: bytes | str,
    url: Url,
    *,
    tags: Iterable[str] = (),
    language: str = "",
    robot: str = DEFAULT_ROBOT_NAME,
    charset: str = "utf-8",
) -> Document:
    """Parse an HTML page of `url`.

    `tags` are its X-Robots-Tag headers, `language` its Content-Language, `robot` the crawler's name for
    robots rules, `charset` its original character encoding.

    >>> html = "<title>Mice</title><p>r<b>u</b>n <a href='/home' rel=nofollow>home</a>"
    >>> page = parse_html(html, Url("http://a.b/"))
    >>> page.title, page.text, page.hrefs
    ('Mice', 'run home', [])
    """
    page = Document(base=url)
    for tag in tags:
        parse_robots_tag(tag, page.rules, robot)
    raw = html.encode("utf-8", "replace") if isinstance(html, str) else html
    raw, page.parse_error = limit_parse_cost(raw)
    tree = LexborHTMLParser(raw, options=WITHOUT_EVENTS)
    root = tree.root
    if root is None:
        return page
    is_based, anchors = False, 0
    hrefs: list[str] = []
    silent: list[LexborNode] = []
    titles: list[LexborNode] = []
    # From the outside in, so that each removed element moves its content once.
    for node in [node for node in root.traverse() if node.tag_id in _RELEVANT]:
        kind = node.tag_id
        if kind in INLINE_TAGS:
            if kind == _A:
                attributes = node.attributes
                href = attributes.get("href")
                if href is None and "xlink:href" in attributes and foreign_namespace(node) == "svg":
                    href = attributes["xlink:href"]
                if href is not None:
                    anchors += 1
                    if "rel" not in attributes or not _is_nofollow(attributes["rel"]):
                        hrefs.append(href)
            node.unwrap(delete_empty=True)
        elif kind in _REMOVED:
            if kind in FRAME_TAGS and (href := node.attrs.get("src")):
                hrefs.append(href)
            silent.append(node)
        elif kind == _META:
            _read_meta(node, page, hrefs, robot)
        elif kind == _LINK:
            _read_link(node, page, hrefs)
        elif kind == _BASE:
            attributes = node.attributes
            if "href" in attributes and not is_based and not foreign_namespace(node):
                is_based = True
                page.base = resolve(attributes["href"] or "", url) or url
        elif kind == _AREA:
            attributes = node.attributes
            href = attributes.get("href")
            if href is not None:
                anchors += 1
                if not _is_nofollow(attributes.get("rel")):
                    hrefs.append(href)
        elif len(titles) < MAX_TITLE_TAGS:
            titles.append(node)
    if charset != "utf-8":
        hrefs, page.feeds = ([encode_query(href, charset) for href in group] for group in (hrefs, page.feeds))
    page.hrefs, page.anchors, page.charset = hrefs, anchors, charset
    if page.canonical:
        page.canonical = resolve(encode_query(page.canonical, charset), page.base) or ""
    title = next((title for title in titles if not foreign_namespace(title)), None)
    if title is not None:
        page.title = " ".join(title.text().replace("\xad", "").split())[:MAX_TITLE]
    # Inner elements before outer ones: a removed element takes its content along.
    for node in reversed(silent):
        node.decompose()
    if declared := root.attrs.get("lang"):
        page.language = _first_language(declared)
    page.language = page.language or _first_language(language)
    body = tree.body
    if body is not None:
        body.merge_text_nodes()
        text = body.text(separator=" ", skip_empty=True)
        # A soft hyphen marks where a word may be broken, not a break.
        page.text = (text.replace("\xad", "") if "\xad" in text else text)[:MAX_TEXT]
    return page


def foreign_namespace(node: LexborNode) -> str:
    """Return `svg` or `math` if an element is in that namespace, "" if it is HTML.

    An element with more than `MAX_ANCESTORS` ancestors counts as `svg`.
    """
    ancestor = node.parent
    for _ in range(MAX_ANCESTORS):
        if ancestor is None or ancestor.tag_id == _HEAD:
            return ""
        name = (ancestor.tag or "").lower()
        if name in ("svg", "math"):
            return name
        if name in _INTEGRATION_POINTS:
            return ""
        ancestor = ancestor.parent
    return "svg"


def _is_nofollow(rel: str | None) -> bool:
    return rel is not None and "nofollow" in rel.lower().split()


def _read_meta(node: LexborNode, page: Document, hrefs: list[str], robot: str) -> None:
    attributes = node.attributes
    name, content = attributes.get("name"), attributes.get("content") or ""
    if name is not None:
        if name.strip().lower() in ("robots", robot):
            page.rules.add_directives(content)
        return
    equiv = (attributes.get("http-equiv") or "").lower()
    if equiv == "refresh":
        if target := refresh_target(content):
            hrefs.append(target)
    elif equiv == "content-language" and not page.language:
        page.language = _first_language(content)


def refresh_target(content: str) -> str:
    """Return the target of a `<meta http-equiv=refresh>` or a `Refresh` header, or "".

    These are the shared declarative refresh steps of the HTML standard.

    >>> [refresh_target(content) for content in ("0; url='next'", "3;next", "3", "next")]
    ['next', 'next', '', '']
    """
    delayed = _delayed(content)
    if delayed is None:
        return ""
    rest = content[delayed.end() :]
    if named := _named(rest):
        rest = rest[named.end() :]
    if rest[:1] in ("'", '"'):
        rest = rest[1:].partition(rest[0])[0]
    return rest


def _read_link(node: LexborNode, page: Document, hrefs: list[str]) -> None:
    attributes = node.attributes
    href, rel = attributes.get("href"), attributes.get("rel")
    if not href or not rel:
        return
    words = set(rel.lower().split())
    if "canonical" in words and not page.canonical:
        page.canonical = href
    kind = attributes.get("type") or "text/html"
    if words & _FOLLOWED and "nofollow" not in words and "stylesheet" not in words:
        if "html" in kind.lower():
            hrefs.append(href)
        elif "alternate" in words and kind.partition(";")[0].strip().lower() in FEED_TYPES:
            page.feeds.append(href)


def _first_language(declared: str) -> str:
    """Return the first language of a declaration in lower case, or "" if it has none."""
    first = declared.partition(",")[0].strip().lower().replace("_", "-")
    return first if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", first) else ""


def parse_robots_tag(tag: str, rules: RobotsDirectives, robot: str = DEFAULT_ROBOT_NAME) -> None:
    """Add the rules of one X-Robots-Tag header: those for all crawlers, and those for `robot`.

    >>> rules = RobotsDirectives(); parse_robots_tag("otherbot: noindex, nofollow", rules); rules.noindex
    False
    """
    ours = True
    for part in re.split("[,;]", tag):
        before, colon, rest = part.partition(":")
        *words, name = before.lower().split() or [""]
        if colon and name not in _DIRECTIVES_WITH_VALUE and _robot_name(name):
            if ours:
                rules.add_directives(" ".join(words))
            ours = name == robot
            part = rest
        if ours:
            rules.add_directives(part)

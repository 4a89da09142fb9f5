"""What one parse of a page tells us: title, text, language, robots rules, raw hrefs.

lexbor builds the tree a browser would; everything is read off that one tree. We run
no scripts, so what stands in `<noscript>` is meant for us.
Robots rules come from `<meta name=robots>`, from a meta that names us, and from
X-Robots-Tag; they add up, the strictest wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from fieldmouse.indexer.markup import bounded
from fieldmouse.url import Url, resolve

PRODUCT = "fieldmouse"
TITLE = 300  # characters kept of a title
TEXT = 1 << 20  # characters indexed of a text

_WITHOUT_EVENTS = int(LexborDocumentOptions.WO_EVENTS)  # nobody listens for changes of the tree
# All that is wanted of a tree at one walk: a walk costs more than a selector.
_WANTED = "[href],[src],[content],title,script,style,template"
_REFRESH = re.compile(r"(?i)^\s*[\d.]*\s*[;,]?\s*url\s*=\s*(.+?)\s*$", re.DOTALL)
FEEDS = frozenset(("application/rss+xml", "application/atom+xml", "application/feed+json"))
_FOLLOWED = frozenset(("canonical", "alternate", "next", "prev"))
# Directives of X-Robots-Tag that carry a value after a colon; any other name before a colon is a robot's.
_VALUED = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))


class Rules(msgspec.Struct):
    """What the page asks of robots."""

    nofollow: bool = False
    noindex: bool = False

    def add(self, directives: str) -> None:
        words = {word.strip() for word in directives.lower().split(",")}
        if "none" in words:
            self.nofollow = self.noindex = True
        if "nofollow" in words:
            self.nofollow = True
        if "noindex" in words:
            self.noindex = True


class Document(msgspec.Struct):
    """One page, read."""

    title: str = ""
    text: str = ""
    language: str = ""
    canonical: str = ""
    base: str = ""  # what relative hrefs are relative to
    hrefs: list[str] = msgspec.field(default_factory=list)  # to be followed, as written
    feeds: list[str] = msgspec.field(default_factory=list)  # hrefs of the feeds it names as its own
    anchors: int = 0  # links on the page, whether followed or not
    rules: Rules = msgspec.field(default_factory=Rules)
    trouble: str = ""  # why not all of it was read


def _ids() -> dict[str, int]:
    names = (
        "title",
        "a",
        "area",
        "link",
        "base",
        "meta",
        "iframe",
        "script",
        "style",
        "template",
    )
    trees = [f"<{name} id=x></{name}>" for name in names] + ["<frameset><frame id=x></frameset>"]
    found = [node for tree in trees for node in LexborHTMLParser(tree).css("[id]")]
    return {node.tag or "": node.tag_id for node in found}


_ID = _ids()
_A, _AREA, _LINK, _BASE, _TITLE = _ID["a"], _ID["area"], _ID["link"], _ID["base"], _ID["title"]
_META, _IFRAME, _FRAME = _ID["meta"], _ID["iframe"], _ID["frame"]
_SILENT = frozenset((_ID["script"], _ID["style"], _ID["template"]))


def parse(html: bytes | str, url: Url, *, tags: Iterable[str] = (), language: str = "") -> Document:
    """Read an HTML page found at `url`. `tags` are its X-Robots-Tag headers, `language` its Content-Language.

    >>> page = parse("<title>Mice</title><p>run <a href='/home' rel=nofollow>home</a>", Url("http://a.b/"))
    >>> page.title, page.text.split(), page.hrefs
    ('Mice', ['run', 'home'], [])
    """
    page = Document(base=url)
    for tag in tags:
        read_robots_tag(tag, page.rules)
    raw = html.encode("utf-8", "replace") if isinstance(html, str) else html
    raw, page.trouble = bounded(raw)
    tree = LexborHTMLParser(raw, options=_WITHOUT_EVENTS)
    based = False
    anchors, last = 0, -1
    hrefs: list[str] = []
    silent: list[LexborNode] = []
    title: LexborNode | None = None
    for node in tree.css(_WANTED):
        # An element that answers to two of the selectors comes twice in a row.
        if node.mem_id == last:
            continue
        last = node.mem_id
        kind = node.tag_id
        if kind == _A:
            attributes = node.attributes
            href = attributes.get("href")
            if href is None:
                continue
            anchors += 1
            if "rel" in attributes and _is_nofollow(attributes["rel"]):
                continue
            hrefs.append(href)
        elif kind == _META:
            _read_meta(node, page, hrefs)
        elif kind == _LINK:
            _read_link(node, page, hrefs)
        elif kind == _BASE:
            href = node.attrs.get("href")
            if href and not based:
                based = True
                page.base = resolve(href, url) or url
        elif kind in (_IFRAME, _FRAME):
            href = node.attrs.get("src")
            if href:
                hrefs.append(href)
        elif kind == _AREA:
            attributes = node.attributes
            href = attributes.get("href")
            if href is not None:
                anchors += 1
                if not _is_nofollow(attributes.get("rel")):
                    hrefs.append(href)
        elif kind in _SILENT:
            silent.append(node)
        elif kind == _TITLE and title is None:
            title = node
    page.hrefs, page.anchors = hrefs, anchors
    if page.canonical:
        page.canonical = resolve(page.canonical, page.base) or ""
    if title is not None:
        page.title = " ".join(title.text().split())[:TITLE]
    # Inner elements before those around them: what is taken out takes its inside along.
    for node in reversed(silent):
        node.decompose()
    _read_text(tree, page, language)
    return page


def _is_nofollow(rel: str | None) -> bool:
    return rel is not None and "nofollow" in rel.lower().split()


def _read_meta(node: LexborNode, page: Document, hrefs: list[str]) -> None:
    attributes = node.attributes
    name = attributes.get("name")
    content = attributes.get("content") or ""
    if name is not None:
        name = name.strip().lower()
        if name == "robots" or name == PRODUCT:
            page.rules.add(content)
        return
    equiv = attributes.get("http-equiv")
    if equiv is None:
        return
    equiv = equiv.strip().lower()
    if equiv == "refresh":
        if found := _REFRESH.match(content):
            hrefs.append(found[1].strip("'\""))
    elif equiv == "content-language" and not page.language:
        page.language = _language(content)


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
        elif "alternate" in words and kind.partition(";")[0].strip().lower() in FEEDS:
            page.feeds.append(href)


def _read_text(tree: LexborHTMLParser, page: Document, language: str) -> None:
    root, body = tree.root, tree.body
    if root is not None and (declared := root.attrs.get("lang")):
        page.language = _language(declared)
    page.language = page.language or _language(language)
    if body is not None:
        page.text = body.text(separator=" ", skip_empty=True)[:TEXT]


def _language(declared: str) -> str:
    """The first language of a declaration, in lower case, or "" if it names none."""
    first = declared.partition(",")[0].strip().lower().replace("_", "-")
    return first if re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", first) else ""


def read_robots_tag(tag: str, rules: Rules) -> None:
    """Add what one X-Robots-Tag header says to us: rules for all robots, and those under our name.

    >>> rules = Rules(); read_robots_tag("otherbot: noindex, nofollow", rules); rules.noindex
    False
    """
    ours = True
    for part in tag.split(","):
        name, colon, rest = part.partition(":")
        name = name.strip().lower()
        if colon and name not in _VALUED:
            ours = name == PRODUCT
            part = rest
        if ours:
            rules.add(part)

"""Visible text of a stored document, as a list of blocks, after the user's noise rules.

A block is the text between two block-level tags; the page's title is the first one. In plain text, JSON
and XML a block is a line. Markup, attributes, scripts, comments and white space are ignored, so that a
form token or another build of the same page makes no difference. Documents without text (an image, a PDF)
have no blocks; only their bytes can be compared.

Noise rules are CSS selectors, XPath and regular expressions. XPath runs on a copy, for lxml, of the tree
that a browser would build: users copy XPaths from their browser. On a page whose tree is deep and large
enough to make XPath expensive it finds nothing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from fieldmouse.http.decoding import decode_response
from fieldmouse.http.headers import effective_media_type
from fieldmouse.parse import html
from fieldmouse.parse.charset import decode_text, find_charset
from fieldmouse.parse.content import MAX_HTML, html_for_parser, is_html, response_mime
from fieldmouse.parse.html_parse_cost import limit_parse_cost
from fieldmouse.policy.noise_rules import NoiseRule, NoiseRules
from fieldmouse.types.outcome import Response

MAX_XPATH_WORK = 300_000  # ancestors of elements, summed over the page; sane pages have a third of that

_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def select_elements(tree: LexborHTMLParser, rule: NoiseRule) -> list[LexborNode]:
    """Return the elements that a rule matches, in page order; none for a regular expression."""
    if rule.how == "css":
        return tree.css(rule.what)
    return _select_by_xpath(tree, rule.what) if rule.how == "xpath" else []


@lru_cache(maxsize=256)
def _regex_patterns(rules: tuple[NoiseRule, ...]) -> list[re.Pattern[str]]:
    return [re.compile(rule.what) for rule in rules if rule.how == "regex"]


def _select_by_xpath(tree: LexborHTMLParser, what: str) -> list[LexborNode]:
    from lxml import etree

    top = tree.root
    if top is None:
        return []
    builder = etree.TreeBuilder()
    owners = {builder.start("html", _xml_attributes(top)): top}
    within = [("html", top.iter(include_text=True))]
    work = 0
    while within:
        name, children = within[-1]
        child = next(children, None)
        if child is None:
            builder.end(name)
            within.pop()
        elif child.is_text_node:
            builder.data(_NOT_XML.sub("", child.text_content or ""))
        else:
            work += len(within)
            if work > MAX_XPATH_WORK:
                return []
            name = (child.tag or "").lower()
            name = name if _NAME.fullmatch(name) else "unnamed"
            owners[builder.start(name, _xml_attributes(child))] = child
            within.append((name, child.iter(include_text=True)))
    matches = etree.XPath(what, smart_strings=False)(builder.close())
    return [owners[match] for match in matches if etree.iselement(match) and match in owners]


def _xml_attributes(node: LexborNode) -> dict[str, str]:
    return {name: _NOT_XML.sub("", value or "") for name, value in node.attributes.items() if _NAME.fullmatch(name)}


MAX_BLOCKS = 20_000  # per page; the text after them becomes one more block
NO_RATIO_LIMIT = 1 << 40  # no decompression-bomb check: the body passed it before it was stored

_PLAIN = re.compile(r"text/.*|application/(.*[+/-])?(json|xml|javascript|yaml|x-ndjson|toml)", re.ASCII)
_JSON = re.compile(r"application/(.*\+)?json", re.ASCII)
_HANDLED = html.INLINE_TAGS | html.HIDDEN_TAGS | html.FRAME_TAGS | {html.COMMENT_TAG, html.TITLE_TAG}
_SEPARATOR = "\0"  # cannot occur in HTML: the parser drops it


def decoded_body(response: Response, limit: int) -> bytes:
    """The decompressed body of a stored response."""
    return decode_response(response, limit=limit, ratio=NO_RATIO_LIMIT).body


NO_RULES = NoiseRules()


def text_blocks(response: Response, body: bytes, rules: NoiseRules = NO_RULES) -> list[str] | None:
    """Visible blocks of a response whose decompressed body is `body`; None if it is not text.

    `rules` are the noise rules for its URL.
    """
    mime, declared = response_mime(response), effective_media_type(response.all_headers("content-type"))
    if is_html(mime, body):
        charset = find_charset(body[:MAX_HTML], declared)
        return _html_blocks(html_for_parser(body, charset), rules)
    if not _PLAIN.fullmatch(mime):
        return None
    text = decode_text(body[: 4 * html.MAX_TEXT], find_charset(body, declared, markup=False))[: html.MAX_TEXT]
    if _JSON.fullmatch(mime):
        with suppress(msgspec.MsgspecError, RecursionError):
            text = msgspec.json.format(text, indent=1)  # one value per line, whatever its original layout
    return _apply_rules(_normalize(text.splitlines()), rules)


def _html_blocks(markup: bytes | str, rules: NoiseRules = NO_RULES) -> list[str]:
    """
    >>> _html_blocks("<title>Mice</title><!-- 17 --><p class=a1>They r<b>u</b>n.<script>x</script><p>  Fast. ")
    ['Mice', 'They run.', 'Fast.']
    """
    raw, _ = limit_parse_cost(markup.encode("utf-8", "replace") if isinstance(markup, str) else markup)
    tree = LexborHTMLParser(raw, options=html.WITHOUT_EVENTS)
    if rules.is_empty:
        return _tree_blocks(tree)
    for rule in rules.ignore:
        # Inner elements first: removing an element also removes its descendants.
        for node in reversed(select_elements(tree, rule)):
            node.decompose()
    chosen = [rule for rule in rules.only if rule.how != "regex"]
    if not chosen:
        return _apply_rules(_tree_blocks(tree), rules)
    parts = [node.html or "" for rule in chosen for node in select_elements(tree, rule)]
    texts = [block for part in parts for block in _tree_blocks(LexborHTMLParser(part, options=html.WITHOUT_EVENTS))]
    return _apply_rules(texts, rules)


def _apply_rules(texts: list[str], rules: NoiseRules) -> list[str]:
    """Apply the regular expressions of `rules` to the blocks."""
    if rules.is_empty:
        return texts
    for pattern in _regex_patterns(rules.ignore):
        texts = [pattern.sub("", text) for text in texts]
    if only := _regex_patterns(rules.only):
        texts = [match[0] for pattern in only for text in texts for match in pattern.finditer(text)]
    return _normalize(texts)


def _tree_blocks(tree: LexborHTMLParser) -> list[str]:
    """Blocks of a page; modifies `tree`."""
    root, title = tree.root, ""
    if root is None:
        return []
    silent = []
    # From the outside in, so that each removed node is moved once.
    for node in [node for node in root.traverse() if node.tag_id in _HANDLED]:
        kind = node.tag_id
        if kind in html.INLINE_TAGS:
            node.unwrap(delete_empty=True)
        elif kind != html.TITLE_TAG:
            silent.append(node)
        elif not title and not html.foreign_namespace(node):
            title = node.text()
    for node in reversed(silent):
        node.decompose()
    body = tree.body
    text = ""
    if body is not None:
        body.merge_text_nodes()
        text = body.text(separator=_SEPARATOR, skip_empty=True)[: html.MAX_TEXT]
    return _normalize([title, *text.split(_SEPARATOR)])


def _normalize(texts: list[str]) -> list[str]:
    """Normalize white space, drop soft hyphens and empty blocks, and join the blocks beyond `MAX_BLOCKS`."""
    if len(texts) > MAX_BLOCKS:
        texts = [*texts[:MAX_BLOCKS], " ".join(texts[MAX_BLOCKS:])]
    return [block for text in texts if (block := " ".join(text.replace("\xad", "").split()))]

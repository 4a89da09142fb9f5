"""Matches of the user's noise rules in a page: CSS selectors, XPath and regular expressions.

XPath runs on a copy, for lxml, of the tree that a browser would build: users copy XPaths from their
browser. On a page whose tree is deep and large enough to make XPath expensive it finds nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from selectolax.lexbor import LexborHTMLParser, LexborNode

from fieldmouse.policy.noiserules import NoiseRule

WORK = 300_000  # ancestors of elements, summed over the page; sane pages have a third of that

_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)


def elements(tree: LexborHTMLParser, rule: NoiseRule) -> list[LexborNode]:
    """Return the elements that a rule matches, in page order; none for a regular expression."""
    if rule.how == "css":
        return tree.css(rule.what)
    return _by_xpath(tree, rule.what) if rule.how == "xpath" else []


def without(texts: list[str], rules: tuple[NoiseRule, ...]) -> list[str]:
    """Remove the matches of regular expressions from texts."""
    for rule in rules:
        if rule.how == "regex":
            pattern = _compiled(rule.what)
            texts = [pattern.sub("", text) for text in texts]
    return texts


def found_in(texts: list[str], rules: tuple[NoiseRule, ...]) -> list[str]:
    """Return the matches of regular expressions in texts."""
    return [
        match[0]
        for rule in rules
        if rule.how == "regex"
        for text in texts
        for match in _compiled(rule.what).finditer(text)
    ]


@lru_cache(maxsize=256)
def _compiled(what: str) -> re.Pattern[str]:
    return re.compile(what)


def _by_xpath(tree: LexborHTMLParser, what: str) -> list[LexborNode]:
    from lxml import etree

    top = tree.root
    if top is None:
        return []
    builder = etree.TreeBuilder()
    owners = {builder.start("html", _attributes(top)): top}
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
            if work > WORK:
                return []
            name = (child.tag or "").lower()
            name = name if _NAME.fullmatch(name) else "unnamed"
            owners[builder.start(name, _attributes(child))] = child
            within.append((name, child.iter(include_text=True)))
    matches = etree.XPath(what, smart_strings=False)(builder.close())
    return [owners[match] for match in matches if etree.iselement(match) and match in owners]


def _attributes(node: LexborNode) -> dict[str, str]:
    return {
        name: _NOT_XML.sub("", value or "")
        for name, value in node.attributes.items()
        if _NAME.fullmatch(name)
    }

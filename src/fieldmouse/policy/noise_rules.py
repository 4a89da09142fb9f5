r"""Rules for the parts of a page that are compared, written by the user one per line.

    example.org css .cookie-banner, #clock
    docs.example.org xpath //div[@class="feedback"]
    https://shop.example.org/item/ regex Only \d+ left
    * regex Generated in [\d.]+ s

A rule consists of a place (a host with its subdomains, the beginning of a URL, or `*` for all pages), a
method and a pattern. Parts matched by an `ignore` rule are neither compared nor reported; where an `only`
rule applies, nothing else is. The same rules apply to fetched pages and to comparisons of stored
versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from fieldmouse.errors import SettingsError
from fieldmouse.policy.scope import compile_pattern
from fieldmouse.url import host_of, hostname_of
from fieldmouse.url import parse as parse_url

HOWS = ("css", "xpath", "regex")
EVERYWHERE = "*"
_EXAMPLE = 'write it as "example.org css .clock": where, one of css, xpath and regex, and what'


class NoiseRule(msgspec.Struct, frozen=True, array_like=True):
    """One rule; created by `parse_rule`."""

    where: str
    how: Literal["css", "xpath", "regex"]
    what: str

    def covers(self, url: str) -> bool:
        """Whether the rule applies to this page.

        >>> rule = parse_rule("example.org regex x")
        >>> rule.covers("https://docs.example.org/a"), rule.covers("https://example.org.evil.net/")
        (True, False)
        """
        if self.where == EVERYWHERE:
            return True
        if "://" in self.where:
            return url.startswith(self.where)
        known = parse_url(url)
        if known is None:
            return False
        host = host_of(known)
        name = hostname_of(host)
        return self.where in (name, host.partition("://")[2]) or name.endswith("." + self.where)


class NoiseRules(msgspec.Struct, frozen=True):
    """All rules of a crawl, and whether noise is learned as well."""

    ignore: tuple[NoiseRule, ...] = ()
    only: tuple[NoiseRule, ...] = ()
    learn: bool = True

    @classmethod
    def from_texts(cls, ignore: Iterable[str], only: Iterable[str] = (), *, learn: bool = True) -> NoiseRules:
        return cls(tuple(map(parse_rule, ignore)), tuple(map(parse_rule, only)), learn)

    def for_page(self, url: str) -> NoiseRules:
        """Rules that apply to one page."""
        if not self.ignore and not self.only:
            return self
        return NoiseRules(
            tuple(rule for rule in self.ignore if rule.covers(url)),
            tuple(rule for rule in self.only if rule.covers(url)),
            self.learn,
        )

    @property
    def is_empty(self) -> bool:
        """Whether every block of a page is compared."""
        return not self.ignore and not self.only


def parse_rule(text: str) -> NoiseRule:
    """Parse a rule from a setting; SettingsError if it is invalid.

    >>> parse_rule("* css .clock").what
    '.clock'
    """
    words = text.split(None, 2)
    if len(words) < 3:
        raise SettingsError(f"`{text}` is no rule: something is missing", _EXAMPLE)
    where, how, what = words
    if how not in HOWS:
        raise SettingsError(f"`{text}` is no rule: `{how}` is none of css, xpath and regex", _EXAMPLE)
    if "://" in where:
        if not re.match(r"https?://[^/]", where):
            raise SettingsError(f"`{where}` is no beginning of a URL", _EXAMPLE)
    elif where != EVERYWHERE and ("/" in where or where.startswith(("*", "."))):
        raise SettingsError(f"`{where}` is no host", 'name a host ("example.org" has those below it, too), or "*"')
    _CHECKS[how](what)
    return NoiseRule(where if "://" in where else where.lower(), how, what)  # type: ignore[arg-type]


def _check_css(what: str) -> None:
    # Imported here: most crawls have no rules, and commands should not wait for a parser.
    from selectolax.lexbor import LexborHTMLParser, SelectolaxError

    try:
        LexborHTMLParser("").css(what)
    except (SelectolaxError, ValueError) as trouble:
        raise SettingsError(f"`{what}` is no CSS selector", "try it in a browser's console") from trouble


def _check_xpath(what: str) -> None:
    try:
        from lxml import etree
    except ImportError as trouble:
        raise SettingsError(
            f"`{what}` is an XPath, and lxml is not installed",
            "install it with `pip install fieldmouse[xpath]`, or write a CSS selector",
        ) from trouble
    try:
        found = etree.XPath(what)(etree.Element("html"))
    except etree.XPathError as trouble:
        raise SettingsError(f"`{what}` is no XPath: {trouble}", "try it in a browser's console") from trouble
    if not isinstance(found, list):
        raise SettingsError(f"`{what}` finds no elements", "an XPath such as //div[@id='clock'] does")


def _check_regex(what: str) -> None:
    compile_pattern(what, "escape special characters with a backslash")


_CHECKS = {"css": _check_css, "xpath": _check_xpath, "regex": _check_regex}

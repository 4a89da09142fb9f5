"""Parts shared by all pages of a host: style, script, menu and footer."""

from __future__ import annotations

from fieldmouse.lab.meadow.dice import throw
from fieldmouse.lab.meadow.paths import path_of
from fieldmouse.lab.meadow.piece import fresh
from fieldmouse.lab.meadow.plan import MeadowPlan, Site
from fieldmouse.lab.meadow.words import FLAT

_PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


class Shell:
    """Pieces around a page, compressed once per host."""

    def __init__(self, plan: MeadowPlan, site: Site):
        options = plan.options
        dice = throw(options.seed, "shell", site.number)
        language = ("en", "en-GB", "en-US")[dice[0] % 3]
        name = FLAT[dice[1] % len(FLAT)].capitalize()
        self.top = fresh(
            f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'
            f"<style>\n{_style(dice[2], int(options.page_kb * 100))}</style>\n"
            f"<script>\n{_script(dice[3], int(options.page_kb * 60))}</script>\n"
        )
        menu = range(min(site.original, max(2, min(20, options.links // 5))))
        entries = "".join(
            f'<li class="menu-item depth-1"><a href="{path_of(site, k).replace("&", "&amp;")}">'
            f"{FLAT[(dice[4] + k) % len(FLAT)]}</a></li>\n"
            for k in menu
        )
        middle = path_of(site, site.original // 2).replace("&", "&amp;")
        self.nav = fresh(
            f'<body class="host-{site.number}">\n<a class="skip" href="#content">skip to content</a>\n'
            f'<header><div class="brand"><img src="{_PIXEL}" alt="{name}"> {name}</div></header>\n'
            f'<nav aria-label="main"><ul class="menu">\n{entries}</ul></nav>\n'
            f'<map name="parts"><area shape="rect" coords="0,0,1,1" href="{middle}" alt="middle"></map>\n'
            '<!-- <a href="/gone/commented-out.html">an old link</a> -->\n<div id="content">\n'
        )
        # Every page links to the first host, so a crawl finds all pages from any start.
        self.footer = fresh(
            "</article></main></div>\n<footer><p>Made of clover. "
            '<a href="mailto:mouse@meadow.test">Write to us</a>, '
            '<a href="javascript:void(0)">share</a>, <a href="tel:+0000">call</a> or '
            f'<a href="/">start again</a>. A '
            f'<a href="{plan.sites[0].origin}/">neighbour</a> of many.</p></footer>\n'
            "</body>\n</html>\n"
        )
        self.links = len(menu) + 3


def _style(salt: int, size: int) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        k = salt + len(lines) * 7919
        word = FLAT[k % len(FLAT)]
        lines.append(
            f".{word}-{len(lines)}>.item{{margin:{k % 13}px {k % 7}px;color:#{k * 40503 & 0xFFFFFF:06x};"
            f"font:{k % 9 + 9}px/1.{k % 8} sans-serif}}\n"
        )
        length += len(lines[-1])
    return "".join(lines)


def _script(salt: int, size: int) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        k = salt + len(lines) * 104729
        word = FLAT[k % len(FLAT)]
        lines.append(
            f'window.{word}{len(lines)}=function(a){{return a<{k % 97}?"<b href=/no>"+a:a*{k % 1009}}};\n'
        )
        length += len(lines[-1])
    return "".join(lines)

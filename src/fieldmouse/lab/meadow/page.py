"""What a page looks like: markup, text and about a hundred links, mostly out of ready pieces.

Head, menu and footer are the same on all pages of a host. Paragraphs come from a
pool by topic. Links come partly in blocks that several pages of a host share, as
side bars do, and partly one by one, in all the forms that people write them in.
The links that hold the meadow together (a page's children, a root's hosts) are
always the page's own.
"""

from __future__ import annotations

from fieldmouse.lab.meadow.change import Version
from fieldmouse.lab.meadow.dice import MASK, MULTIPLIER, lognormal, throw
from fieldmouse.lab.meadow.paths import (
    Nook,
    Signs,
    children,
    dice_of,
    nook_path,
    original_of,
    path_of,
    section_of,
)
from fieldmouse.lab.meadow.piece import Piece, fresh, ready
from fieldmouse.lab.meadow.plan import Plan, Site
from fieldmouse.lab.meadow.shell import Shell, fillers
from fieldmouse.lab.meadow.words import NAMES, PER_TOPIC, TOPIC_WORDS, paragraphs

_BLOCK = 8  # links in a shared block
_SINGLES = 24  # links of a page's own, beside those that hold the meadow together
_FOREIGN_BLOCKS = 1024


class Press:
    """Renders pages. One per process; its caches grow with the hosts visited, within bounds."""

    def __init__(self, plan: Plan):
        options = plan.options
        self.plan = plan
        self.signs = Signs(options)
        self._links = options.links
        self._bytes = options.page_kb * 1024
        self._text = [[ready(f"<p>{text}</p>\n") for text in topic] for topic in paragraphs(options.seed)]
        self._fillers = fillers(options.seed)
        self._shells: dict[int, Shell] = {}
        self._blocks: dict[tuple[int, int], Piece] = {}
        self._sizes = lognormal(0.45)
        self._counts = lognormal(0.35)
        self._popular = plan.popular
        self._anchors = _anchors(options.seed)

    def pieces(self, site: Site, page: int, version: Version) -> list[Piece]:
        """The page as pieces; a copy is its original, byte for byte."""
        page = original_of(site, page)
        dice = dice_of(site, page)
        shell = self._shells.get(site.number)
        if shell is None:
            shell = self._shells[site.number] = Shell(self.plan, site)
        topic = dice[13] % len(NAMES)
        words = TOPIC_WORDS[topic]
        first, second = words[dice[14] % len(words)], words[(dice[14] >> 8) % len(words)]
        title = f"{first.capitalize()} and {second}: {NAMES[topic]} {site.number}-{page}"
        path = path_of(site, page).replace("&", "&amp;")
        wanted = int(self._links * self._counts[dice[10] & 1023]) - shell.links
        own, count = self._own_links(site, page, dice, wanted)
        pieces = [
            shell.top,
            fresh(
                f'<title>{title}</title>\n<meta name="description" content="{first}, {second} and other '
                f'{NAMES[topic]}: page {page} of {site.authority}">\n'
                f'<link rel="canonical" href="{site.origin}{path}">\n{self._meta(site, page, dice)}</head>\n'
            ),
            shell.nav,
            fresh(
                f"<main><article><h1>{title}</h1>\n<p class=lead>All that is known of {first}, {second} and "
                f"{words[(dice[14] >> 16) % len(words)]}. Revision {version.number}.</p>\n"
                f'<ul class="related">\n{own}</ul>\n'
            ),
        ]
        self._fill(pieces, site, dice, wanted - count, topic)
        pieces.append(shell.footer)
        return pieces

    def _fill(self, pieces: list[Piece], site: Site, dice: list[int], links: int, topic: int) -> None:
        """Text, shared blocks of links, and script until the page has the size it was meant to have."""
        x = dice[15]
        text = self._text[topic]
        blocks = (links + _BLOCK // 2) // _BLOCK
        for k in range(max(5 + x % 5, blocks)):
            x = (x * MULTIPLIER + 1) & MASK
            if k < 9:
                pieces.append(text[(x >> 33) % PER_TOPIC])
            if k < blocks:
                pieces.append(self._block(site, x >> 40, own=k % 3 != 2))
        missing = self._bytes * self._sizes[dice[15] >> 8 & 1023] - sum(len(piece[0]) for piece in pieces)
        while missing > 700:
            x = (x * MULTIPLIER + 1) & MASK
            filler = self._fillers[(x >> 33) % len(self._fillers)]
            pieces.append(filler)
            missing -= len(filler[0])

    def _own_links(self, site: Site, page: int, dice: list[int], wanted: int) -> tuple[str, int]:
        """The links that only this page has, as list items, and how many they are."""
        items = [self._item(_href(site, child, child + page), child) for child in children(site, page)]
        if page == 0:
            sites = self.plan.sites
            items += [self._item(f"{sites[k].origin}/", k) for k in site.links_to_sites]
        else:
            step = len(site.sections)
            for near in (page - step, page + step):
                if 0 < near < site.original and section_of(site, near) == section_of(site, page):
                    name = path_of(site, near).rpartition("/")[2].replace("&", "&amp;")
                    items.append(self._item(name, near))
        for nook in self.signs.nooks(site, page, dice):
            items.append(self._nook(site, page, nook, dice))
        x = dice[9] << 16 | 1
        popular, sites_known = self._popular, len(self._popular)
        for k in range(min(_SINGLES, wanted - len(items))):
            x = (x * MULTIPLIER + 1) & MASK
            throw = x >> 32
            if k & 1 and site.linked > 4:
                items.append(self._item(_href(site, throw % site.linked, throw >> 5), throw))
            else:
                other = popular[throw % sites_known]
                path = path_of(other, (throw >> 12) % other.linked).replace("&", "&amp;")
                items.append(self._item(f"http://{other.authority}{path}", throw >> 3))
        return "".join(items), len(items)

    def _item(self, href: str, number: int) -> str:
        return (
            f'<li class="item"><a class="entry link" href="{href}">{self._anchors[number & 1023]}</a></li>\n'
        )

    def _nook(self, site: Site, page: int, nook: Nook, dice: list[int]) -> str:
        if nook is Nook.SESSION:
            return self._item(f"{path_of(site, page)}?sid={dice[9]:08x}", page)
        if nook is Nook.CALENDAR:
            return self._item(nook_path(nook, 0), page)
        if nook is Nook.PARTNER:
            return f'<li><a rel="sponsored nofollow" href="{nook_path(nook, page)}">our partner</a></li>\n'
        return self._item(nook_path(nook, page), page)

    def _meta(self, site: Site, page: int, dice: list[int]) -> str:
        # Half of the pages that say nofollow say so in a header instead; see `desk`.
        words = ["nofollow"] if self.signs.is_nofollow(site, page, dice) and dice[6] & 1 else []
        if self.signs.noindex and dice[7] < self.signs.noindex:
            words.append("noindex")
        return f'<meta name="robots" content="{",".join(words)}">\n' if words else ""

    def _block(self, site: Site, number: int, own: bool) -> Piece:
        """One of a limited number of shared link lists: of this host's pages, or of everybody's."""
        if own and site.linked > 4:
            key = (site.number, number % (1 + min(63, site.size // 8)))
        else:
            key = (-1, number % _FOREIGN_BLOCKS)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = self._make_block(*key)
        return block

    def _make_block(self, host: int, number: int) -> Piece:
        items = []
        for face in throw(self.plan.options.seed, "block", host, number)[:_BLOCK]:
            if host >= 0:
                site = self.plan.sites[host]
                items.append(self._item(_href(site, face % site.linked, face >> 5), face))
            else:
                other = self._popular[face % len(self._popular)]
                path = path_of(other, (face >> 12) % other.linked).replace("&", "&amp;")
                items.append(self._item(f"{other.origin}{path}", face >> 3))
        return ready('<aside><ul class="side">\n' + "".join(items) + "</ul></aside>\n")


def _href(site: Site, page: int, form: int) -> str:
    """A link to a page of the same host, written in one of the ways people write them."""
    path = path_of(site, page)
    if page % 16 == 8:
        path = path.replace("&", "&amp;")
    elif page % 64 == 9 and form & 8:
        path = path.replace("%C3%A9%20", "é ")
    form &= 7
    if form < 3:
        return path
    if form == 3:
        return f"..{path}"
    if form == 4:
        return f"{path}#part-{page % 7}"
    if form == 5:
        return f"//{site.authority}{path}"
    if form == 6:
        return f"http://{site.authority}{path}"
    return f"HTTP://{site.authority}/./x/..{path}#top"


def _anchors(seed: int) -> list[str]:
    made = []
    for k in range(1024):
        r = throw(seed, "anchor", k)
        words = TOPIC_WORDS[r[0] % len(TOPIC_WORDS)]
        made.append(f"{words[r[1] % len(words)]} {words[r[2] % len(words)]} {words[r[3] % len(words)]}")
    return made

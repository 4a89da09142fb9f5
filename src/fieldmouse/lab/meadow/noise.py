"""Noise on pages that differs at every fetch but is not a change: counters, times of day, tokens.

It is a function of the time of the request, so several processes and the fetcher without sockets agree. Pages
with noise are generated per request and have no validators.
"""

from __future__ import annotations

import time

from fieldmouse.lab.meadow.dice import below, throw
from fieldmouse.lab.meadow.options import MeadowOptions
from fieldmouse.lab.meadow.plan import Site


def noise(options: MeadowOptions, site: Site, page: int, at: float) -> str:
    """Markup with the page's noise; "" on a page without noise."""
    if not options.noise:
        return ""
    dice = throw(options.seed, "noise", site.number, page)
    if dice[0] >= below(options.noise):
        return ""
    token = throw(options.seed, "token", site.number, page, repr(at))
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

"""The board where agents meet: what it promises, and three that keep the promise.

`contract` is what agents ask of a board (`pagelimit` the part of it that counts pages), `rebuilding` what
is asked of one that is made again; `refusals` is what either says when it does not do so. URLs lie on a
board as `rows`, many of them in a block (`blocks`), and those of an agent that is lost for good are made
from what it booked (`again`).

A board in `memory` is read first: it has the rules in the plainest code. The one on a `server` has them as
scripts; the one that is `spread` over several servers is made of other boards, whichever they are. The
three know what lies beside this page, and nothing of each other; none of them knows how an agent lives.
"""

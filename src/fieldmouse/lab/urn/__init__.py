"""The urn game of Buijsrogge's thesis: which balls to keep, when only few fit.

Follow one ball. Its colour is a host; it comes out of the source, the sieve, in an
order nobody chose. The strategy, a policy of `fieldmouse.policy.distribution`, puts
it online, where K balls fit, or offline, where all others wait. In each step one of
the colours online is chosen, each with the same chance, and its first ball goes: a
robot has fetched it. Then the strategy brings another ball, from offline if it
recalls one, else from the source. What counts is how many different colours are
online, since robots may visit each host only once at a time.

`Game` says what is played, `play` plays it, `Outcome` is what came of it. Any policy
can play at the pure table; the four that matter have a compiled table as well.

>>> from fieldmouse.lab.urn import Game, play_pure, power, strategy
>>> game = Game(power(1000, gamma=1.0), capacity=20, steps=100, strategy=strategy("index"))
>>> play_pure(game, seed=1).distinct_mean
20.0
"""

from fieldmouse.lab.urn.game import End, Game, Outcome
from fieldmouse.lab.urn.play import many, play, play_pure
from fieldmouse.lab.urn.sources import (
    Source,
    empirical,
    ending,
    exponential,
    normal,
    poisson,
    power,
    uniform,
)  # fmt: skip
from fieldmouse.lab.urn.strategies import STRATEGIES, Strategy, strategy

__all__ = [
    "STRATEGIES",
    "End",
    "Game",
    "Outcome",
    "Source",
    "Strategy",
    "empirical",
    "ending",
    "exponential",
    "many",
    "normal",
    "play",
    "play_pure",
    "poisson",
    "power",
    "strategy",
    "uniform",
]

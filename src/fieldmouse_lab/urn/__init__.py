"""Urn game of Buijsrogge's thesis: a model of the frontier in which only few URLs fit in memory.

A ball is a URL and its colour is the host. Balls come from the source, which stands for the sieve, in
random order. The strategy, a policy of `fieldmouse.policy.distribution`, puts each ball online, where K
balls fit, or offline, where all others wait. Each step chooses one of the colours online, each with the
same probability, and removes its first ball, as if a fetch worker had fetched it. Then the strategy brings
another ball: from offline if it recalls one, else from the source. The measure is the number of different
colours online, because a host is visited by only one fetch worker at a time.

`Game` describes a game, `play` plays it, `GameResult` holds its measures. Any policy can be played in pure
Python; the four important ones also have compiled code.

>>> from fieldmouse_lab.urn import Game, play_pure, power, strategy
>>> game = Game(power(1000, gamma=1.0), capacity=20, steps=100, strategy=strategy("index"))
>>> play_pure(game, seed=1).distinct_mean
20.0
"""

from __future__ import annotations

from fieldmouse_lab.urn.game import Game as Game
from fieldmouse_lab.urn.play import play as play
from fieldmouse_lab.urn.play import play_many as play_many
from fieldmouse_lab.urn.play import play_pure as play_pure
from fieldmouse_lab.urn.sources import power as power
from fieldmouse_lab.urn.strategies import strategy as strategy

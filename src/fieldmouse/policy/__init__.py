"""The decisions of a crawl, each written once and lived in three times.

A policy is pure and synchronous: no clock, no socket, no disk, no global
randomness. Time comes in as a float, randomness as a generator, observations as
values. The solver reads it, the lab plays it and the live crawl obeys it.
"""

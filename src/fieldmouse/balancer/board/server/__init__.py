"""The board on a Redis-protocol server, which agents on many machines share.

A call of `board` (or of `builder`, which makes a lost crawl again) becomes words (`messages`), goes over a
connection (`connect`) and is done there by one of the `scripts`, which lie in `lua/`.
"""

"""The lab: where policies are tried before they are lived with.

Two instruments stand here first. The `meadow` is a synthetic web on loopback that
knows the truth about itself: every URL, every change of every page, and who asked
for what and when. The `bottle` is an event loop in virtual time, so that a crawl
of an hour, with all its waiting, is over in a moment and goes the same way twice.
Together they let the real crawler run unchanged against a world we hold the key to.
"""

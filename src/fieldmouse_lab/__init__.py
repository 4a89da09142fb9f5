"""The lab: experiments with policies, outside of live crawls.

It has two main instruments. The first, the meadow (`fieldmouse.testing.meadow`), is a synthetic web on
loopback with a known ground truth: every URL, every change of every page, and every request it received.
The second (`fieldmouse.testing.virtual_time`) is an event loop in virtual time: a crawl of an hour, with
all its waiting, takes a moment and is reproducible. Together they run the real crawler, unchanged, against
a fully known web.
"""

from __future__ import annotations

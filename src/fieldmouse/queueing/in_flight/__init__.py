"""Queueing model of the page buffer that counts the fetches in flight.

The model of the paper starts and stops fetch workers at once. Here a worker that is started first has to
fetch a page, and one that is stopped still delivers the page it is fetching. Workers that find the buffer
full either keep their page and wait, or drop it. `model` describes and solves the model, `search` finds
the rule with the least cost, and `simulation` simulates single pages, sharing nothing with the solver but
the description.
"""

from __future__ import annotations

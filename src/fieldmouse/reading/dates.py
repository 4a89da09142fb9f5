"""Points in time as people write them: an age, a day, a time of day."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from fieldmouse.errors import UsageError
from fieldmouse.settings import units


def moment_of(since: float | datetime | timedelta | None) -> float:
    """Epoch seconds. A timedelta counts back from now, a datetime without a zone is UTC, None is 0."""
    if since is None:
        return 0.0
    if isinstance(since, timedelta):
        return time.time() - since.total_seconds()
    if isinstance(since, datetime):
        return (since if since.tzinfo else since.replace(tzinfo=UTC)).timestamp()
    return since


def read_moment(text: str, now: float) -> float:
    """Parse an age ("1d"), a day or a time of day into epoch seconds. UTC unless the text names a zone.

    >>> read_moment("1d", 86400.0), read_moment("1970-01-02", 0.0), read_moment("1970-01-01T00:00:05Z",
    0.0)
    (0.0, 86400.0, 5.0)
    """
    text = text.strip()
    try:
        if re.match(r"\d{4}-\d\d", text):
            return moment_of(datetime.fromisoformat(text))
        return now - units.seconds(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"`{text}` is no moment", "say how long ago (1d, 12h), a day (2026-11-16), or 2026-11-16T08:30"
        ) from None

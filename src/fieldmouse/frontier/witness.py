"""Observer of the distributor: receives the policy's inputs and its decisions.

A crawl may log its decisions (`decisions.py`), so that the lab can replay them with
another policy. The observer receives every input of the policy, in order, and every
decision, and never influences them. Replaying the inputs through a distributor must
give the same decisions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fieldmouse.url import Host


class Witness(Protocol):
    """Events: first the policy's inputs, then its decisions."""

    def began(self, now: float, *, unlisted: int, batch: int) -> None:
        """`unlisted` URLs were waiting in the source before; `batch` URLs are read at once from a host's
        queue."""
        ...

    def arrived(self, hosts: Iterable[Host]) -> None:
        """URLs of these hosts joined the source, in this order."""
        ...

    def held(self, host: Host, urls: int) -> None:
        """The host had URLs offline before."""
        ...

    def seated(self, host: Host, urls: int) -> None:
        """URLs went online without a decision of the policy: they were online before, or are tried again."""
        ...

    def known(self, host: Host, address: str) -> None:
        """The policy is shown the host's address, which has not changed."""
        ...

    def located(self, host: Host, address: str) -> None:
        """A visit showed the host's address; "" once its URLs are answered without a request."""
        ...

    def fed(self, width: int, out: int) -> None:
        """No host was ready for a fetch worker: the front may grow to `width`; `out` URLs are with fetch
        workers."""
        ...

    def taken(self, width: int, out: int) -> None:
        """A fetch worker took a host visit: the front should be `width`, and is widened if narrower."""
        ...

    def left(self, host: Host, urls: int) -> None:
        """A fetch worker returned the host after using `urls` of its URLs."""
        ...

    def tick(self, now: float) -> None: ...

    def placed(self, host: Host, online: bool) -> None:
        """The oldest URL of the source was drawn; it went online, or to its host's queue."""
        ...

    def recalled(self, host: Host, urls: int) -> None: ...

    def sent_off(self, host: Host, urls: int) -> None:
        """The host's address was crowded: its online URLs wait offline again."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Nobody:
    """Observer that ignores all events."""

    def began(self, now: float, *, unlisted: int, batch: int) -> None: ...

    def arrived(self, hosts: Iterable[Host]) -> None: ...

    def held(self, host: Host, urls: int) -> None: ...

    def seated(self, host: Host, urls: int) -> None: ...

    def known(self, host: Host, address: str) -> None: ...

    def located(self, host: Host, address: str) -> None: ...

    def fed(self, width: int, out: int) -> None: ...

    def taken(self, width: int, out: int) -> None: ...

    def left(self, host: Host, urls: int) -> None: ...

    def tick(self, now: float) -> None: ...

    def placed(self, host: Host, online: bool) -> None: ...

    def recalled(self, host: Host, urls: int) -> None: ...

    def sent_off(self, host: Host, urls: int) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

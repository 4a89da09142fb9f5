"""Who watches the distributor: told what a policy was shown, and what it answered.

A crawl may have its decisions written down (`decisions.py`), so that the lab can
ask what another policy would have made of them. The witness is told everything
that reaches the policy from outside, in order, and every answer; never the other
way round. Playing the first half again through a distributor must give the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fieldmouse.url import Host


class Witness(Protocol):
    """What comes from outside, first; then what the policy made of it."""

    def began(self, now: float, *, unlisted: int, batch: int) -> None:
        """`unlisted` URLs wait in the source from before; `batch` are read at once from a host's queue."""
        ...

    def arrived(self, hosts: Iterable[Host]) -> None:
        """URLs of these hosts joined the source, in this order."""
        ...

    def held(self, host: Host, urls: int) -> None:
        """The host has URLs offline from before."""
        ...

    def seated(self, host: Host, urls: int) -> None:
        """URLs went online without the policy being asked: from before, or to be tried again."""
        ...

    def known(self, host: Host, address: str) -> None:
        """The policy is told where the host lives, which is no news."""
        ...

    def located(self, host: Host, address: str) -> None:
        """A visit showed where the host lives; "" once it is answered without asking."""
        ...

    def fed(self, width: int, out: int) -> None:
        """A robot found nothing ready: the front may become `width`; `out` URLs are in robots' hands."""
        ...

    def taken(self, width: int, out: int) -> None:
        """A robot left with an errand: the front should be `width`, and is made so if it is narrower."""
        ...

    def left(self, host: Host, urls: int) -> None:
        """A robot gave the host back and has used so many of its URLs."""
        ...

    def tick(self, now: float) -> None: ...

    def placed(self, host: Host, online: bool) -> None:
        """The oldest URL of the source was drawn: it went online, or to its host's queue."""
        ...

    def recalled(self, host: Host, urls: int) -> None: ...

    def sent_off(self, host: Host, urls: int) -> None:
        """The host's address was crowded: what it had online waits offline again."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Nobody:
    """Nobody watches."""

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

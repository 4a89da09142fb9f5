"""What an agent has to tell the board, kept until it is known to be safe there."""

from __future__ import annotations

from pathlib import Path

from fieldmouse.balancer.tellings import FoundLinks, Tellings
from fieldmouse.url import Host


def found(name: str) -> FoundLinks:
    return FoundLinks(Host(f"http://{name}"), ((1, b"row"),))


def test_what_is_to_be_told_again_is_not_taken_for_what_was_on_its_way(tmp_path: Path) -> None:
    """The server is started anew while an answer comes: nobody knows which of them gave it."""
    tellings = Tellings(tmp_path / "board", None, lambda: 0.0)
    tellings.begin()
    old, fresh = found("old.example"), found("fresh.example")
    tellings.found(old)
    assert tellings.next(1) == [old]
    tellings.told(1)
    tellings.found(fresh)
    assert tellings.next(1) == [fresh]
    tellings.tell_again()
    tellings.told(1)
    assert tellings.next(10) == [old, fresh]
    tellings.told(2)
    assert not len(tellings)

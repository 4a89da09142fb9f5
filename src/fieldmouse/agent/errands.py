"""Dispatch of host visits from the frontier to fetch workers and back."""

from __future__ import annotations

import logging

import msgspec

from fieldmouse.agent.desk import Desk
from fieldmouse.agent.fuse import Fuse
from fieldmouse.agent.stopping import Stopping
from fieldmouse.clock import Clock
from fieldmouse.errors import StorageError
from fieldmouse.frontier.face import CrawlFrontier
from fieldmouse.records import Errand, Failed, Reason
from fieldmouse.robots.bell import Bell
from fieldmouse.robots.robot import Report, Robot

log = logging.getLogger(__name__)


class Errands:
    """Host visits for the fetch pool. A crash of a fetch worker costs its page, not the crawl."""

    def __init__(
        self, *, robot: Robot, desk: Desk, frontier: CrawlFrontier, fuse: Fuse, stopping: Stopping,
        bell: Bell, clock: Clock,
    ):  # fmt: skip
        self._robot, self._desk, self._frontier, self._fuse = robot, desk, frontier, fuse
        self._stopping, self._bell, self._clock = stopping, bell, clock

    def take(self) -> Errand | None:
        sated = self._desk.sated
        if self._stopping.asked or (sated and not self._frontier.polling):
            return None
        with self._fuse:
            return self._frontier.take(self._clock.now(), only_polls=sated)
        self._stopping.ask()
        return None

    def give_back(self, errand: Errand, report: Report) -> None:
        state, unused = self._desk.heard_from(errand, report)
        with self._fuse:
            self._frontier.give_back(errand, state, unused)
        self._bell.ring()

    async def run(self, errand: Errand) -> Report:
        self._desk.leased(errand.tickets)
        try:
            return await self._robot.run(errand)
        except StorageError as trouble:
            self._fuse.blow(trouble)
            return errand.state, ()
        except Exception as mistake:
            # Our own bug must not stop a crawl of many hosts: log the page, fail it, continue.
            now = self._clock.now()
            blamed, others = self._desk.in_hand(errand.tickets)
            for ticket in blamed:
                log.exception("stumbled over %s", ticket.link.url)
                detail = f"{type(mistake).__name__}: {mistake}"
                self._desk.note_verdict(ticket.number, Failed(ticket.link, Reason.CRASHED, now, detail))
            return msgspec.structs.replace(errand.state, ready_at=now + 1.0), others
        finally:
            self._desk.returned(errand.tickets)

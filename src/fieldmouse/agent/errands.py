"""Dispatch of host visits from the frontier to fetch workers and back."""

from __future__ import annotations

import logging
from dataclasses import dataclass

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


@dataclass(eq=False, slots=True)
class Errands:
    """Host visits for the fetch pool. A crash of a fetch worker costs its page, not the crawl."""

    robot: Robot
    desk: Desk
    frontier: CrawlFrontier
    fuse: Fuse
    stopping: Stopping
    bell: Bell
    clock: Clock

    def take(self) -> Errand | None:
        sated = self.desk.sated
        if self.stopping.asked or (sated and not self.frontier.polling):
            return None
        with self.fuse:
            return self.frontier.take(self.clock.now(), only_polls=sated)
        self.stopping.ask()
        return None

    def give_back(self, errand: Errand, report: Report) -> None:
        state, unused = self.desk.heard_from(errand, report)
        with self.fuse:
            self.frontier.give_back(errand, state, unused)
        self.bell.ring()

    async def run(self, errand: Errand) -> Report:
        self.desk.leased(errand.tickets)
        try:
            return await self.robot.run(errand)
        except StorageError as error:
            self.fuse.blow(error)
            return errand.state, ()
        except Exception as error:
            # Our own bug must not stop a crawl of many hosts: log the page, fail it, continue.
            now = self.clock.now()
            blamed, others = self.desk.in_hand(errand.tickets)
            for ticket in blamed:
                log.exception("crashed on %s", ticket.link.url)
                detail = f"{type(error).__name__}: {error}"
                self.desk.note_verdict(ticket.number, Failed(ticket.link, Reason.CRASHED, now, detail))
            return msgspec.structs.replace(errand.state, ready_at=now + 1.0), others
        finally:
            self.desk.returned(errand.tickets)

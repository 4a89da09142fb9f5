"""Addresses, for robots that wait: asked for and freed in as few messages as may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fieldmouse.balancer.board import AddressAnswer, AddressAsk, Board, Name
from fieldmouse.balancer.lease import LeaseClock
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.errors import BoardUnreachable, Fenced

_PAUSE = 0.3  # seconds


class AddressDoor:
    """Whatever came together goes together; while one message is on its way, the next gathers."""

    def __init__(self, board: Board, mailbox: Mailbox, lease: LeaseClock, name: Callable[[], Name]):
        self._board, self._mailbox, self._lease, self._name = board, mailbox, lease, name

    async def serve(self) -> None:
        while True:
            await self._mailbox.at_the_door(60.0)
            while self._mailbox.asks or self._mailbox.rests:
                await self._round()

    async def _round(self) -> None:
        rests = self._mailbox.take_rests()
        asks = self._mailbox.asks.take()
        if not self._lease.valid:
            self._mailbox.put_rests_back(rests)
            self._refuse(asks)
            await self._mailbox.at_the_door(_PAUSE)
            return
        try:
            if rests:
                await self._board.free_addresses(self._name(), rests)
                rests = {}
            if asks:
                answers = await self._board.ask_addresses(self._name(), [ask for ask, _ in asks])
                for (_, future), answer in zip(asks, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        except (BoardUnreachable, Fenced):
            self._mailbox.put_rests_back(rests)
            self._refuse(asks)
            await self._mailbox.at_the_door(_PAUSE)

    @staticmethod
    def _refuse(asks: Sequence[tuple[AddressAsk, asyncio.Future[AddressAnswer]]]) -> None:
        for _, future in asks:
            if not future.done():
                future.set_result(AddressAnswer(granted=False, rest=1.0))

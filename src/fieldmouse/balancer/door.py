"""Address leases for waiting fetch workers, asked for and freed in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fieldmouse.balancer.board.contract import AddressAnswer, AddressAsk, Board, Name
from fieldmouse.balancer.mailbox import Mailbox
from fieldmouse.errors import BoardUnreachable, Fenced

_PAUSE = 0.3  # seconds


class AddressDoor:
    """Batches the pending requests for addresses: while one call is under way, the next batch gathers."""

    def __init__(
        self, board: Board, mailbox: Mailbox, name: Callable[[], Name], on_refused: Callable[[str], None]
    ):
        """`on_refused` receives an address that is no longer ours."""
        self._board, self._mailbox, self._name = board, mailbox, name
        self._on_refused = on_refused
        self._held: dict[str, AddressAsk] = {}  # granted, and not known to be free again

    async def serve(self) -> None:
        while True:
            await self._mailbox.at_the_door(60.0)
            while self._mailbox.asks or self._mailbox.rests:
                await self._deliver_batch()

    async def _deliver_batch(self) -> None:
        rests = self._mailbox.take_rests()
        for address in rests:
            self._held.pop(address, None)
        asks = self._mailbox.asks.take()
        if not self._mailbox.open:
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
                for (ask, future), answer in zip(asks, answers, strict=True):
                    if answer.granted:
                        self._held[ask.address] = ask
                    if not future.done():
                        future.set_result(answer)
        except (BoardUnreachable, Fenced):
            self._mailbox.put_rests_back(rests)
            self._refuse(asks)
            await self._mailbox.at_the_door(_PAUSE)

    async def ask_again(self) -> None:
        """Ask for all held addresses again: a restarted server may have forgotten them."""
        asks = list(self._held.values())
        if not asks:
            return
        for ask, answer in zip(asks, await self._board.ask_addresses(self._name(), asks), strict=True):
            if not answer.granted and self._held.get(ask.address) is ask:
                del self._held[ask.address]
                self._on_refused(ask.address)

    @staticmethod
    def _refuse(asks: Sequence[tuple[AddressAsk, asyncio.Future[AddressAnswer]]]) -> None:
        for _, future in asks:
            if not future.done():
                future.set_result(AddressAnswer(granted=False, rest=1.0))

"""Daemon-thread executor: callers get results and exceptions, and the loop need not wait for the threads."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from fieldmouse.aio import DaemonExecutor
from fieldmouse.errors import FieldmouseError


def test_loop_ends_while_a_daemon_thread_still_runs() -> None:
    begun, enough = Event(), Event()

    def work() -> None:
        begun.set()
        enough.wait()

    async def life() -> str:
        waiting = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(DaemonExecutor(), work))
        await asyncio.to_thread(begun.wait)
        waiting.cancel()
        return "stopped"

    try:
        assert asyncio.run(life()) == "stopped"
    finally:
        enough.set()


def test_caller_gets_the_result_or_the_exception() -> None:
    def stumble() -> None:
        raise FieldmouseError("too little was seen", "wait for more pages")

    async def life() -> int:
        loop = asyncio.get_running_loop()
        with pytest.raises(FieldmouseError, match="too little"):
            await loop.run_in_executor(DaemonExecutor(), stumble)
        return await loop.run_in_executor(DaemonExecutor(), pow, 2, 10)

    assert asyncio.run(life()) == 1024

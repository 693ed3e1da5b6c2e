"""Threads that read: each with its own connection, each fetching everything before it is done.

An unfinished cursor would pin the write-ahead log (E25), so none leaves a reader.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, TypeVar, cast

import apsw

from aiosd.application.ports import ReadFailed

T = TypeVar("T")

THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class _Question:
    ask: Callable[[apsw.Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Readers:
    """A pool of reading threads; connections are opened when the first question comes."""

    def __init__(
        self, open_connection: Callable[[], apsw.Connection], threads: int = THREADS
    ) -> None:
        self._open = open_connection
        self._stopped = False
        self._questions: SimpleQueue[_Question | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"store-reader-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def read(self, ask: Callable[[apsw.Connection], T]) -> T:
        """What `ask` returns, asked on a reading thread. Raises ReadFailed."""
        if self._stopped:
            raise ReadFailed("the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._questions.put(_Question(ask, future, loop))
        return cast("T", await future)

    def stop(self) -> None:
        """Answer what waits, then end; blocks until then."""
        self._stopped = True
        for _ in self._threads:
            self._questions.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connection: apsw.Connection | None = None
        while (question := self._questions.get()) is not None:
            if question.future.cancelled():
                continue
            answer: object = None
            error: Exception | None = None
            try:
                if connection is None:
                    connection = self._open()
                answer = question.ask(connection)
            except apsw.Error as failure:
                error = ReadFailed("the store could not be read")
                error.__cause__ = failure
                if connection is not None:
                    connection.close(True)
                    connection = None
            except Exception as failure:
                error = failure
            with suppress(RuntimeError):  # the loop is closed, nobody waits any more
                question.loop.call_soon_threadsafe(_settle, question.future, answer, error)
        if connection is not None:
            connection.close(True)


def _settle(future: asyncio.Future[Any], answer: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)

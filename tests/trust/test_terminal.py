"""`aiosctl run` at a terminal: it asks, a person answers, the task runs or does not."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.stack import Stack


class Terminal:
    """A program on a pseudo-terminal, as a person sees it."""

    def __init__(self, stack: Stack, *words: str) -> None:
        self._stack = stack
        self._words = words
        self._said = b""

    async def __aenter__(self) -> Terminal:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        where = ["--socket", str(self._stack.socket), "--state-dir", str(self._stack.state_dir)]
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiosd.ctl", *self._words, *where),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"PATH": os.environ["PATH"], "HOME": str(self._stack.directory), "TERM": "xterm"},
        )
        os.close(theirs)
        asyncio.get_running_loop().add_reader(self._ours, self._read)
        self._news = asyncio.Event()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def _read(self) -> None:
        try:
            self._said += os.read(self._ours, 65_536)
        except OSError:
            asyncio.get_running_loop().remove_reader(self._ours)
        self._news.set()

    async def see(self, text: str) -> None:
        """Wait until it shows this."""
        try:
            async with asyncio.timeout(30):
                while text.encode() not in self._said:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"no {text!r} in {self._said!r}") from None
        self._said = self._said.partition(text.encode())[2]

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{line}\n".encode())

    async def exit_code(self) -> int:
        """Wait until it has ended."""
        async with asyncio.timeout(30):
            return await self._process.wait()


@pytest.mark.req("R117", "R116", "X35")
async def test_a_person_is_asked_and_says_yes(stack: Stack) -> None:
    async with Terminal(stack, "run", "lab.script.high", "--watch") as terminal:
        await terminal.see("Allow lab.script.high?")
        await terminal.see("allow? [y/N]")
        terminal.type("y")
        await terminal.see('"attempt": 1')
        assert await terminal.exit_code() == 0


@pytest.mark.req("R121")
async def test_a_person_is_asked_and_says_nothing(stack: Stack) -> None:
    async with Terminal(stack, "run", "lab.script.high") as terminal:
        await terminal.see("allow? [y/N]")
        terminal.type("")
        await terminal.see("user_declined")
        assert await terminal.exit_code() == 1


@pytest.mark.req("R118")
async def test_a_critical_one_asks_a_second_time_even_with_approve(stack: Stack) -> None:
    async with Terminal(stack, "run", "lab.script.critical", "--approve") as terminal:
        await terminal.see("allow? [y/N]")
        terminal.type("y")
        await terminal.see("confirm a second time? [y/N]")
        terminal.type("y")
        await terminal.see('"attempt": 1')
        assert await terminal.exit_code() == 0

"""Several local users on one daemon, told apart by the kernel (S-05, S-06, H21)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.adapters.system.mint import LIFETIME_S, Mint, Peer
from aiosd.application.access import Caller
from aiosd.sdk import connect
from tests.support.programs import Programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OWNER = Caller("uid:0", frozenset({"admin:*"}), "owner")

# Warmed up as the owner: the interpreter's files may be closed to the other user.
SCRIPT = """
import asyncio, json, os, sys
from aiosd.sdk import AiosdError, connect, mint
address, uid = sys.argv[1], int(sys.argv[2])
async def look():
    async with connect(address) as client:
        try:
            page = await client.list(limit=200)
            made = await client.create("lab.script", {})
            return {"seen": [one.principal for one in page.tasks], "made": made.principal}
        except AiosdError as error:
            return {"refused": error.reason}
async def main():
    await look()
    mint._kept.clear()
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
    print(json.dumps(await look()))
asyncio.run(main())
"""


@pytest.fixture
async def shared() -> AsyncIterator[Programs]:
    with TemporaryDirectory(prefix="aiosd-") as directory:
        Path(directory).chmod(0o711)
        programs = Programs(Path(directory), multi_user=True)
        try:
            await programs.daemon()
            await programs.lab()
            yield programs
        finally:
            await programs.aclose()


async def as_user(programs: Programs, uid: int) -> Any:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SCRIPT, programs.address, str(uid)),
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return json.loads(out)


@pytest.mark.req("S-05", "S-18", "H21", "H05")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_is_itself_and_sees_only_its_own(shared: Programs) -> None:
    async with connect(shared.address) as owner:
        mine = await owner.create("lab.script", {})
        assert mine.principal == f"uid:{os.geteuid()}"
    first = await as_user(shared, 12_345)
    assert first == {"seen": [], "made": "uid:12345"}
    second = await as_user(shared, 12_345)
    assert second == {"seen": ["uid:12345"], "made": "uid:12345"}


@pytest.mark.req("S-05", "H21")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_nobody_gets_no_token_and_the_socket_alone_says_nothing(shared: Programs) -> None:
    assert await as_user(shared, 65_534) == {"refused": "UNAUTHENTICATED"}


@pytest.mark.req("S-02", "H21")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_without_the_setting_the_kernel_keeps_other_users_out(tmp_path: Path) -> None:
    with TemporaryDirectory(prefix="aiosd-") as directory:
        Path(directory).chmod(0o711)
        programs = Programs(Path(directory))
        try:
            await programs.daemon()
            await programs.lab()
            programs.socket.parent.chmod(0o711)
            found = await as_user(programs, 12_345)
            assert "made" not in found
        finally:
            await programs.aclose()


@pytest.mark.req("S-05", "S-06")
async def test_a_minted_token_holds_for_its_user_and_its_time_only() -> None:
    moment = 1_000.0
    mint = Mint(OWNER, now=lambda: moment)
    token = mint.issue(Peer(7, 4_242, 4_242))
    assert token is not None
    assert token.startswith("v1.4242.4242.")
    caller = await mint.caller(token)
    assert caller is not None
    assert caller.principal == "uid:4242"
    assert not caller.may("permission:approve")
    assert not caller.may("token:manage")
    assert await Mint(OWNER).caller(token) is None
    for forged in (
        token.replace("4242", "0"),
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        "",
        "v1.0.0.9999999999.x.",
        "…",
    ):
        assert await mint.caller(forged) is None
    moment += LIFETIME_S
    assert await mint.caller(token) is None


@pytest.mark.req("S-05", "S-06")
@pytest.mark.parametrize("peer", [Peer(7, 65_534, 0), Peer(0, 1000, 1000), Peer(7, -1, 0)])
def test_who_is_not_known_here_gets_no_token(peer: Peer) -> None:
    assert Mint(OWNER).issue(peer) is None

"""Digests of real directories: order, errors, pause, cancel, and going on after a loss."""

from __future__ import annotations

import hashlib
import json
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiosd.api.provider.v1 import provider_service_pb2 as wire
from aiosd.capabilities import files_digest
from aiosd.capabilities.directory_digest import DirectoryDigest, Position, walk
from aiosd.capabilities.provide import make_provider

if TYPE_CHECKING:
    from tests.sdk.conftest import Attach
    from tests.sdk.reference_daemon import Attempt, ReferenceDaemon


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small directory with everything that a walk can meet."""
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub.txt").write_bytes(b"one")
    (root / "sub" / "two").write_bytes(b"two")
    (root / "sub" / "deep" / "three").write_bytes(b"")
    (root / "a").write_bytes(b"x" * 3_000_000)
    (root / "link").symlink_to(root / "a")
    (root / "loop").symlink_to(root)
    (root / "nowhere").symlink_to(root / "missing")
    os.mkfifo(root / "pipe")
    Path(os.fsdecode(bytes(root) + b"/\xff")).write_bytes(b"odd")
    return root


def digest(root: Path, position: Position | None = None, **options: Any) -> DirectoryDigest:
    walker = DirectoryDigest(root, position or Position(), **options)
    while walker.advance():
        pass
    return walker


def paths(root: Path, **options: Any) -> list[str]:
    return list(walk(root, lambda path, problem: None, **options))


async def begin(daemon: ReferenceDaemon, path: Path, **options: Any) -> Attempt:
    arguments = json.dumps({"path": str(path)})
    return await daemon.begin(files_digest.CAPABILITY_ID, arguments, **options)


def listing(*attempts: Attempt) -> str:
    """The text of the artifact `digests`."""
    return "".join(
        part.text
        for attempt in attempts
        for report in attempt.stored
        if report.artifact_chunk.name == files_digest.LISTING
        for part in report.artifact_chunk.parts
    )


def test_the_walk_is_sorted_and_sees_regular_files_only(tree: Path) -> None:
    odd = os.fsdecode(b"\xff")
    assert paths(tree) == ["a", "sub/deep/three", "sub/two", "sub.txt", odd]


def test_followed_links_are_read_and_loops_are_entered_once(tree: Path) -> None:
    found = paths(tree, follow_symlinks=True)
    assert "link" in found
    assert not any(path.startswith("loop/") for path in found)
    problems = digest(tree, follow_symlinks=True).position.problems
    assert problems == ["nowhere: the link leads nowhere"]


def test_the_listing_is_what_sha256sum_writes(tree: Path) -> None:
    lines = digest(tree).take_lines()
    assert lines[0] == f"{hashlib.sha256(b'x' * 3_000_000).hexdigest()}  a\n"
    assert lines[-1] == f"{hashlib.sha256(b'odd').hexdigest()}  \\xff\n"


def test_the_combined_digest_is_the_documented_chain(tree: Path) -> None:
    walker = digest(tree)
    chain = hashlib.sha256().hexdigest()
    for line in walker.take_lines():
        chain = hashlib.sha256(f"{chain}{line}".encode()).hexdigest()
    assert walker.position.chain == chain


@pytest.mark.parametrize("stop_after", range(6))
def test_a_walk_that_goes_on_from_any_position_ends_alike(tree: Path, stop_after: int) -> None:
    whole = digest(tree)
    first = DirectoryDigest(tree, Position())
    while first.position.files < stop_after and first.advance():
        pass
    first.close()
    stored = json.loads(json.dumps(first.position.to_json(), ensure_ascii=False).encode())
    assert digest(tree, Position.from_json(stored)).position == whole.position


def test_a_stored_position_stays_below_64_kib() -> None:
    name = "\N{GRINNING FACE}" * 1000
    walker = DirectoryDigest(Path("/"), Position())
    for _ in range(200):
        walker._note(name, PermissionError(13, "Permission denied"))
    assert walker.position.errors == 1  # the same path is counted once
    walker.position.problems *= 100
    walker.position.after = name
    stored = json.dumps(walker.position.to_json(), ensure_ascii=False)
    assert len(stored.encode()) < 64 * 1024


async def test_a_directory_is_digested_reported_and_summed_up(
    daemon: ReferenceDaemon, attach: Attach, tree: Path
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, tree)
        result = json.loads((await daemon.ended(attempt)).completed.result)
    expected = digest(tree).position
    assert result == {
        "files": 5,
        "bytes": 3_000_009,
        "sha256": expected.chain,
        "errors": 0,
    }
    assert listing(attempt).count("\n") == 5
    progress = attempt.last("progress")
    assert (progress.percent, progress.current_step, progress.total_steps) == (100, 5, 5)
    report = next(
        one.artifact_chunk for one in attempt.stored if one.artifact_chunk.name == "report"
    )
    assert report.parts[0].text.startswith("# File digests")
    assert json.loads(report.parts[1].data)["sha256"] == expected.chain


async def test_an_empty_directory_is_complete(
    daemon: ReferenceDaemon, attach: Attach, tmp_path: Path
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, tmp_path)
        result = json.loads((await daemon.ended(attempt)).completed.result)
    assert (result["files"], result["bytes"], result["errors"]) == (0, 0, 0)


async def test_a_missing_directory_fails_and_names_path(
    daemon: ReferenceDaemon, attach: Attach, tmp_path: Path
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, tmp_path / "none")
        failure = (await daemon.ended(attempt)).failed
    assert failure.reason == "argument_invalid"
    assert failure.message.startswith("path: ")
    assert json.loads(failure.data) == {"field": "path"}


def test_what_cannot_be_read_is_listed_and_does_not_end_the_walk(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("sub.txt"):
            raise PermissionError(13, "Permission denied")
        return really_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    position = digest(tree).position
    assert (position.files, position.errors) == (4, 1)
    assert position.problems == ["sub.txt: Permission denied"]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Some gigabytes that cost no disk: more than a test has patience for."""
    root = tmp_path / "large"
    root.mkdir()
    for number in range(4):
        with (root / f"file-{number}").open("wb") as file:
            file.truncate(64 * 1024**3)
    return root


async def test_a_pause_leaves_the_processor_idle_and_resume_goes_on(
    daemon: ReferenceDaemon, attach: Attach, large: Path
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, large)
        await daemon.stored(attempt, "progress")
        name = {"task_id": attempt.task.task_id, "attempt": 1}
        daemon.send(pause=wire.Pause(**name))
        await daemon.stored(attempt, "paused")
        used = _processor_seconds()
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats >= beats + 3)  # at least 0.4 s
        assert _processor_seconds() - used < 0.2
        seen = len(attempt.stored)
        daemon.send(resume=wire.Resume(**name))
        await daemon.stored(attempt, "resumed")
        await daemon.until(
            lambda: any(report.HasField("progress") for report in attempt.stored[seen:])
        )
        daemon.cancel(attempt)
        assert (await daemon.ended(attempt)).HasField("canceled")


async def test_progress_is_told_about_ten_times_a_second_at_most(
    daemon: ReferenceDaemon, attach: Attach, large: Path
) -> None:
    async with attach(make_provider()):
        attempt = await begin(daemon, large)
        beats = daemon.heartbeats
        await daemon.until(lambda: daemon.heartbeats >= beats + 4)
        daemon.cancel(attempt)
        await daemon.ended(attempt)
    assert 1 <= attempt.kinds().count("progress") <= 30


@pytest.mark.req("R185")
async def test_a_later_attempt_goes_on_from_the_checkpoint_and_ends_alike(
    daemon: ReferenceDaemon, attach: Attach, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_digest, "SAVE_S", 0.0)
    for number in range(5):
        (tree / f"b{number}").write_bytes(b"x" * 1_000_000)
    async with attach(make_provider()):
        first = await begin(daemon, tree)
        whole = json.loads((await daemon.ended(first)).completed.result)
        saved = [one.checkpoint.state for one in first.stored if one.HasField("checkpoint")]
        assert len(saved) >= 2
        begun = next(state for state in saved if json.loads(state)["position"]["files"] > 0)
        second = await begin(daemon, tree, task_id=first.task.task_id, number=2, checkpoint=begun)
        again = json.loads((await daemon.ended(second)).completed.result)
    assert again == whole
    assert 0 < listing(second).count("\n") < listing(first).count("\n")
    chunks = [one.artifact_chunk for one in second.stored if one.HasField("artifact_chunk")]
    assert all(one.append for one in chunks if one.name == files_digest.LISTING)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB")],
)
def test_sizes_are_written_for_people(count: int, text: str) -> None:
    assert files_digest.readable(count) == text


def test_chunks_of_the_listing_stay_below_their_size() -> None:
    lines = ["x" * 1000 + "\n"] * 1000
    chunks = list(files_digest.chunked(lines))
    assert "".join(chunks) == "".join(lines)
    assert max(map(len, chunks)) <= files_digest.LISTING_BYTES


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

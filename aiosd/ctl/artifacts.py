"""`artifacts TASK` and `artifact get ID`: what a task has produced."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed
from aiosd.ctl.command import command

if TYPE_CHECKING:
    from aiosd.api.v1 import artifact_pb2
    from aiosd.ctl.command import Session, TaskId

commands = typer.Typer()
group = typer.Typer(help="Fetch single artifacts.", no_args_is_help=True)

COLUMNS = ("ARTIFACT", "NAME", "TYPE", "MEDIA TYPE", "BYTES", "COMPLETE")


@command(commands, "artifacts")
async def artifacts(
    session: Session,
    task_id: TaskId,
    save: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write all of them into this directory.")
    ] = None,
) -> None:
    """List the artifacts of a task, or save them."""
    from aiosd.ctl.plain import plain
    from aiosd.ctl.saving import save_artifact

    async with session.client() as client:
        found = await client.artifacts(task_id)
        if save is not None:
            for summary in found:
                whole = await client.artifact(summary.artifact_id, task_id)
                for path in save_artifact(whole, existing_directory(save)):
                    session.out.line(str(path))
            return
    session.out.rows(COLUMNS, map(_row, found), [plain(artifact) for artifact in found])


@command(group, "get")
async def get(
    session: Session,
    artifact_id: Annotated[str, typer.Argument(metavar="ARTIFACT")],
    task: Annotated[str | None, typer.Option(help="The task, if several use the id.")] = None,
    save: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write it into this directory.")
    ] = None,
) -> None:
    """Write the content of an artifact to stdout, or with -o json all that is known of it."""
    from aiosd.ctl.plain import plain
    from aiosd.ctl.saving import content, save_artifact

    async with session.client() as client:
        artifact = await client.artifact(artifact_id, task)
    if save is not None:
        for path in save_artifact(artifact, existing_directory(save)):
            session.out.line(str(path))
    elif not session.out.for_people:
        session.out.value(plain(artifact))
    elif sys.stdout.isatty():
        session.out.line(content(artifact.parts).decode("utf-8", "replace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content(artifact.parts))


def existing_directory(name: str) -> Path:
    """The directory to save into, made if it is missing. Raises Typed."""
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise Typed(f"--save: {name}: {problem.strerror}") from None
    return path


def _row(artifact: artifact_pb2.Artifact) -> tuple[str, ...]:
    return (
        artifact.artifact_id,
        artifact.name,
        artifact.type,
        artifact.mime_type,
        str(artifact.size_bytes),
        "yes" if artifact.sealed else "no",
    )

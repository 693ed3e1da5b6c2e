"""`audit list|verify`: what was done here and by whom, and whether the record of it is whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed
from aiosd.ctl.command import command

if TYPE_CHECKING:
    from pathlib import Path

    from aiosd.ctl.command import Session
    from aiosd.domain.audit import Finding

group = typer.Typer(help="The audit chain.", no_args_is_help=True)

_RECORDS = """
    SELECT sequence, previous_hash, hash, time, event, principal, method, task_id, capability_id,
    decision, details, request_hash FROM audit_records ORDER BY sequence
"""


@command(group, "list")
async def list_records(
    session: Session,
    task: Annotated[str, typer.Option(metavar="TASK", help="Only of this task.")] = "",
    event: Annotated[str, typer.Option(help="Only this event, such as task.created.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 10_000,
) -> None:
    """List the records, oldest first."""
    from aiosd.ctl import trust_calls
    from aiosd.ctl.plain import plain, timestamp

    async with session.client() as client:
        found = await trust_calls.list_audit(client, task, event, limit)
    rows = [
        (
            str(one.sequence),
            timestamp(one.time),
            one.event,
            one.principal,
            one.method or "-",
            one.decision,
            one.task_id or "-",
        )
        for one in found
    ]
    columns = ("NUMBER", "TIME", "EVENT", "PRINCIPAL", "METHOD", "DECISION", "TASK")
    session.out.rows(columns, rows, [plain(one) for one in found])


@command(group, "verify")
async def verify(session: Session) -> int:
    """Check the whole chain; exit code 1 if it was tampered with.

    With --state-dir the files are read, and no daemon needs to run.
    """
    finding = await _find(session)
    value = {
        "intact": finding.intact,
        "record_count": finding.count,
        "broken_at": finding.broken_at,
        "problem": finding.problem,
    }
    if not session.out.for_people:
        session.out.value(value)
    elif finding.intact:
        session.out.line(f"intact: {finding.count} records")
    else:
        session.out.line(f"BROKEN at record {finding.broken_at}: {finding.problem}")
    return 0 if finding.intact else 1


async def _find(session: Session) -> Finding:
    from pathlib import Path

    from aiosd.ctl import trust_calls
    from aiosd.ctl.discovery import find_address, is_own, state_dir
    from aiosd.domain.audit import Finding
    from aiosd.sdk import errors

    if session.target.state_dir:
        return verify_files(Path(session.target.state_dir))
    try:
        async with session.client() as client:
            answer = await trust_calls.verify_audit(client)
    except errors.Unavailable:
        if not is_own(session.target, find_address(session.target)):
            raise  # the files from here are another daemon's
        return verify_files(state_dir(session.target))
    problem = answer.problem or ("" if answer.intact else "the chain is broken")
    return Finding(answer.record_count, answer.broken_at, problem)


def verify_files(directory: Path) -> Finding:
    """Check the chain in a state directory. Raises Typed when it cannot be read."""
    from aiosd.adapters.system.audit_files import anchor_path, audit_key_path, read_anchor
    from aiosd.adapters.system.credentials import read_secret
    from aiosd.adapters.system.directory import UnsafePathError
    from aiosd.application.trust_ports import AnchorBroken
    from aiosd.domain.audit import AuditRecord, Finding, SealedRecord
    from aiosd.domain.audit import verify as verify_chain

    try:
        key = bytes.fromhex(read_secret(audit_key_path(directory)))
        # Read before the records: the chain may grow meanwhile, but never shrink.
        anchor = read_anchor(anchor_path(directory), key)
        with closing(sqlite3.connect(f"file:{directory / 'aiosd.db'}?mode=ro", uri=True)) as store:
            rows = (
                SealedRecord(sequence, AuditRecord(*members), previous, digest)
                for sequence, previous, digest, *members in store.execute(_RECORDS)
            )
            return verify_chain(key, rows, anchor)
    except AnchorBroken as broken:
        return Finding(0, 0, str(broken))
    except (OSError, ValueError, UnsafePathError, sqlite3.Error) as problem:
        raise Typed(f"cannot read the audit in {directory}: {problem}") from None

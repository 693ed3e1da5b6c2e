"""`webhooks list|deliveries|redeliver|rotate`: where events are posted, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.arguments import Typed
from aiosd.ctl.command import TaskId, command

if TYPE_CHECKING:
    from aiosd.ctl.command import Session

group = typer.Typer(help="Webhooks and their deliveries.", no_args_is_help=True)

STATES = ("pending", "succeeded", "dead_letter")


@command(group, "list")
async def list_webhooks(session: Session, task_id: TaskId) -> None:
    """List the webhooks of a task; secrets are never shown."""
    from aiosd.ctl import trust_calls
    from aiosd.ctl.plain import plain, timestamp

    async with session.client() as client:
        found = await trust_calls.list_webhooks(client, task_id)
    rows = [
        (
            webhook.webhook_id,
            webhook.url,
            ",".join(webhook.events) or "all",
            "yes" if webhook.disabled else "no",
            timestamp(webhook.create_time),
        )
        for webhook in found
    ]
    columns = ("WEBHOOK", "URL", "EVENTS", "DISABLED", "CREATED")
    session.out.rows(columns, rows, [plain(webhook) for webhook in found])


@command(group, "deliveries")
async def deliveries(
    session: Session,
    task: Annotated[str, typer.Option(metavar="TASK", help="Only of this task.")] = "",
    state: Annotated[str, typer.Option(help="pending, succeeded or dead_letter.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 200,
) -> None:
    """List deliveries, newest first; dead letters too."""
    from aiosd.ctl import trust_calls
    from aiosd.ctl.plain import field_word, plain

    if state and state not in STATES:
        raise Typed(f"--state: {state!r} is none of {', '.join(STATES)}")
    number = STATES.index(state) + 1 if state else 0
    async with session.client() as client:
        found = await trust_calls.list_deliveries(client, task, number, limit)
    rows = [
        (
            one.delivery_id,
            one.event,
            field_word(one, "state"),
            str(one.attempts),
            str(one.last_status or "-"),
            one.url,
            one.last_error,
        )
        for one in found
    ]
    columns = ("DELIVERY", "EVENT", "STATE", "ATTEMPTS", "STATUS", "URL", "ERROR")
    session.out.rows(columns, rows, [plain(one) for one in found])


@command(group, "redeliver")
async def redeliver(
    session: Session, delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY")]
) -> None:
    """Schedule a dead letter again."""
    from aiosd.ctl import trust_calls
    from aiosd.ctl.plain import plain

    async with session.client() as client:
        again = await trust_calls.redeliver(client, delivery_id)
    if session.out.for_people:
        session.out.line(f"{again.delivery_id} is pending again")
    else:
        session.out.value(plain(again))


@command(group, "rotate")
async def rotate(
    session: Session,
    task_id: TaskId,
    webhook_id: Annotated[str, typer.Argument(metavar="WEBHOOK")],
) -> None:
    """Make a new signing secret; it is shown once, and the old one signs beside it for a day."""
    from aiosd.ctl import trust_calls

    async with session.client() as client:
        secret = await trust_calls.rotate(client, task_id, webhook_id)
    if session.out.for_people:
        session.out.line(secret)
    else:
        session.out.value({"webhook_id": webhook_id, "signing_secret": secret})

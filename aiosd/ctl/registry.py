"""`capabilities` and `providers`: what can be asked for, and who is there to do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from aiosd.ctl.command import command

if TYPE_CHECKING:
    from aiosd.api.v1 import capability_pb2
    from aiosd.ctl.command import Session

commands = typer.Typer()


@command(commands, "capabilities")
async def capabilities(
    session: Session,
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="Only ids that begin with it.")
    ] = "",
    tag: Annotated[str, typer.Option(help="Only with this tag.")] = "",
) -> None:
    """List what can be run, those without an attached provider too."""
    from aiosd.ctl.plain import plain

    async with session.client() as client:
        found = await client.capabilities(namespace=namespace, tag=tag)
    columns = ("CAPABILITY", "LEVEL", "PROVIDERS", "CAN", "DESCRIPTION")
    session.out.rows(columns, map(_row, found), [plain(capability) for capability in found])


@command(commands, "capability")
async def capability(
    session: Session,
    capability_id: Annotated[str, typer.Argument(metavar="CAPABILITY")],
) -> None:
    """Show one capability with its schemas, as JSON."""
    from aiosd.ctl.plain import plain

    async with session.client() as client:
        session.out.value(plain(await client.capability(capability_id)))


@command(commands, "providers")
async def providers(session: Session) -> None:
    """List the providers that are attached now."""
    from aiosd.ctl.plain import plain, timestamp
    from aiosd.ctl.system_calls import list_providers

    async with session.client() as client:
        found = await list_providers(client)
    rows = [
        (
            provider.name,
            provider.session_id,
            "yes" if provider.connected else "no",
            f"{provider.attempts}/{provider.credits}",
            timestamp(provider.attach_time),
            str(len(provider.capability_ids)),
        )
        for provider in found
    ]
    columns = ("NAME", "SESSION", "CONNECTED", "ATTEMPTS", "ATTACHED", "CAPABILITIES")
    session.out.rows(columns, rows, [plain(provider) for provider in found])


def _row(capability: capability_pb2.Capability) -> tuple[str, ...]:
    from aiosd.ctl.plain import field_word

    abilities = (("pause", capability.pausable), ("retry", capability.retry_safe))
    return (
        capability.capability_id,
        field_word(capability, "permission_level"),
        str(capability.provider_count),
        ",".join(name for name, able in abilities if able) or "-",
        capability.description,
    )

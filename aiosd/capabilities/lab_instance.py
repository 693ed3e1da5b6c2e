"""The runtime that the lab pretends to be, for runtime operations."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from aiosd.capabilities.lab_schema import INSTANCE_STATE
from aiosd.sdk import OperationFailed, ProjectionBlocked

if TYPE_CHECKING:
    from aiosd.sdk import OperationContext, Provider

INSTANCE_ID = "lab"
INITIAL_STATE: dict[str, Any] = {"model": "lab-1", "sessions": [], "mcp_servers": []}
# Long enough for a reader to see that the projection is blocked.
CORRECTION_S = 0.1


def register(provider: Provider) -> None:
    """Declare the instance and its methods."""
    provider.instance(INSTANCE_ID, "Lab", dict(INITIAL_STATE), INSTANCE_STATE)
    provider.operation("model.switch")(switch_model)
    provider.operation("session.clear")(clear_session)
    provider.operation("mcp.configure")(configure_mcp)
    provider.operation("agent.restart")(restart_agent)
    provider.operation("lab.script")(run_script)


async def switch_model(operation: OperationContext, params: dict[str, Any]) -> None:
    """`{model}`: make it the model of the instance."""
    model = required(params, "model", str)
    if not model:
        raise invalid("model: must not be empty")
    await operation.commit({**operation.state, "model": model}, {"model": model})


async def clear_session(operation: OperationContext, params: dict[str, Any]) -> None:
    """`{session}`: forget it; one that is not there is cleared already."""
    session = required(params, "session", str)
    sessions = [one for one in operation.state["sessions"] if one != session]
    await operation.commit({**operation.state, "sessions": sessions}, {"session": session})


async def configure_mcp(operation: OperationContext, params: dict[str, Any]) -> None:
    """`{servers}`: make them the MCP servers of the instance."""
    servers = required(params, "servers", list)
    await operation.commit({**operation.state, "mcp_servers": servers}, {"servers": len(servers)})


async def restart_agent(operation: OperationContext, params: dict[str, Any]) -> None:
    """`{}`: a change that leaves the state as it is."""
    await operation.progress("restarting", 1, 1)
    await operation.commit(result={"restarted": True})


async def run_script(operation: OperationContext, params: dict[str, Any]) -> None:
    """`{"steps":[...]}`: sleep_ms, progress, commit, commit_invalid, fail, crash."""
    for step in required(params, "steps", list):
        if not isinstance(step, dict) or len(step) != 1:
            raise invalid("a step is an object with one member")
        ((kind, content),) = step.items()
        await _perform(operation, kind, content)


async def _perform(operation: OperationContext, kind: str, content: Any) -> None:
    match kind, content:
        case "sleep_ms", int():
            await asyncio.sleep(content / 1000)
        case "progress", dict():
            await operation.progress(
                str(content.get("phase", "")), content.get("current", 0), content.get("total", 0)
            )
        case "commit", dict():
            await operation.commit({**operation.state, **content})
        case "commit_invalid", int():
            await _commit_after_mistakes(operation, content)
        case "fail", dict():
            raise OperationFailed(
                content.get("message", "the script says so"), content.get("code", "")
            )
        case "crash", bool():
            if content:
                os.kill(os.getpid(), signal.SIGKILL)
        case _:
            raise invalid(f"no step {kind!r} with this content")


async def _commit_after_mistakes(operation: OperationContext, mistakes: int) -> None:
    """Report a state that breaks the schema so many times, then a good one."""
    good = dict(operation.state)
    for number in range(1, mistakes + 1):
        try:
            await operation.commit({**good, "model": number})
        except ProjectionBlocked:
            await asyncio.sleep(CORRECTION_S)
    await operation.commit(good)


def required(params: dict[str, Any], name: str, kind: type[str] | type[list[Any]]) -> Any:
    """A parameter of this type. Raises OperationFailed, which names it."""
    value = params.get(name)
    if not isinstance(value, kind):
        raise invalid(f"{name}: must be {'a string' if kind is str else 'an array'}")
    return value


def invalid(problem: str) -> OperationFailed:
    """The refusal of parameters that cannot be used; nothing happened."""
    return OperationFailed(f"params: {problem}", "INVALID_INVOCATION")

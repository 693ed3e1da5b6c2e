"""The lab: a provider that does what its tasks say, like an httpbin for tasks (design.md 13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiosd.capabilities import lab_instance
from aiosd.capabilities.lab_schema import SCRIPT
from aiosd.capabilities.lab_steps import Script, steps_of
from aiosd.sdk import Provider, TaskRejected, testing

if TYPE_CHECKING:
    from aiosd.sdk import Offer, TaskContext

NAME = "lab"
TOOL_ID = "lab"
OTHER_TOOL_ID = "lab.other"
BRIEF_TIMEOUT_MS = 500
# The daemon's limits are what a test of them wants to meet, not ours.
CREDITS = 10_000


@dataclass(frozen=True, slots=True)
class Variant:
    """One capability of the lab: all run the same scripts and differ in what they declare."""

    capability_id: str
    description: str
    level: str = "public"
    tool_id: str = TOOL_ID
    pausable: bool = True
    retry_safe: bool = False
    default_timeout_ms: int | None = None


VARIANTS = (
    Variant("lab.script", "Runs a script of steps."),
    *(
        Variant(f"lab.script.{level}", f"Runs a script at permission level {level}.", level)
        for level in ("low", "medium", "high", "critical")
    ),
    Variant(
        "lab.script.retry_safe",
        "Runs a script; a lost attempt may be repeated.",
        retry_safe=True,
    ),
    Variant("lab.script.unpausable", "Runs a script that cannot be paused.", pausable=False),
    Variant("lab.other.script", "Runs a script as another tool.", tool_id=OTHER_TOOL_ID),
    Variant(
        "lab.script.brief",
        "Runs a script that may take half a second unless it is given more time.",
        default_timeout_ms=BRIEF_TIMEOUT_MS,
    ),
)


def make_provider() -> Provider:
    """The lab, ready to run."""
    provider = Provider(NAME, credits=CREDITS)

    async def run(task: TaskContext, arguments: dict[str, Any]) -> Any:
        def freeze(duration_ms: int) -> None:
            testing.freeze(provider, duration_ms)

        return await Script(task, steps_of(arguments, task.attempt), freeze).run()

    for variant in VARIANTS:
        provider.capability(
            variant.capability_id,
            name=variant.capability_id,
            description=variant.description,
            level=variant.level,
            tool_id=variant.tool_id,
            pausable=variant.pausable,
            retry_safe=variant.retry_safe,
            default_timeout_ms=variant.default_timeout_ms,
            input_schema=SCRIPT,
            tags=("lab",),
            screen=reject_at_once,
        )(run)
    lab_instance.register(provider)
    return provider


async def reject_at_once(offer: Offer) -> None:
    """A script that begins with `reject` declines the offer: nothing is executed."""
    steps = steps_of(offer.arguments, offer.attempt)
    if steps and "reject" in steps[0]:
        raise TaskRejected(steps[0]["reject"]["reason"])

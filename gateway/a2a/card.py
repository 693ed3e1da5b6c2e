"""The agent card, made from the capabilities that the daemon knows at the moment (a2a.md 5.11)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict

from aiosd import __version__
from aiosd.api.v1 import capability_pb2, capability_service_pb2
from gateway.a2a import words
from gateway.daemon_channel import DaemonError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.a2a.call import Call
    from gateway.context import GatewayContext
    from gateway.daemon_channel import Caller

NAME: Final = "aiosd"
DESCRIPTION: Final = (
    "A durable task service: every skill is a capability of this machine, chosen by tenant or by "
    "the metadata key capabilityId."
)
DEFAULT_MODES: Final = ("application/json", "text/plain")
_BEARER: Final = "bearer"
_PAGE: Final = 200
_FRESH_S: Final = 1.0
_REQUIRED: Final[dict[str, Any]] = {
    "name": "",
    "description": "",
    "version": "",
    "supportedInterfaces": [],
    "capabilities": {},
    "defaultInputModes": [],
    "defaultOutputModes": [],
    "skills": [],
}


@dataclass(frozen=True, slots=True)
class _Known:
    """Capabilities as they were read at a moment of the monotonic clock."""

    at: float
    capabilities: tuple[capability_pb2.Capability, ...]


class Cards:
    """Makes cards. The public one is read at most once a second, whoever asks for it."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._public = _Known(float("-inf"), ())
        self._started_at = int(time.time())

    async def public(self, caller: Caller, base_url: str) -> tuple[a2a_pb2.AgentCard, int]:
        """The card and when it last changed, in seconds since the epoch.

        While the daemon does not answer it is the card of before.
        """
        now = time.monotonic()
        if now - self._public.at > _FRESH_S:
            try:
                found = await self._list(caller)
            except DaemonError:
                found = self._public.capabilities
            self._public = _Known(now, found)
        capabilities = self._public.capabilities
        times = [one.update_time.seconds for one in capabilities]
        return self._card(base_url, capabilities), max(times, default=self._started_at)

    async def extended(self, call: Call) -> a2a_pb2.AgentCard:
        """The card for a known caller: with examples, and of one skill for a tenant."""
        base_url = call.request.base_url
        try:
            capabilities = await self._list(call.request.caller)
        except DaemonError as refused:
            raise call.refuse(refused) from None
        if call.tenant:
            capabilities = tuple(one for one in capabilities if one.capability_id == call.tenant)
        return self._card(base_url, capabilities, tenant=call.tenant, with_examples=True)

    async def _list(self, caller: Caller) -> tuple[capability_pb2.Capability, ...]:
        daemon = self._context.daemon
        found: list[capability_pb2.Capability] = []
        token = ""
        while True:
            request = capability_service_pb2.ListCapabilitiesRequest(
                page_size=_PAGE, page_token=token
            )
            page = await daemon.call(
                daemon.capabilities.ListCapabilities, request, caller, repeatable=True
            )
            found += page.capabilities
            token = page.next_page_token
            if not token:
                return tuple(found)

    def _card(
        self,
        base_url: str,
        capabilities: Sequence[capability_pb2.Capability],
        *,
        tenant: str = "",
        with_examples: bool = False,
    ) -> a2a_pb2.AgentCard:
        only = capabilities[0] if tenant and capabilities else None
        return a2a_pb2.AgentCard(
            name=(only.name or only.capability_id) if only else NAME,
            description=(only.description or DESCRIPTION) if only else DESCRIPTION,
            version=(only.version or __version__) if only else __version__,
            supported_interfaces=self._interfaces(base_url, tenant),
            capabilities=a2a_pb2.AgentCapabilities(
                streaming=True,
                push_notifications=True,
                extended_agent_card=True,
                extensions=[
                    a2a_pb2.AgentExtension(uri=uri, description=description, required=False)
                    for uri, description in words.EXTENSIONS.items()
                ],
            ),
            security_schemes={
                _BEARER: a2a_pb2.SecurityScheme(
                    http_auth_security_scheme=a2a_pb2.HTTPAuthSecurityScheme(
                        scheme="Bearer", description="A token of this task service."
                    )
                )
            },
            security_requirements=[
                a2a_pb2.SecurityRequirement(schemes={_BEARER: a2a_pb2.StringList()})
            ],
            default_input_modes=DEFAULT_MODES,
            default_output_modes=DEFAULT_MODES,
            skills=[skill(one, with_examples=with_examples) for one in capabilities],
        )

    def _interfaces(self, base_url: str, tenant: str) -> list[a2a_pb2.AgentInterface]:
        http = f"{base_url}{words.BASE_PATH}"
        urls = [("JSONRPC", http), ("HTTP+JSON", http)]
        if self._context.a2a_grpc:
            urls.append(("GRPC", self._context.a2a_grpc))
        return [
            a2a_pb2.AgentInterface(
                url=url,
                protocol_binding=binding,
                protocol_version=words.PROTOCOL_VERSION,
                tenant=tenant,
            )
            for binding, url in urls
        ]


def skill(
    capability: capability_pb2.Capability, *, with_examples: bool = False
) -> a2a_pb2.AgentSkill:
    """A capability as a skill; its id is the tenant that selects it."""
    capability_id = capability.capability_id
    name = capability.name or capability_id
    return a2a_pb2.AgentSkill(
        id=capability_id,
        name=name,
        description=capability.description or name,
        tags=capability.tags or [capability_id.split(".")[0]],
        examples=capability.examples if with_examples else (),
        input_modes=capability.input_modes,
        output_modes=capability.output_modes,
    )


def to_json(card: a2a_pb2.AgentCard) -> dict[str, Any]:
    """The card as JSON: ProtoJSON would leave out what is required and empty."""
    return {**_REQUIRED, **MessageToDict(card)}

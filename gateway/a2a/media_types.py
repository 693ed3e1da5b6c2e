"""Media types of a message against those that a capability declares (a2a.md, decisions)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from a2a.utils.errors import ContentTypeNotSupportedError

from aiosd.api.v1 import capability_service_pb2

if TYPE_CHECKING:
    from a2a.types import a2a_pb2

    from gateway.a2a.call import Call

_OF_CONTENT: Final = {"text": "text/plain", "data": "application/json"}


async def check(call: Call, capability_id: str, message: a2a_pb2.Message) -> None:
    """Raise ContentTypeNotSupportedError for a part that the capability does not read.

    A capability that declares nothing reads everything, as does one for a file without a type.
    """
    request = capability_service_pb2.GetCapabilityRequest(capability_id=capability_id)
    answer = await call.read(call.context.daemon.capabilities.GetCapability, request)
    modes = answer.capability.input_modes
    for index, part in enumerate(message.parts):
        media_type = part.media_type or _OF_CONTENT.get(part.WhichOneof("content") or "", "")
        essence = media_type.partition(";")[0].strip().lower()
        if modes and essence and not any(fnmatchcase(essence, mode.lower()) for mode in modes):
            raise ContentTypeNotSupportedError(
                f"message.parts[{index}]: {essence} is not among {', '.join(modes)}"
            )

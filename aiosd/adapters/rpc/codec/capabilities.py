"""Capabilities."""

from __future__ import annotations

from typing import cast

from aiosd.adapters.rpc.codec.scalars import duration, member, span, timestamp
from aiosd.api.v1 import capability_pb2
from aiosd.application import json_text
from aiosd.domain.capability import Capability, PermissionLevel


def to_capability(capability: Capability, providers: int = 0) -> capability_pb2.Capability:
    """A capability as clients see it."""
    return capability_pb2.Capability(
        capability_id=capability.id,
        name=capability.name or capability.id,
        description=capability.description,
        version=capability.version,
        tool_id=capability.tool,
        input_schema=capability.input_schema,
        output_schema=capability.output_schema,
        permission_level=cast("capability_pb2.PermissionLevel.ValueType", int(capability.level)),
        permissions=capability.permission_ids,
        pausable=capability.pausable,
        retry_safe=capability.retry_safe,
        default_timeout=duration(capability.default_timeout_ms),
        estimated_duration=duration(capability.estimated_duration_ms),
        tags=capability.tags,
        examples=capability.examples,
        input_modes=capability.input_modes,
        output_modes=capability.output_modes,
        provider_count=providers,
        update_time=timestamp(capability.update_time),
    )


def from_capability(message: capability_pb2.Capability, field: str) -> Capability:
    """What a provider declares; raises ArgumentInvalid that names the field."""
    for text in (message.name, message.description, message.version, message.tool_id):
        json_text.check_text(text, field)
    return Capability(
        id=message.capability_id,
        level=member(PermissionLevel, message.permission_level, f"{field}.permission_level"),
        name=message.name,
        description=message.description,
        version=message.version,
        tool_id=message.tool_id,
        input_schema=message.input_schema,
        output_schema=message.output_schema,
        permissions=tuple(message.permissions),
        pausable=message.pausable,
        retry_safe=message.retry_safe,
        default_timeout_ms=span(message.default_timeout, f"{field}.default_timeout"),
        estimated_duration_ms=span(message.estimated_duration, f"{field}.estimated_duration"),
        tags=tuple(message.tags),
        examples=tuple(message.examples),
        input_modes=tuple(message.input_modes),
        output_modes=tuple(message.output_modes),
    )

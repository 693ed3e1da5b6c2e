"""Interruptions, authorization requests and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiosd.adapters.rpc.codec.scalars import duration, member, timestamp
from aiosd.api.v1 import interruption_pb2
from aiosd.application import json_text
from aiosd.domain.content import Option
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.interruption import AuthRequest, AuthResponse, AuthType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiosd.domain.interruption import Interruption


def to_interruption(wait: Interruption) -> interruption_pb2.Interruption:
    """A resume record."""
    return interruption_pb2.Interruption(
        interruption_id=wait.interruption_id,
        kind=cast("interruption_pb2.NeedKind.ValueType", int(wait.kind)),
        action=wait.action,
        prompt=wait.prompt,
        options=[
            interruption_pb2.InputOption(id=one.id, label=one.label, value=one.value)
            for one in wait.options
        ],
        schema=wait.schema,
        auth_request=None if wait.auth_request is None else to_auth_request(wait.auth_request),
        satisfiable_by=wait.satisfiable_by,
        scope=wait.scope,
        create_time=timestamp(wait.create_time),
        expire_time=timestamp(wait.expire_time),
        timeout=duration(wait.timeout_ms),
        idempotency_point=interruption_pb2.IdempotencyPoint(
            attempt=wait.attempt, report_number=wait.report_number
        ),
    )


def from_options(
    messages: Iterable[interruption_pb2.InputOption], field: str
) -> tuple[Option, ...]:
    """Options on offer; ids are required and unique."""
    options: list[Option] = []
    for index, one in enumerate(messages):
        if not one.id or any(known.id == one.id for known in options):
            raise ArgumentInvalid(f"{field}[{index}].id", "must be given and unique")
        for text in (one.id, one.label):
            json_text.check_text(text, f"{field}[{index}]")
        if one.value:
            json_text.parse(one.value, f"{field}[{index}].value")
        options.append(Option(one.id, one.label, one.value))
    return tuple(options)


def to_auth_request(request: AuthRequest) -> interruption_pb2.AuthRequest:
    """What authorization is asked for."""
    return interruption_pb2.AuthRequest(
        type=cast("interruption_pb2.AuthType.ValueType", int(request.type)),
        provider=request.provider,
        authorization_url=request.authorization_url,
        scopes=request.scopes,
        reason=request.reason,
        permission_level=request.permission_level,
        permissions=request.permissions,
        permission_scope=request.permission_scope,
        confirmations_required=request.confirmations_required,
        confirmations=request.confirmations,
    )


def from_auth_request(message: interruption_pb2.AuthRequest, field: str) -> AuthRequest:
    """A provider's request."""
    for text in (message.provider, message.authorization_url, message.reason, *message.scopes):
        json_text.check_text(text, field)
    return AuthRequest(
        type=member(AuthType, message.type, f"{field}.type"),
        provider=message.provider,
        authorization_url=message.authorization_url,
        scopes=tuple(message.scopes),
        reason=message.reason,
    )


def to_auth_response(response: AuthResponse) -> interruption_pb2.AuthResponse:
    """For the attempt that asked, and nobody else."""
    return interruption_pb2.AuthResponse(
        type=cast("interruption_pb2.AuthType.ValueType", int(response.type)),
        authorization_code=response.authorization_code,
        code_verifier=response.code_verifier,
        api_key=response.api_key,
        username=response.username,
        password=response.password,
        certificate=response.certificate,
        approve=response.approve,
    )


def from_auth_response(message: interruption_pb2.AuthResponse, field: str) -> AuthResponse:
    """A caller's answer; a certificate must be PEM (design.md 15)."""
    kind = member(AuthType, message.type, f"{field}.type")
    certificate = message.certificate.strip()
    if kind is AuthType.CERTIFICATE and not (
        certificate.startswith("-----BEGIN ") and certificate.endswith("-----")
    ):
        raise ArgumentInvalid(f"{field}.certificate", "must be PEM text")
    return AuthResponse(
        type=kind,
        authorization_code=message.authorization_code,
        state=message.state,
        api_key=message.api_key,
        username=message.username,
        password=message.password,
        certificate=message.certificate,
        approve=message.approve,
        confirmation_id=message.confirmation_id,
    )

"""The table of settings: name, type, default, bounds and meaning of each (design 14 and 16)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from aiosd.settings.principals import PrincipalSettings
from aiosd.settings.values import (
    HostPort,
    absolute_path,
    each,
    host_name,
    http_url,
    lifetime,
    loopback_address,
    nothing_when_empty,
    optional_address,
    optional_path,
    origin,
    truth,
    webhook_target,
    words,
)

DAY_MS = 86_400_000
MONTH_MS = 30 * DAY_MS

Level = Literal["public", "low", "medium", "high", "critical"]
Words = Annotated[tuple[str, ...], BeforeValidator(words)]
AbsolutePath = Annotated[Path, BeforeValidator(absolute_path)]
ListenAddress = Annotated[HostPort, BeforeValidator(loopback_address)]


class PermissionSettings(BaseModel):
    """The table `[permissions]`: the operator's policy (design 16)."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    auto_grant: Words = Field(
        default=(),
        description="Globs of permission ids granted without asking. Only low and medium ones "
        "are: high and critical always ask.",
    )
    always_deny: Words = Field(
        default=(),
        description="Globs of permission ids refused without asking. Wins over `auto_grant`.",
    )
    require_confirmation: Level = Field(
        default="low",
        description="The lowest level that asks a person. High and critical ask even when this "
        "is above them.",
    )
    default_duration: Annotated[str, AfterValidator(lifetime)] = Field(
        default="session",
        description="How long a grant lives when the request names nothing: `once`, `task`, "
        "`session`, `persistent` or `timed:SECONDS`.",
    )
    max_level: Level = Field(
        default="critical",
        description="The highest level that may be granted at all; requests above it are refused.",
    )


class Settings(BaseModel):
    """Everything that can be configured, validated once at start. Durations are milliseconds."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    state_dir: AbsolutePath = Field(
        description="Directory (0700) of the store, the tokens and the keys. One daemon owns it.",
        json_schema_extra={"default_text": "$XDG_STATE_HOME/aiosd, else ~/.local/state/aiosd"},
    )
    socket: AbsolutePath = Field(
        description="Unix socket of the native gRPC service, at most 107 bytes long.",
        json_schema_extra={
            "default_text": "$XDG_RUNTIME_DIR/aiosd/aiosd.sock, else run/aiosd.sock in `state_dir`"
        },
    )
    store: Literal["sqlite"] = Field(
        default="sqlite",
        description="Where tasks are kept: `sqlite` is a file in `state_dir`.",
    )
    http: ListenAddress = Field(
        default=HostPort("127.0.0.1", 9527),
        description="HOST:PORT of the HTTP gateway. Loopback only; port 0 takes any free port.",
    )
    a2a_grpc: ListenAddress = Field(
        default=HostPort("127.0.0.1", 9528),
        description="HOST:PORT of A2A over gRPC. Loopback only; port 0 takes any free port.",
    )
    grpc_tcp: Annotated[HostPort | None, BeforeValidator(optional_address)] = Field(
        default=None,
        description="HOST:PORT of the native gRPC service over TCP, beside the socket; port 0 "
        "takes any free port. Needs a certificate, or `grpc_insecure_loopback`. Unset: none.",
    )
    grpc_tls_certificate: Annotated[Path | None, BeforeValidator(optional_path)] = Field(
        default=None, description="PEM file with the certificate chain of `grpc_tcp`."
    )
    grpc_tls_key: Annotated[Path | None, BeforeValidator(optional_path)] = Field(
        default=None, description="PEM file with the private key of `grpc_tls_certificate`."
    )
    grpc_tls_client_ca: Annotated[Path | None, BeforeValidator(optional_path)] = Field(
        default=None,
        description="PEM file with the authorities of client certificates. Set: every caller "
        "must show one, and the URI in its subject alternative name is the principal. Unset: "
        "callers need a token.",
    )
    grpc_insecure_loopback: Annotated[bool, BeforeValidator(truth)] = Field(
        default=False,
        description="Serve `grpc_tcp` without TLS. On a loopback address only, and callers need "
        "a token.",
    )
    multi_user: Annotated[bool, BeforeValidator(truth)] = Field(
        default=False,
        description="Let other local users connect: the socket is open to all, calls without a "
        "token are refused, and `mint.sock` beside it gives each user a token for 5 minutes.",
    )
    http_allowed_hosts: Annotated[Words, AfterValidator(each(host_name))] = Field(
        default=(),
        description="Names, HOST or HOST:PORT, that a request's Host header may carry beside the "
        "loopback names. Others are answered 421.",
    )
    http_allowed_origins: Annotated[Words, AfterValidator(each(origin))] = Field(
        default=(),
        description="Origins of web pages, such as https://app.example, that may call the "
        "gateway beside its own. Others are answered 403.",
    )
    http_auth_failures_per_minute: int = Field(
        default=10,
        ge=1,
        le=1_000_000,
        description="Failed authentications that one network address may make in a minute; "
        "further ones are answered 429. Raise it where many callers share an address, as "
        "behind a proxy.",
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="How lines on stderr look: for people or for machines."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe log lines that are written."
    )
    otlp_endpoint: Annotated[str | None, BeforeValidator(http_url)] = Field(
        default=None,
        description="URL of an OpenTelemetry collector (OTLP over gRPC). Unset: traces are not "
        "exported.",
    )

    max_concurrent_tasks: int = Field(
        default=10, ge=1, le=100_000, description="Tasks that may be working at once."
    )
    max_tasks_per_tool: int = Field(
        default=3, ge=1, le=100_000, description="Tasks of one tool that may be working at once."
    )
    max_queue_size: int = Field(
        default=100,
        ge=1,
        le=100_000_000,
        description="Tasks that may wait for a slot; a creation beyond it is refused.",
    )
    default_timeout_ms: int = Field(
        default=0,
        ge=0,
        le=MONTH_MS,
        description="Working time of an asynchronous task that names none and whose capability "
        "declares none; 0 is no limit. A synchronous one gets 30000.",
    )
    sync_wait_ms: int = Field(
        default=60_000,
        ge=1,
        le=DAY_MS,
        description="How long a synchronous or blocking call waits before it answers with a "
        "snapshot; the task goes on.",
    )
    retry_safe_attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="Attempts that a retry-safe task gets in all when its request names no retry.",
    )

    heartbeat_interval_ms: int = Field(
        default=5_000,
        ge=10,
        le=DAY_MS,
        description="How often a provider says that it is alive. Must be below `lease_ms`.",
    )
    lease_ms: int = Field(
        default=15_000,
        ge=20,
        le=DAY_MS,
        description="Silence after which a provider is lost.",
    )
    reattach_window_ms: int = Field(
        default=30_000,
        ge=0,
        le=DAY_MS,
        description="Time in which a provider whose stream broke may come back to its attempts.",
    )
    offer_timeout_ms: int = Field(
        default=5_000,
        ge=1,
        le=DAY_MS,
        description="Time for a provider to accept or reject an offer before it goes back to "
        "the queue.",
    )
    cancel_grace_ms: int = Field(
        default=5_000,
        ge=0,
        le=DAY_MS,
        description="Time for an executor to stop by itself after a cancel before it is forced.",
    )
    pause_timeout_ms: int = Field(
        default=5_000,
        ge=1,
        le=DAY_MS,
        description="Time for a provider to confirm a pause or a resume.",
    )
    drain_grace_ms: int = Field(
        default=5_000,
        ge=0,
        le=600_000,
        description="Time for calls and streams to end when the daemon or the gateway stops.",
    )

    input_timeout_ms: int = Field(
        default=0,
        ge=0,
        le=MONTH_MS,
        description="Wait for an input whose request names no bound; 0 is no limit.",
    )
    auth_timeout_ms: int = Field(
        default=300_000,
        ge=0,
        le=MONTH_MS,
        description="Wait for an authorization whose request names no bound; 0 is no limit.",
    )
    approval_timeout_ms: int = Field(
        default=60_000,
        ge=0,
        le=MONTH_MS,
        description="Wait for a person's approval; 0 is no limit.",
    )

    event_retention: int = Field(
        default=100_000,
        ge=1,
        le=100_000_000,
        description="Events kept per open task; older ones are cut, and a reader is told.",
    )
    task_retention_hours: int = Field(
        default=720, ge=1, le=876_000, description="Hours that a terminal task is kept."
    )
    idempotency_retention_hours: int = Field(
        default=24, ge=1, le=876_000, description="Hours that an idempotency key is remembered."
    )
    max_message_bytes: int = Field(
        default=1_048_576,
        ge=1_024,
        le=67_108_864,
        description="Bytes of one JSON-RPC body; `initialize` reports it as `max_message_size`.",
    )
    max_batch_size: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Calls in one JSON-RPC batch; reported by `initialize`.",
    )
    default_capability: Annotated[str | None, BeforeValidator(nothing_when_empty)] = Field(
        default=None,
        description="Capability that serves A2A messages which name none. Unset: such messages "
        "are refused.",
    )
    a2a_message_dedupe: Annotated[bool, BeforeValidator(truth)] = Field(
        default=False,
        description="Whether an A2A message that is sent again with the same messageId is "
        "answered with the task of the first, without the client asking for it.",
    )
    a2a_check_media_types: Annotated[bool, BeforeValidator(truth)] = Field(
        default=False,
        description="Whether A2A messages with parts of a media type that the capability does "
        "not declare are refused.",
    )

    webhook_allow: Annotated[Words, AfterValidator(each(webhook_target))] = Field(
        default=(),
        description="HOST:PORT or network (CIDR) targets that the webhook guard lets through "
        "although they are private or plain http.",
    )
    webhook_connect_timeout_ms: int = Field(
        default=5_000, ge=1, le=600_000, description="Time to connect for one webhook delivery."
    )
    webhook_timeout_ms: int = Field(
        default=15_000,
        ge=1,
        le=600_000,
        description="Time for one webhook delivery in all, connecting included.",
    )

    permissions: PermissionSettings = Field(default=PermissionSettings())
    per_principal: PrincipalSettings = Field(default=PrincipalSettings())

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.heartbeat_interval_ms >= self.lease_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be less than "
                f"lease_ms ({self.lease_ms})"
            )
        if self.grpc_tcp is not None:
            self._check_grpc_tcp(self.grpc_tcp)
        if self.webhook_connect_timeout_ms > self.webhook_timeout_ms:
            raise ValueError(
                f"webhook_connect_timeout_ms ({self.webhook_connect_timeout_ms}) must be at most "
                f"webhook_timeout_ms ({self.webhook_timeout_ms})"
            )
        return self

    def _check_grpc_tcp(self, address: HostPort) -> None:
        certified = self.grpc_tls_certificate is not None and self.grpc_tls_key is not None
        if self.grpc_insecure_loopback:
            if not address.is_loopback or certified:
                raise ValueError(
                    "grpc_insecure_loopback: only for a loopback address without a certificate"
                )
        elif not certified:
            raise ValueError(
                "grpc_tcp: needs grpc_tls_certificate and grpc_tls_key, or on a loopback "
                "address grpc_insecure_loopback"
            )

"""The composition root: builds the daemon from its parts, starts and stops them in order.

The only file that knows more than one adapter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from aiosd import __version__
from aiosd.adapters.http.webhook_sender import HttpWebhookSender
from aiosd.adapters.rpc.identity import Identities, TokenFiles, approver, owner
from aiosd.adapters.rpc.read_services import SystemService
from aiosd.adapters.rpc.server import RpcServer
from aiosd.adapters.rpc.tracing import exporting
from aiosd.adapters.rpc.webhook_bodies import FormattedBodies
from aiosd.adapters.schemas import JsonSchemas
from aiosd.adapters.sqlite.store import SqliteStore
from aiosd.adapters.system.anchor import AnchorFile
from aiosd.adapters.system.audit_files import anchor_path, audit_key_path
from aiosd.adapters.system.clock import SystemClock
from aiosd.adapters.system.credentials import (
    approver_token_path,
    open_credentials,
    open_key,
    owner_token_path,
    read_secret,
)
from aiosd.adapters.system.ids import SystemIds
from aiosd.adapters.system.mint import NAME, Mint
from aiosd.adapters.system.notify import Notifier
from aiosd.adapters.system.redaction import Redactor
from aiosd.adapters.system.socket_path import SocketPath
from aiosd.adapters.system.state_dir import StateDir, harden_process
from aiosd.adapters.system.vault import KeyedVault, open_vault_key
from aiosd.application.core import Core
from aiosd.application.limits import Limits
from aiosd.application.quotas import Quota
from aiosd.application.trust_ports import Trust
from aiosd.domain.capability import PermissionLevel
from aiosd.domain.permission import Lifetime, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.tokens import Tokens
    from aiosd.settings import Settings

#: Wall-clock steps beyond this are reported as degraded (I46, I48).
JUMP_MS = 5_000

log = structlog.get_logger("aiosd.daemon")


def limits_of(settings: Settings) -> Limits:
    """The settings that rules depend on; the names are the same."""
    return Limits(**{name: getattr(settings, name) for name in Limits.__dataclass_fields__})


def policy_of(settings: Settings) -> Policy:
    """The table `[permissions]`."""
    table = settings.permissions
    return Policy(
        auto_grant=table.auto_grant,
        always_deny=table.always_deny,
        require_confirmation=PermissionLevel[table.require_confirmation.upper()],
        default_duration=Lifetime.parse(table.default_duration),
        max_level=PermissionLevel[table.max_level.upper()],
    )


def _spare_the_collector() -> None:
    """Look for garbage cycles seldom, and never among what was loaded at the start.

    Little of what a call makes is cyclic; at the usual pace the search costs every tenth moment
    of a loaded daemon.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


class Daemon:
    """One daemon on one state directory and one socket."""

    def __init__(self, settings: Settings, redactor: Redactor | None = None) -> None:
        self._settings = settings
        #: Knows live secrets; the one that the log goes through, so that it shows none.
        self._redactor = redactor or Redactor()
        self._stop = asyncio.Event()
        self._grpc_tcp = ""

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or `stop()`.

        Raises AlreadyRunningError or UnsafePathError before anything is touched.
        """
        settings = self._settings
        harden_process()
        with StateDir.open(settings.state_dir) as state_dir:
            socket = SocketPath.claim(settings.socket)
            try:
                audit_key = open_key(audit_key_path(state_dir.path))
                store = SqliteStore.open(state_dir.path / "aiosd.db", audit_key=audit_key)
                try:
                    await self._serve(store, socket, audit_key)
                finally:
                    await store.close()
            finally:
                socket.release()

    def stop(self) -> None:
        """Begin an orderly stop."""
        self._stop.set()

    async def _serve(self, store: SqliteStore, socket: SocketPath, audit_key: bytes) -> None:
        settings = self._settings
        clock = SystemClock()
        core = Core(
            store=store,
            clock=clock,
            ids=SystemIds(clock),
            schemas=JsonSchemas(),
            key=open_key(settings.state_dir / "key"),
            limits=limits_of(settings),
            trust=self._trust(audit_key),
            policy=policy_of(settings),
            quota=Quota(**settings.per_principal.model_dump()),
            exempt=(f"uid:{os.getuid()}",),
        )

        def degraded() -> Sequence[str]:
            jumped = ["clock_jumped"] if abs(clock.jumped_ms()) > JUMP_MS else []
            broken = ["audit_broken"] if core.anchoring.problem else []
            return [*store.health(), *jumped, *broken]

        mint = Mint(owner(f"uid:{os.getuid()}")) if settings.multi_user else None
        server = RpcServer(
            core,
            self._identities(core.tokens, mint),
            exporting(settings.otlp_endpoint or "", __version__),
            SystemService(
                core,
                degraded,
                settings.default_capability or "",
                settings.store,
                str(settings.state_dir),
            ),
        )
        self._bind_tcp(server)
        with socket.binding():
            server.bind(f"unix:{settings.socket}")
            await server.start()
        if mint is not None:
            socket.share()
            await mint.start(socket.path.with_name(NAME))
        waiting = await core.start()
        _spare_the_collector()
        loops = asyncio.ensure_future(core.run())
        await server.open()
        log.info("daemon.ready", socket=str(settings.socket), attempts_awaited=waiting)
        self._announce()
        try:
            await self._until_stopped(loops)
        finally:
            Notifier.from_environ(os.environ).stopping()
            log.info("daemon.stopping")
            if mint is not None:
                mint.stop()
            await core.stop()
            await server.drain()
            await server.stop(settings.drain_grace_ms / 1000)
            loops.cancel()
            with suppress(asyncio.CancelledError):
                await loops

    def _trust(self, audit_key: bytes) -> Trust:
        settings = self._settings
        state_dir = settings.state_dir
        return Trust(
            vault=KeyedVault(open_vault_key(state_dir, os.environ)),
            redaction=self._redactor,
            sender=HttpWebhookSender(
                settings.webhook_allow,
                connect_timeout_ms=settings.webhook_connect_timeout_ms,
                timeout_ms=settings.webhook_timeout_ms,
            ),
            bodies=FormattedBodies(),
            anchor=AnchorFile(anchor_path(state_dir), audit_key),
            audit_key=audit_key,
        )

    def _identities(self, tokens: Tokens, mint: Mint | None) -> Identities:
        credentials = open_credentials(self._settings.state_dir)
        local = owner(f"uid:{os.getuid()}")
        known = {credentials.owner: local, credentials.approver: approver(local.principal)}
        if mint is None:
            return Identities(TokenFiles(local, known), tokens)
        # Many can open the socket: that somebody did says nothing of who it is.
        return Identities(TokenFiles(None, known), tokens, mint)

    def _bind_tcp(self, server: RpcServer) -> None:
        """Serve on TCP where the settings ask for it (S-09)."""
        settings = self._settings
        if settings.grpc_tcp is None:
            return
        address = str(settings.grpc_tcp)
        key, certificate = settings.grpc_tls_key, settings.grpc_tls_certificate
        if key is None or certificate is None:
            port = server.bind(address)
        else:
            authorities = settings.grpc_tls_client_ca
            port = server.bind_tls(
                address,
                read_secret(key).encode(),
                certificate.read_bytes(),
                authorities.read_bytes() if authorities is not None else b"",
            )
        self._grpc_tcp = f"{settings.grpc_tcp.host}:{port}"

    def _announce(self) -> None:
        """Say on stdout, in one line, that and where we serve (design.md 2)."""
        state_dir = self._settings.state_dir
        line = {
            "ready": True,
            "version": __version__,
            "pid": os.getpid(),
            "socket": str(self._settings.socket),
            "token_file": str(owner_token_path(state_dir)),
            "approver_token_file": str(approver_token_path(state_dir)),
        }
        if self._grpc_tcp:
            line["grpc_tcp"] = self._grpc_tcp
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        Notifier.from_environ(os.environ).ready()

    async def _until_stopped(self, loops: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        stopped = asyncio.ensure_future(self._stop.wait())
        either: set[asyncio.Future[Any]] = {stopped, loops}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if loops.done():
            loops.result()  # a loop failed: so does the daemon, and its supervisor starts it again

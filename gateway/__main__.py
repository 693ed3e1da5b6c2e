"""`aios-gateway`: serves the wires over HTTP until it is asked to stop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from contextlib import closing, contextmanager
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Final

import typer
import uvicorn
import uvloop

from aiosd.settings import SettingsError, load_settings
from gateway import logs
from gateway.a2a.grpc_binding import A2aGrpcServer
from gateway.app import create_app, http_limits
from gateway.context import GatewayContext
from gateway.daemon_channel import DaemonChannel
from gateway.http_server import server_config

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from aiosd.settings import Settings
    from aiosd.settings.values import HostPort

EXIT_USAGE: Final = 2
EXIT_FAILED: Final = 1

_log = logging.getLogger("gateway")


class GatewayServer(uvicorn.Server):
    """uvicorn that says when it is ready, and tells streams first when it stops."""

    def __init__(
        self, config: uvicorn.Config, context: GatewayContext, a2a_grpc: A2aGrpcServer
    ) -> None:
        super().__init__(config)
        self._context = context
        self._a2a_grpc = a2a_grpc

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept, then write the readiness line."""
        await super().startup(sockets)
        if self.started:
            addresses = {"http": self._context.http, "a2a_grpc": self._context.a2a_grpc}
            line = {"ready": True, "pid": os.getpid(), **addresses}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            _log.info("gateway.ready", extra=addresses)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take SIGTERM and SIGINT as the wish to stop, and as nothing more afterwards.

        uvicorn would raise them again once it has stopped, which ends the process in the middle
        of its own clean-up.
        """
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams with a word, then the rest as uvicorn does."""
        self._context.stopping.set()
        _log.info("gateway.stopping")
        grace_s = float(self.config.timeout_graceful_shutdown or 0)
        await asyncio.gather(super().shutdown(sockets), self._a2a_grpc.stop(grace_s))


async def serve(settings: Settings) -> bool:
    """Serve until SIGTERM or SIGINT; whether it ever listened. The log says why not."""
    context = GatewayContext(settings, DaemonChannel(f"unix:{settings.socket}"))
    a2a_grpc = A2aGrpcServer(context)
    try:
        # Both ports first: uvicorn would say that one is taken in the middle of its own start.
        with closing(_listen(settings.http)) as listener:
            host, port = listener.getsockname()[:2]
            context.http = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            context.a2a_grpc = await a2a_grpc.start()
            config = server_config(
                create_app(context),
                host=settings.http.host,
                port=settings.http.port,
                limits=http_limits(context),
                graceful_shutdown_seconds=max(1, settings.drain_grace_ms // 1000),
            )
            server = GatewayServer(config, context, a2a_grpc)
            await server.serve(sockets=[listener])
            return server.started
    except OSError as error:
        _log.error("gateway.not_listening", extra={"error": str(error)})
        return False
    finally:
        await a2a_grpc.stop(0)
        await context.daemon.close()


def _listen(address: HostPort) -> socket.socket:
    """A socket of the HTTP port. Raises OSError that names the setting."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(
            f"http: {address} cannot be listened on ({error.strerror}); "
            "choose another with --http HOST:PORT, where port 0 takes any"
        ) from None


def main() -> int:
    """Run the command line; the exit code."""
    try:
        typer.run(_run)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else EXIT_FAILED
    return 0


def _run(
    config: Annotated[Path | None, typer.Option(help="Configuration file (TOML).")] = None,
    state_dir: Annotated[str | None, typer.Option(help="Directory of the daemon.")] = None,
    socket: Annotated[str | None, typer.Option(help="The daemon's Unix socket.")] = None,
    http: Annotated[str | None, typer.Option(help="HOST:PORT; port 0 takes any.")] = None,
    a2a_grpc: Annotated[
        str | None, typer.Option(help="HOST:PORT of A2A over gRPC; port 0 takes any.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
) -> None:
    """Serve AIOS JSON-RPC and the other wires over HTTP."""
    flags: Mapping[str, object] = {
        "state_dir": state_dir,
        "socket": socket,
        "http": http,
        "a2a_grpc": a2a_grpc,
        "log_format": log_format,
        "log_level": log_level,
    }
    try:
        settings = load_settings(flags, os.environ, config)
    except SettingsError as error:
        sys.stderr.write("".join(f"aios-gateway: {problem}\n" for problem in error.problems))
        raise typer.Exit(EXIT_USAGE) from None
    logs.configure(settings.log_format, settings.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        was_up = runner.run(serve(settings))
    if not was_up:
        raise typer.Exit(EXIT_FAILED)


if __name__ == "__main__":
    raise SystemExit(main())

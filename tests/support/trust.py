"""Plain stand-ins for what the core needs of the world besides its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosd.application.trust_ports import Target, Trust

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiosd.application.trust_ports import Rendered
    from aiosd.domain.audit import Head
    from aiosd.domain.event import Event
    from aiosd.domain.task import Task
    from aiosd.domain.webhook import Answer, WebhookFormat


class OpenVault:
    """Seals nothing."""

    def seal(self, secret_id: str, principal: str, secret: bytes) -> bytes:
        """As it is."""
        del secret_id, principal
        return secret

    def open(self, secret_id: str, principal: str, sealed: bytes) -> bytes:
        """As it is."""
        del secret_id, principal
        return sealed


class NoRedaction:
    """Masks nothing."""

    def register(self, secret: str) -> None:
        """Nothing."""

    def forget(self, secret: str) -> None:
        """Nothing."""

    def text(self, text: str) -> str:
        """As it is."""
        return text

    def document(self, text: str) -> str:
        """As it is."""
        return text


class NoSender:
    """Posts nothing."""

    def check(self, url: str) -> Target:
        """Every URL may be used."""
        return Target(url, url)

    async def send(self, url: str, headers: Sequence[tuple[str, str]], content: bytes) -> Answer:
        """Nothing is ever posted."""
        raise AssertionError((url, headers, content))


class NoBodies:
    """Renders nothing."""

    def render(self, form: WebhookFormat, task: Task, event: Event) -> Rendered | None:
        """Nothing to tell."""
        del form, task, event
        return None

    def supports(self, form: WebhookFormat) -> bool:
        """Every format, of which there is nothing to tell."""
        del form
        return True

    def content_type(self, form: WebhookFormat) -> str:
        """Never asked."""
        raise AssertionError(form)


class MemoryAnchor:
    """Keeps the head; survives a simulated daemon."""

    def __init__(self) -> None:
        self._head: Head | None = None

    async def read(self) -> Head | None:
        """What was anchored last."""
        return self._head

    async def write(self, head: Head) -> None:
        """Anchor it."""
        self._head = head


def open_trust() -> Trust:
    """Everything of this file together."""
    return Trust(OpenVault(), NoRedaction(), NoSender(), NoBodies(), MemoryAnchor(), b"a" * 32)

"""Credentials on their way to the attempt that asked for them; in memory only (R113, S-29).

What must survive a restart is derived, not stored: the OAuth state and the PKCE verifier of an
interruption follow from its id and the daemon's key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from aiosd.application.masking import masked
from aiosd.domain.errors import AuthRejected, ReportRefused
from aiosd.domain.interruption import AuthRequest, AuthResponse, AuthType, check_auth

if TYPE_CHECKING:
    from aiosd.application.trust_ports import Redaction
    from aiosd.domain.draft import Draft
    from aiosd.domain.interruption import Interruption
    from aiosd.domain.task import Task

T = TypeVar("T")


class Credentials:
    """Issues what an authorization needs, checks answers, keeps them until they are used."""

    def __init__(self, key: bytes, redaction: Redaction) -> None:
        self._key = key
        self._redaction = redaction
        self._kept: dict[str, AuthResponse] = {}
        #: Values that a provider was given: it may repeat them until its task ends.
        self._exposed: dict[str, set[str]] = {}

    def issue(self, interruption_id: str, request: AuthRequest) -> AuthRequest:
        """The request as it is shown: for oauth2 with `state` and the PKCE challenge in its URL."""
        if request.type is not AuthType.OAUTH2:
            return request
        parts = urlsplit(request.authorization_url)
        if parts.scheme not in ("https", "http") or not parts.netloc:
            raise ReportRefused(
                "REPORT_INVALID", "request_auth.authorization_url: must be an http(s) URL"
            )
        query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True)]
        query = [pair for pair in query if pair[0] != "state"]
        query.append(("state", self._derive("state", interruption_id)))
        if not any(name == "code_challenge" for name, _ in query):
            digest = hashlib.sha256(self._derive("verifier", interruption_id).encode()).digest()
            query.append(("code_challenge", _text(digest)))
            query.append(("code_challenge_method", "S256"))
        return replace(
            request, authorization_url=urlunsplit(parts._replace(query=urlencode(query)))
        )

    def check(self, wait: Interruption, response: AuthResponse) -> AuthResponse:
        """The response as the provider gets it; raises AuthRejected, nothing is kept then."""
        request = wait.auth_request
        if request is None:
            raise AuthRejected("no authorization is asked for")
        check_auth(request, response)
        if response.type is AuthType.OAUTH2:
            expected = self._derive("state", wait.interruption_id)
            if not hmac.compare_digest(expected.encode(), response.state.encode()):
                raise AuthRejected(
                    "auth_response.state: does not match", {"field": "auth_response.state"}
                )
            verifier = self._derive("verifier", wait.interruption_id)
            return replace(response, code_verifier=verifier)
        return response

    def keep(self, task_id: str, response: AuthResponse) -> None:
        """Hold a checked response for the attempt that asked."""
        self._kept[task_id] = response
        known = self._exposed.setdefault(task_id, set())
        for value in response.secrets - known:
            known.add(value)
            self._redaction.register(value)

    def get(self, task_id: str) -> AuthResponse | None:
        """What is held for a task."""
        return self._kept.get(task_id)

    def hide(self, task_id: str, said: T) -> T:
        """What a provider said, without the credentials that its task was given (H25)."""
        return masked(said, self._redaction.text) if task_id in self._exposed else said

    def drop(self, task_id: str) -> None:
        """Forget what is held for a task."""
        self._kept.pop(task_id, None)

    def committed(self, before: Task | None, draft: Draft) -> None:
        """Forget a credential once its attempt goes on or can no longer (Ledger observer)."""
        task = draft.task
        if task.terminal:
            for value in self._exposed.pop(task.id, ()):
                self._redaction.forget(value)
        if task.id not in self._kept or before is None:
            return
        spoke = draft.reporter != "" and before.granted is not None
        if spoke or task.terminal or task.attempt.holder != before.attempt.holder:
            self.drop(task.id)

    def _derive(self, purpose: str, interruption_id: str) -> str:
        message = f"{purpose}:{interruption_id}".encode()
        return _text(hmac.digest(self._key, message, "sha256"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

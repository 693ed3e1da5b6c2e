"""The headers of a webhook post: AIOS's own and those of Standard Webhooks (R125, R126, S-25)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"


def make_secret(random: bytes) -> str:
    """A secret in the form of Standard Webhooks, from at least 24 random bytes."""
    return PREFIX + base64.b64encode(random).decode()


def key_of(secret: str) -> bytes:
    """The key of a Standard Webhooks signature: what `whsec_` spells, else the text itself."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX) + "==") or secret.encode()
        except (binascii.Error, ValueError):
            pass
    return secret.encode()


def aios_signature(secret: str, content: bytes) -> str:
    """`sha256=` and the HMAC over the raw bytes, keyed with the secret's UTF-8 text (X21)."""
    return "sha256=" + hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def standard_signature(secret: str, delivery_id: str, seconds: int, content: bytes) -> str:
    """`v1,` and the signature over id, time and content."""
    signed = b"%s.%d.%s" % (delivery_id.encode(), seconds, content)
    return "v1," + base64.b64encode(hmac.digest(key_of(secret), signed, "sha256")).decode()


def aios_headers(delivery_id: str, event: str, timestamp: str) -> list[tuple[str, str]]:
    """What names a delivery on the AIOS wire; `timestamp` is that of the attempt."""
    return [
        ("X-AIOS-Event", event),
        ("X-AIOS-Delivery-Id", delivery_id),
        ("X-AIOS-Timestamp", timestamp),
    ]


def signature_headers(
    secrets: tuple[str, ...], delivery_id: str, seconds: int, content: bytes, *, aios: bool
) -> list[tuple[str, str]]:
    """Signatures by every secret that is valid now, the newest first."""
    headers = [("webhook-id", delivery_id), ("webhook-timestamp", str(seconds))]
    if secrets:
        signatures = [standard_signature(one, delivery_id, seconds, content) for one in secrets]
        headers.append(("webhook-signature", " ".join(signatures)))
        if aios:
            headers.append(("X-AIOS-Signature", aios_signature(secrets[0], content)))
    if aios and len(secrets) > 1:
        headers.append(("X-AIOS-Signature-Previous", aios_signature(secrets[1], content)))
    return headers

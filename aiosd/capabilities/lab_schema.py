"""What the lab's scripts may look like: JSON Schemas that refuse a malformed step at creation."""

from __future__ import annotations

from typing import Any

from aiosd.capabilities.lab_parts import REFERENCES, TYPES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
#: The annotation makes this argument the scope that is asked for (docs/permissions.md).
SCOPE: Schema = {"type": "string", "maxLength": 1024, "x-aios-permission-scope": True}
FLAG: Schema = {"type": "boolean"}
MILLISECONDS: Schema = {"type": "integer", "minimum": 0, "maximum": 7 * 24 * 3600 * 1000}
TIMEOUT: Schema = {**MILLISECONDS, "minimum": 1}
COUNT: Schema = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
ID: Schema = {"type": "string", "minLength": 1, "maxLength": 128}

LOG_LEVELS = ["debug", "info", "warn", "error", "fatal"]
AUTH_TYPES = ["oauth2", "api_key", "password", "certificate"]
MESSAGE_STATES = ["streaming", "completed", "failed", "refused", "cancelled"]
STOP_REASONS = [
    *("end_turn", "max_tokens", "tool_use", "user_stop", "timeout"),
    *("error", "refused", "content_filter", "agent_lost"),
]


def record(*required: str, **members: Schema | bool) -> Schema:
    """An object with these members and no others."""
    return {
        "type": "object",
        "properties": members,
        "required": list(required),
        "additionalProperties": False,
    }


def one_of(**steps: Schema) -> Schema:
    """An object with exactly one of these members."""
    return {**record(**steps), "minProperties": 1, "maxProperties": 1}


def _content(kind: str) -> Schema:
    if kind == "text":
        return TEXT
    if kind == "data":
        return {"type": "object"}
    return {
        "type": "object",
        "required": ["uri"],
        "properties": {
            "uri": {"type": "string", "minLength": 1},
            "mime_type": TEXT,
            "name": TEXT,
            "size": {"type": "integer", "minimum": 0},
            "duration_ms": {"type": "integer", "minimum": 0},
        },
    }


def _of_type(kind: str) -> Schema:
    """If a part says that it is of this type, it has this content and no other."""
    others: dict[str, Schema | bool] = {other: False for other in TYPES if other != kind}
    return {
        "if": {"properties": {"type": {"const": kind}}},
        "then": {"required": [kind], "properties": {kind: _content(kind), **others}},
    }


PART: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": [*TYPES]}, "metadata": {"type": "object"}},
    "allOf": [_of_type(kind) for kind in ("text", "data", *REFERENCES)],
}
PARTS: Schema = {"type": "array", "items": {"$ref": "#/$defs/part"}}
OPTION: Schema = {
    "anyOf": [ID, {"type": "object", "required": ["id"], "properties": {"id": ID, "label": TEXT}}]
}
RESULT: Schema = record(result={})
ENDING: Schema = record(
    code={"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    message=TEXT,
    retryable=FLAG,
    data={"type": "object"},
    reason=TEXT,
)

STEP: Schema = one_of(
    sleep_ms=MILLISECONDS,
    progress=record(
        "percent",
        percent={"type": "number", "minimum": 0, "maximum": 100},
        message=TEXT,
        current_step=COUNT,
        total_steps=COUNT,
    ),
    log=record("message", level={"enum": LOG_LEVELS}, message=TEXT),
    artifact=record(
        "name",
        "parts",
        name=TEXT,
        type=TEXT,
        mime_type=TEXT,
        artifact_id=ID,
        metadata={"type": "object"},
        parts=PARTS,
    ),
    chunk=record(
        "artifact_id",
        artifact_id=ID,
        name=TEXT,
        type=TEXT,
        mime_type=TEXT,
        position={"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        append=FLAG,
        last=FLAG,
        parts=PARTS,
    ),
    ask=record(
        "prompt",
        prompt={"type": "string", "minLength": 1},
        options={"type": "array", "items": OPTION},
        schema={"type": ["object", "boolean"]},
        timeout_ms=TIMEOUT,
    ),
    auth=record(
        "type",
        type={"enum": AUTH_TYPES},
        provider=TEXT,
        authorization_url=TEXT,
        scopes={"type": "array", "items": TEXT},
        reason=TEXT,
        timeout_ms=TIMEOUT,
    ),
    message=record(
        "text",
        text=TEXT,
        status={"enum": MESSAGE_STATES},
        stop_reason={"enum": STOP_REASONS},
        message_id=ID,
    ),
    direct_message=record("text", text=TEXT),
    fail=ENDING,
    reject=record("reason", reason=TEXT),
    complete=RESULT,
    complete_twice=RESULT,
    late_complete_ms=MILLISECONDS,
    touch={"type": "string", "pattern": "^/[^\\u0000]*$"},
    crash=FLAG,
    freeze_ms=MILLISECONDS,
    ignore_cancel=FLAG,
    by_attempt={"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/steps"}},
)

SCRIPT: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"steps": {"$ref": "#/$defs/steps"}, "scope": SCOPE},
    "$defs": {
        "part": PART,
        "step": STEP,
        "steps": {"type": "array", "maxItems": 10_000, "items": {"$ref": "#/$defs/step"}},
    },
}

OPERATION_STEP: Schema = one_of(
    sleep_ms=MILLISECONDS,
    progress=record(phase=TEXT, current=COUNT, total=COUNT),
    commit={"type": "object"},
    commit_invalid={"type": "integer", "minimum": 0, "maximum": 1000},
    fail=record(code=TEXT, message=TEXT),
    crash=FLAG,
)

INSTANCE_STATE: Schema = {
    "type": "object",
    "required": ["model", "sessions", "mcp_servers"],
    "properties": {
        "model": {"type": "string", "minLength": 1},
        "sessions": {"type": "array", "items": TEXT},
        "mcp_servers": {"type": "array"},
    },
}

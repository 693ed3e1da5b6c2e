"""Log lines have names and fields, one line each, and no secret in any form."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from opentelemetry import trace

from aiosd.adapters.system.logging import configure_logging
from aiosd.adapters.system.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = 'hunter2"\\kräftig'


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def logged(stream: io.StringIO) -> dict[str, Any]:
    line = json.loads(stream.getvalue())
    assert isinstance(line, dict)
    return line


def redacted(**event: object) -> dict[str, Any]:
    redactor = Redactor()
    redactor.register(SECRET)
    return dict(redactor(None, "info", event))


def test_a_json_line_has_event_level_time_and_fields(stream: io.StringIO) -> None:
    configure_logging("json", stream=stream)

    structlog.get_logger("aiosd.test").info("task.started", task_id="task-1", attempt=2)

    line = logged(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "task.started",
        "level": "info",
        "logger": "aiosd.test",
        "task_id": "task-1",
        "attempt": 2,
    }


def test_a_text_line_stays_one_line(stream: io.StringIO) -> None:
    configure_logging("text", stream=stream)

    structlog.get_logger("t").warning("a.b", note="x y\n2026 error forged", empty="", n=1, ok="z")

    line = stream.getvalue()
    assert line.count("\n") == 1 and "\n2026" not in line
    assert "a.b" in line and "n=1" in line and "ok=z" in line and 'empty=""' in line
    assert '"x y\\n2026 error forged"' in line


def test_terminal_control_characters_are_escaped(stream: io.StringIO) -> None:
    configure_logging("text", stream=stream)

    logging.getLogger("library").error("red \x1b[31m \x9b31m text")

    assert stream.getvalue().rstrip("\n").isprintable()
    assert "\\u001b[31m" in stream.getvalue()


def test_lines_below_the_level_are_not_written(stream: io.StringIO) -> None:
    configure_logging("json", "warning", stream=stream)

    structlog.get_logger().info("a.b")
    logging.getLogger("library").info("c")

    assert stream.getvalue() == ""


def test_the_journal_gets_priorities_on_every_line(stream: io.StringIO) -> None:
    configure_logging("text", stream=stream, journal=True)

    try:
        raise KeyError("x")
    except KeyError:
        structlog.get_logger().exception("a.b")

    lines = stream.getvalue().splitlines()
    assert len(lines) > 2 and all(line.startswith("<3>") for line in lines)


def test_a_line_names_its_trace(stream: io.StringIO) -> None:
    configure_logging("json", stream=stream)
    context = trace.SpanContext(0xABC, 0xDEF, is_remote=False)

    with trace.use_span(trace.NonRecordingSpan(context)):
        structlog.get_logger().info("a.b")

    assert logged(stream)["trace_id"] == f"{0xABC:032x}"
    assert logged(stream)["span_id"] == f"{0xDEF:016x}"


@pytest.mark.req("S-31", "I40", "R113")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_live_secret_is_masked_in_messages_fields_and_exceptions(
    stream: io.StringIO, log_format: Any
) -> None:
    configure_logging(log_format, stream=stream).register(SECRET)

    def fail(local_value: str) -> None:
        raise ValueError(f"refused {SECRET}")

    try:
        fail("a-local-value-of-the-frame")
    except ValueError:
        structlog.get_logger().exception("a.b", note=f"<{SECRET}>", deep=[{"x": (SECRET,)}])
        logging.getLogger("library").exception("with %s", SECRET)

    text = stream.getvalue()
    assert text.count("ValueError: refused ***") == 2
    assert "hunter2" not in text
    assert "local_value =" not in text and "a-local-value-of-the-frame'" not in text


@pytest.mark.req("S-31")
@pytest.mark.parametrize(
    "key",
    [
        "Authorization",
        "set-cookie",
        "access_token",
        "client_secret",
        "PASSWORD",
        "api-key",
        "apikey",
        "x_api_key",
        "credentials",
        "private_key",
        "privateKey",
    ],
)
def test_values_under_secret_names_are_masked_however_deep(key: str) -> None:
    event = redacted(a=[{"b": {key: "value"}}], **{key: ["value"]})

    assert event == {"a": [{"b": {key: "***"}}], key: "***"}


@pytest.mark.req("S-31")
def test_json_inside_strings_is_redacted_too() -> None:
    nested = json.dumps({"a": json.dumps([{"password": "value", "n": 1}])})

    event = redacted(note=nested, plain='{"n": 1}', broken='{"password": "x', digits="[1")

    assert json.loads(json.loads(event["note"])["a"]) == [{"password": "***", "n": 1}]
    assert event["plain"] == '{"n": 1}'
    assert event["digits"] == "[1"


@pytest.mark.req("S-31")
def test_a_live_secret_is_masked_in_the_spellings_of_json_and_repr() -> None:
    event = redacted(a=f"text {json.dumps(SECRET)}", b=f"text {SECRET!r}", **{f"k {SECRET}": 1})

    assert "hunter2" not in str(event)


@pytest.mark.req("S-31")
def test_bearer_tokens_are_masked_without_being_known() -> None:
    event = redacted(a="sent Bearer abc.def-123==", b="got aios_0123456789abcdefghij")

    assert event == {"a": "sent Bearer ***", "b": "got ***"}


@pytest.mark.req("S-31")
def test_request_bodies_are_left_out() -> None:
    event = redacted(arguments={"a": 1}, request="x", deep={"params": "y"}, raw=b"abc")

    assert event == {
        "arguments": "[omitted]",
        "request": "[omitted]",
        "deep": {"params": "[omitted]"},
        "raw": "[3 bytes]",
    }


def test_a_forgotten_secret_is_masked_no_more() -> None:
    redactor = Redactor()
    redactor.register("longsecret")
    redactor.register("longsecret")

    redactor.forget("longsecret")
    assert redactor.text("longsecret") == "***"
    redactor.forget("longsecret")
    assert redactor.text("longsecret") == "longsecret"


def test_short_values_are_never_taken_for_secrets() -> None:
    redactor = Redactor()
    redactor.register("task")

    assert redactor.text("task.started") == "task.started"


def test_a_secret_inside_another_does_not_uncover_the_rest() -> None:
    redactor = Redactor()
    redactor.register("12345678")
    redactor.register("12345678-and-more")

    assert redactor.text("12345678-and-more") == "***"


def test_endless_and_huge_values_are_cut() -> None:
    endless: list[object] = []
    endless.append(endless)

    event = redacted(endless=endless, huge="x" * 100_000)

    assert "[omitted]" in str(event["endless"])
    assert len(event["huge"]) < 20_000

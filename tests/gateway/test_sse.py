from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import sse, strict_json
from gateway.sse import Frame, MalformedEventIdError
from tests.support.sse_parser import ServerSentEvent, SseParser, parse_stream

any_text = st.text(st.characters(exclude_categories=["Cs"]))
HOSTILE_TEXTS = [
    "a\ndata: x\n\nevent: fake",
    "\r",
    "\r\n\r\nid: evt-999\r\n",
    "\u2028",
    "\u2029\u0085\x0b\x0c\x1c\x1d\x1e",
    "x\n",
    "\ufeff",
    ": comment",
    "\U0001f600",
]


@pytest.mark.req("R064")
def test_a_frame_is_id_event_and_one_line_of_json() -> None:
    written = sse.encode([Frame('{"task_id":"t","é":1}', event="task.status", id="evt-001")])
    assert written.decode() == 'id: evt-001\nevent: task.status\ndata: {"task_id":"t","é":1}\n\n'


@pytest.mark.req("H19")
@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=ascii)
def test_a_text_that_looks_like_frames_stays_one_string_of_one_event(text: str) -> None:
    frame = Frame(strict_json.dumps({"message": text}), event="task.log", id="evt-007")
    (event,) = parse_stream(sse.encode([frame]))
    assert (event.type, event.last_event_id) == ("task.log", "evt-007")
    assert strict_json.loads(event.data.encode()) == {"message": text}


@pytest.mark.req("H19", "R064")
@given(st.lists(any_text.filter(lambda t: "\x00" not in t), max_size=5), st.integers(1, 64))
def test_any_texts_survive_in_any_chunks(texts: list[str], size: int) -> None:
    frames = [
        Frame(strict_json.dumps([text]), event="task.progress", id=sse.format_event_id(n))
        for n, text in enumerate(texts, start=1)
    ]
    stream = sse.encode(frames)
    parser = SseParser()
    events = [
        event
        for start in range(0, len(stream), size)
        for event in parser.feed(stream[start : start + size])
    ]
    assert [strict_json.loads(event.data.encode()) for event in events] == [[t] for t in texts]
    assert [sse.parse_event_id(event.last_event_id) for event in events] == list(
        range(1, len(texts) + 1)
    )


@pytest.mark.req("H19")
@given(any_text.filter(lambda t: "\x00" not in t))
def test_a_reader_that_breaks_lines_carelessly_reads_the_same(text: str) -> None:
    lines = sse.encode([Frame(strict_json.dumps(text))]).decode().splitlines()
    assert len(lines) == 2
    assert strict_json.loads(lines[0].removeprefix("data: ").encode()) == text


def test_many_frames_are_one_chunk() -> None:
    frames = [Frame(str(n), event="message", id=str(n)) for n in range(1, 101)]
    assert sse.encode(frames) == b"".join(sse.encode([frame]) for frame in frames)
    assert len(parse_stream(sse.encode(frames))) == 100
    assert sse.encode([]) == b""


def test_without_a_name_a_reader_sees_a_message_and_keeps_its_last_id() -> None:
    stream = sse.encode([Frame("1", id="evt-001"), Frame("2")])
    assert parse_stream(stream) == [
        ServerSentEvent("message", "1", "evt-001"),
        ServerSentEvent("message", "2", "evt-001"),
    ]


@pytest.mark.req("H19")
@pytest.mark.parametrize(
    "frame",
    [
        Frame("{}", event="task\nstatus"),
        Frame("{}", event="task status"),
        Frame("{}", event=""),
        Frame("{}", event="a" * 65),
        Frame("{}", event="task.status\n"),
        Frame("{}", id="evt-1\r"),
        Frame("{}", id="evt-1\n"),
        Frame("{}", id="\x00"),
        Frame("{}", id=""),
        Frame("{}", id="é"),
        Frame("{\n}"),
        Frame("{}\r"),
    ],
    ids=repr,
)
def test_what_could_break_a_frame_is_not_written(frame: Frame) -> None:
    with pytest.raises(ValueError, match="event"):
        sse.encode([frame])


def test_keep_alive_and_retry_reach_no_event_handler() -> None:
    parser = SseParser()
    assert parser.feed(sse.KEEP_ALIVE + sse.retry(1500) + sse.KEEP_ALIVE) == []
    assert parser.reconnection_ms == 1500
    assert parser.comments == [" keep-alive", " keep-alive"]
    with pytest.raises(ValueError, match="negative"):
        sse.retry(-1)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "evt-001"), (999, "evt-999"), (1000, "evt-1000"), (10**9, "evt-1" + "0" * 9)],
)
def test_event_ids_are_padded_to_three_digits(number: int, text: str) -> None:
    assert sse.format_event_id(number) == text
    assert sse.parse_event_id(text) == number


@given(st.integers(1, 10**15 - 1), st.integers(1, 10**15 - 1))
def test_event_ids_compare_as_numbers(one: int, other: int) -> None:
    first, second = sse.format_event_id(one), sse.format_event_id(other)
    assert (sse.parse_event_id(first) < sse.parse_event_id(second)) == (one < other)


def test_leading_zeros_carry_no_meaning_and_zero_is_before_the_first() -> None:
    assert sse.parse_event_id("evt-7") == sse.parse_event_id("evt-0007") == 7
    assert sse.parse_event_id("evt-000") == 0
    with pytest.raises(ValueError, match="from 1"):
        sse.format_event_id(0)


@pytest.mark.req("R078")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "evt",
        "evt-",
        "evt--1",
        "evt-1x",
        "evt-1.0",
        "evt-+1",
        "EVT-001",
        " evt-001",
        "evt-001\n",
        "evt-\u0661",
        "evt-1_0",
        "evt-" + "9" * 16,
        "evt-" + "9" * 5000,
    ],
    ids=lambda t: repr(t)[:20],
)
def test_a_malformed_event_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedEventIdError, match="evt-001"):
        sse.parse_event_id(text)


def test_the_parser_follows_the_examples_of_the_standard() -> None:
    assert parse_stream(b"\xef\xbb\xbfdata: YHOO\ndata: +2\ndata: 10\n\n") == [
        ServerSentEvent("message", "YHOO\n+2\n10", "")
    ]
    assert parse_stream(
        b": test\n\ndata: first\r\nid: 1\r\n\r\ndata:second\rid\r\rdata:  third\n\ndata: cut"
    ) == [
        ServerSentEvent("message", "first", "1"),
        ServerSentEvent("message", "second", ""),
        ServerSentEvent("message", " third", ""),
    ]
    assert parse_stream(b"data\n\ndata\ndata\n\ndata:") == [
        ServerSentEvent("message", "", ""),
        ServerSentEvent("message", "\n", ""),
    ]

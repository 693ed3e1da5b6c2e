"""Lines and kept text of one stream, however its bytes arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiosd.capabilities.output_capture import LINE_BYTES, PART_BYTES, OutputCapture


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_lines_do_not_depend_on_how_the_bytes_are_cut(pieces: list[bytes]) -> None:
    whole, cut = OutputCapture(1000), OutputCapture(1000)
    data = b"".join(pieces)
    expected = whole.feed(data) + whole.finish()
    lines = [line for piece in pieces for line in cut.feed(piece)] + cut.finish()
    assert lines == expected
    assert "".join(cut.text_parts()) == "".join(whole.text_parts())


def test_a_long_line_is_cut_and_the_next_one_is_whole() -> None:
    capture = OutputCapture(10)
    lines = capture.feed(b"x" * (3 * LINE_BYTES)) + capture.feed(b"x\nnext\n")
    assert len(lines) == 2
    assert len(lines[0].encode()) == LINE_BYTES
    assert lines[0].endswith(" [... cut]")
    assert lines[1] == "next"


def test_a_line_of_bytes_that_are_no_text_stays_within_its_bound() -> None:
    capture = OutputCapture(10)
    (line,) = capture.feed(b"\xff" * (LINE_BYTES + 1))
    assert len(line.encode()) <= LINE_BYTES


def test_kept_text_is_cut_at_the_limit_and_marked() -> None:
    capture = OutputCapture(4)
    capture.feed(b"abc")
    capture.feed(b"defg")
    assert "".join(capture.text_parts()) == "abcd\n[... truncated: 3 more bytes]\n"


def test_parts_stay_below_their_size_at_the_longest_characters() -> None:
    capture = OutputCapture(1024 * 1024)
    capture.feed("\N{GRINNING FACE}".encode() * (200 * 1024))
    assert max(len(part.encode()) for part in capture.text_parts()) <= PART_BYTES


def test_a_silent_stream_has_no_text() -> None:
    assert OutputCapture(10).text_parts() == []

from __future__ import annotations

import contextlib
import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import strict_json
from gateway.strict_json import StrictJsonError

REFUSED = [
    (b"", "syntax"),
    (b" \n", "syntax"),
    (b"{", "syntax"),
    (b'{"a":1}x', "syntax"),
    (b'{"a":1}{"a":1}', "syntax"),
    (b"{'a':1}", "syntax"),
    (b'{"a":1,}', "syntax"),
    (b"[1,]", "syntax"),
    (b"// c\n1", "syntax"),
    (b"01", "syntax"),
    (b"+1", "syntax"),
    (b".5", "syntax"),
    (b"1.", "syntax"),
    (b"0x10", "syntax"),
    (b"True", "syntax"),
    (b'"a\nb"', "syntax"),
    (b'"a\tb"', "syntax"),
    (b'"\\x41"', "syntax"),
    (b'"\\u12"', "syntax"),
    (b'"open', "syntax"),
    ("\u00a01".encode(), "syntax"),
    ("\u0661".encode(), "syntax"),
    (b"NaN", "syntax"),
    (b"[Infinity]", "syntax"),
    (b'{"a":-Infinity}', "syntax"),
    (b"\xff", "encoding"),
    (b'"\xc3("', "encoding"),
    (b'"\xc0\x80"', "encoding"),
    (b'"\xed\xa0\x80"', "encoding"),
    (b'"\xf4\x90\x80\x80"', "encoding"),
    (b"\xef\xbb\xbf{}", "encoding"),
    ('{"a":1}'.encode("utf-16"), "encoding"),
    ('{"a":1}'.encode("utf-16-le"), "encoding"),
    ('{"a":1}'.encode("utf-16-be"), "encoding"),
    ('{"a":1}'.encode("utf-32-le"), "encoding"),
    (b'"a\x00b"', "encoding"),
    (b"1e400", "number"),
    (b"-1e400", "number"),
    (b"[1.0e309]", "number"),
    (b"9007199254740993", "number"),
    (b"-9007199254740993", "number"),
    (b"1" + b"0" * 17, "number"),
    (b"9" * 5000, "number"),
    (b"-" + b"9" * 5000, "number"),
    (b"0." + b"3" * 5000, "number"),
    (b'{"a":1,"a":1}', "duplicate_key"),
    (b'[{"x":{"b":1,"c":2,"b":3}}]', "duplicate_key"),
    (b'{"a":1,"\\u0061":2}', "duplicate_key"),
    (b'"\\ud800"', "character"),
    (b'"\\uDFFF"', "character"),
    (b'["\\ude00\\ud83d"]', "character"),
    (b'{"\\ud83d":1}', "character"),
    (b'"\\u0000"', "character"),
    (b'{"a\\u0000":1}', "character"),
    (b"[" * 33 + b"]" * 33, "depth"),
    (b'{"a":' * 33 + b"1" + b"}" * 33, "depth"),
    (b"[" * 1000 + b"]" * 1000, "depth"),
    (b"[" * 100_000, "depth"),
    (b'{"a":' * 100_000, "depth"),
    (b"[" * 1000 + b"]" * 999, "depth"),
    (b'"' + b"a" * (256 * 1024 + 1) + b'"', "length"),
    (b'{"' + b"k" * (256 * 1024 + 1) + b'":1}', "length"),
    (b'"' + "\u20ac".encode() * (256 * 1024 // 3 + 1) + b'"', "length"),
]

ACCEPTED: list[tuple[bytes, object]] = [
    (b" [ 1 , 2 ]\r\n\t", [1, 2]),
    (b"-0", 0),
    (b"9007199254740992", 2**53),
    (b"-9007199254740992", -(2**53)),
    (b"6.02e23", 6.02e23),
    (b"1e-400", 0.0),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (b'"\\\\u0000"', "\\u0000"),
    (b'"\\\\ud800"', "\\ud800"),
    ('"\U0001f600\u2028\u0085"'.encode(), "\U0001f600\u2028\u0085"),
    (b'{"":{}}', {"": {}}),
    (b"[" + b"[]," * 99 + b"[]]", [[]] * 100),
    (b'"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["', "[" * 38),
    (b'"' + b"a" * (256 * 1024) + b'"', "a" * (256 * 1024)),
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.req("S-16")
@pytest.mark.parametrize(("raw", "kind"), REFUSED, ids=lambda v: repr(v)[:32])
def test_a_body_that_two_readers_could_understand_differently_is_refused(
    raw: bytes, kind: str
) -> None:
    with pytest.raises(StrictJsonError) as caught:
        strict_json.loads(raw)
    assert caught.value.kind == kind
    assert len(caught.value.message) < 120


@pytest.mark.req("S-16")
@pytest.mark.parametrize(("raw", "value"), ACCEPTED, ids=lambda v: repr(v)[:32])
def test_what_every_reader_understands_alike_is_accepted(raw: bytes, value: object) -> None:
    decoded = strict_json.loads(raw)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.req("S-16")
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 32 + b"]" * 32,
        b'{"a":' * 32 + b"1" + b"}" * 32,
        b"[" * 32 + b'"[[["' + b"]" * 32,
    ],
)
def test_thirty_two_levels_are_allowed(body: bytes) -> None:
    assert strict_json.loads(body) == json.loads(body)


@pytest.mark.req("S-16")
@given(st.binary(max_size=200))
def test_random_bytes_give_a_value_or_the_one_error(raw: bytes) -> None:
    try:
        value = strict_json.loads(raw)
    except StrictJsonError:
        return
    assert value == json.loads(raw)


@pytest.mark.req("S-16")
@given(st.text('[]{}",:\\u0d8fntrue123eE+-. \n', max_size=60))
def test_text_made_of_json_punctuation_gives_a_value_or_the_one_error(text: str) -> None:
    try:
        value = strict_json.loads(text.encode())
    except StrictJsonError:
        return
    assert value == json.loads(text)


@given(json_values)
def test_what_was_encoded_decodes_to_itself_from_either_spelling(value: object) -> None:
    assert strict_json.loads(strict_json.dumps(value).encode()) == value
    assert strict_json.loads(json.dumps(value).encode()) == value


@given(json_values)
def test_an_encoding_is_one_line(value: object) -> None:
    encoded = strict_json.dumps(value)
    assert "\n" not in encoded
    assert "\r" not in encoded


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_an_encoding_never_holds_what_is_not_json(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        strict_json.dumps({"a": number})


def test_a_route_may_allow_longer_strings() -> None:
    raw = b'"' + b"a" * 300_000 + b'"'
    assert strict_json.loads(raw, max_string_bytes=400_000) == "a" * 300_000


@pytest.mark.req("S-16")
@pytest.mark.parametrize(
    "raw",
    [
        b"9" * 1_000_000,
        b"[" * 1_000_000,
        b"[" + b"[]," * 300_000 + b"[]]",
        b'"' + b"\\ud83d\\ude00" * 20_000 + b'"',
        b"[" + b"1e9," * 200_000 + b"1]",
    ],
    ids=["digits", "brackets", "siblings", "escapes", "floats"],
)
def test_a_hostile_megabyte_does_not_blow_up(raw: bytes) -> None:
    """Linear work takes tens of milliseconds of processor time, quadratic work takes minutes."""
    started = time.process_time()
    with contextlib.suppress(StrictJsonError):
        strict_json.loads(raw)
    assert time.process_time() - started < 5

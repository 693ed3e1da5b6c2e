"""The scanner that every answer of this folder passes does find a wrong word."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire_openapi.spelling import wrong_words

TASK = {"capability_id": "c", "status": "canceled", "product": {"status": "cancelled"}}


@pytest.mark.req("R171")
@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (TASK, 0),
        ({"data": {"tasks": [TASK | {"status": "cancelled"}]}}, 1),
        ({"data": TASK | {"product": {"status": "canceled"}}}, 1),
        ({"message_id": "m", "status": "canceled"}, 1),
        ({"message_id": "m", "status": "cancelled"}, 0),
        ({"effectState": "canceled", "status": "cancelled", "product": {}}, 1),
        ({"capability_id": "c", "status": "canceled"}, 1),
    ],
)
def test_a_word_of_another_protocol_is_found(value: Any, wrong: int) -> None:
    assert len(wrong_words(value)) == wrong

"""The scanners that every answer on the wires' tests passes do find a wrong word."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.spelling import wrong_task_words, wrong_words

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


@pytest.mark.req("R171")
@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"result": {"task_id": "t", "status": "canceled"}}, 0),
        ({"id": 1, "task": {"task_id": "t", "status": "cancelled"}}, 1),
        ({"state_history": [{"state": "working"}, {"state": "cancelled"}]}, 1),
        ({"error": {"data": {"current_status": "completed", "allowed": ["cancelled"]}}}, 1),
        ({"task": {"status": {"state": "TASK_STATE_CANCELED"}}}, 0),
        ({"task": {"status": {"state": "TASK_STATE_CANCELLED"}}}, 1),
        ({"history": [{"metadata": {"aiosMessageStatus": "cancelled"}}]}, 0),
        ({"history": [{"metadata": {"aiosMessageStatus": "canceled"}}]}, 1),
        ({"arguments": {"status": "cancelled"}}, 0),
    ],
)
def test_a_task_that_is_spelled_as_a_message_is_found(value: Any, wrong: int) -> None:
    assert len(wrong_task_words(value)) == wrong

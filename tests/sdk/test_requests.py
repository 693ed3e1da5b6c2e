"""What a caller says in Python, as the contract has it."""

from __future__ import annotations

import pytest

from aiosd.api.v1 import task_pb2
from aiosd.sdk import requests


@pytest.mark.req("R172")
@pytest.mark.parametrize("word", ["canceled", "cancelled", "CANCELED", "Cancelled"])
def test_a_state_is_read_in_both_spellings(word: str) -> None:
    assert requests.state(word) == task_pb2.TASK_STATE_CANCELED


@pytest.mark.parametrize("word", ["", "done", "unspecified", "TASK_STATE_WORKING"])
def test_a_word_that_is_no_state_is_named(word: str) -> None:
    with pytest.raises(ValueError, match="states: "):
        requests.state(word)


def test_every_state_of_the_contract_has_a_word() -> None:
    for name, value in task_pb2.TaskState.items():
        if value:
            assert requests.state(name.removeprefix("TASK_STATE_").lower()) == value
            assert requests.state(value) == value

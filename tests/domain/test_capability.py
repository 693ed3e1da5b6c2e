"""Capabilities and the options that follow from them (R008, R097)."""

from __future__ import annotations

import pytest

from aiosd.domain.capability import fill_options
from aiosd.domain.errors import ArgumentInvalid
from aiosd.domain.retry import RetryPolicy
from aiosd.domain.task import Options, Priority
from tests.support.builders import a_capability, a_task


def filled(asked: Options, *, retry_named: bool = False, **declared: object) -> Options:
    return fill_options(
        asked,
        a_capability(**declared),
        retry_named=retry_named,
        default_timeout_ms=7_000,
        retry_safe_attempts=3,
    )


@pytest.mark.req("R097", "X05")
@pytest.mark.parametrize(
    ("asked", "declared", "timeout"),
    [
        (Options(timeout_ms=5), 9, 5),
        (Options(), 9, 9),
        (Options(synchronous=True), 9, 9),
        (Options(synchronous=True), 0, 30_000),
        (Options(), 0, 7_000),
    ],
)
def test_the_timeout_is_the_callers_or_the_capabilitys_or_the_settings(
    asked: Options, declared: int, timeout: int
) -> None:
    assert filled(asked, default_timeout_ms=declared).timeout_ms == timeout


@pytest.mark.req("X06", "R099")
def test_without_a_policy_only_what_is_safe_to_repeat_is_tried_again() -> None:
    assert filled(Options()).retry.max_attempts == 1
    assert filled(Options(), retry_safe=True).retry.max_attempts == 3
    assert filled(Options(retry_safe=True)).retry.max_attempts == 3
    named = Options(retry=RetryPolicy(2, 5))
    assert filled(named, retry_named=True, retry_safe=True).retry == RetryPolicy(2, 5)


@pytest.mark.req("R008", "R089", "R090", "X11")
def test_tasks_are_ordered_by_priority_then_creation() -> None:
    tasks = [
        a_task(priority=priority, now=now)
        for priority, now in (
            (Priority.LOW, 1),
            (Priority.NORMAL, 2),
            (Priority.URGENT, 9),
            (Priority.HIGH, 4),
            (Priority.NORMAL, 1),
        )
    ]
    order = [
        (task.options.priority, task.create_time) for task in sorted(tasks, key=lambda t: t.order)
    ]
    assert order == [
        (Priority.URGENT, 9),
        (Priority.HIGH, 4),
        (Priority.NORMAL, 1),
        (Priority.NORMAL, 2),
        (Priority.LOW, 1),
    ]


@pytest.mark.req("R003")
@pytest.mark.parametrize("name", ["", "Upper", "a..b", ".a", "a.", "a b", "ä", "a" * 201])
def test_a_capability_id_is_dotted_lower_case_words(name: str) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        a_capability(name)
    assert refused.value.field == "capability_id"


@pytest.mark.req("X39", "R114")
def test_a_capability_counts_against_its_tool_and_names_its_permission() -> None:
    assert a_capability("a.b-c_1").tool == "a.b-c_1"
    assert a_capability(tool_id="lab").tool == "lab"
    assert a_capability().permission_ids == ("aios.permission.demo.work",)
    assert a_capability(permissions=("p",)).permission_ids == ("p",)

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosd.aios_wire.errors import AiosError
from gateway.aios.methods import METHODS
from gateway.aios.params import json_schema, read

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)


def refused(method: str, params: dict[str, Any]) -> AiosError:
    with pytest.raises(AiosError) as caught:
        read(METHODS[method].params, params)
    return caught.value


def create(**members: Any) -> dict[str, Any]:
    return {"capability_id": "lab.script", **members}


@pytest.mark.req("R001")
def test_the_sixteen_methods_of_the_document_have_their_exact_names() -> None:
    assert {name for name in METHODS if name.startswith(("aios/task.", "aios/artifact."))} == {
        "aios/task.create",
        "aios/task.get",
        "aios/task.list",
        "aios/task.cancel",
        "aios/task.pause",
        "aios/task.resume",
        "aios/task.input",
        "aios/task.authenticate",
        "aios/task.subscribe",
        "aios/task.unsubscribe",
        "aios/task.resubscribe",
        "aios/task.subscribe_webhook",
        "aios/task.unsubscribe_webhook",
        "aios/task.history",
        "aios/artifact.get",
        "aios/artifact.list",
    }


@pytest.mark.req("R003", "R004", "R005", "R008", "R009", "R010")
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "capability_id"),
        ({"capability_id": 7}, "capability_id"),
        ({"capability_id": None}, "capability_id"),
        ({"capability_id": ""}, "capability_id"),
        (create(arguments=[]), "arguments"),
        (create(arguments="{}"), "arguments"),
        (create(arguments=None), "arguments"),
        (create(metadata=3), "metadata"),
        (create(options=[]), "options"),
        (create(options={"async": 1}), "options.async"),
        (create(options={"async": "true"}), "options.async"),
        (create(options={"async": None}), "options.async"),
        (create(options={"priority": "asap"}), "options.priority"),
        (create(options={"priority": 2}), "options.priority"),
        (create(options={"timeout_ms": 0}), "options.timeout_ms"),
        (create(options={"timeout_ms": -5}), "options.timeout_ms"),
        (create(options={"timeout_ms": 1.5}), "options.timeout_ms"),
        (create(options={"timeout_ms": True}), "options.timeout_ms"),
        (create(options={"timeout_ms": "100"}), "options.timeout_ms"),
        (create(options={"timeout_ms": 2**53}), "options.timeout_ms"),
        (create(options={"retry": 3}), "options.retry"),
        (create(options={"retry": {"max_attempts": 0}}), "options.retry.max_attempts"),
        (create(options={"retry": {"max_attempts": 1.2}}), "options.retry.max_attempts"),
        (create(options={"retry": {"delay_ms": -1}}), "options.retry.delay_ms"),
        (create(options={"retry": {"delay_ms": False}}), "options.retry.delay_ms"),
        (create(options={"idempotency_key": ""}), "options.idempotency_key"),
    ],
    ids=str,
)
def test_a_wrong_parameter_of_create_is_named(params: dict[str, Any], field: str) -> None:
    error = refused("aios/task.create", params)
    assert error.entry.code == -32602
    assert error.data["field"] == field
    assert error.details is not None
    assert error.details.startswith(field)


@pytest.mark.req("R025")
@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("aios/task.list", {"filter": {"status": ["busy"]}}, "filter.status[0]"),
        ("aios/task.list", {"filter": {"status": "pending"}}, "filter.status"),
        ("aios/task.list", {"sort": {"field": "name"}}, "sort.field"),
        ("aios/task.list", {"sort": {"order": "up"}}, "sort.order"),
        ("aios/task.list", {"pagination": {"limit": 0}}, "pagination.limit"),
        ("aios/task.list", {"pagination": {"limit": 201}}, "pagination.limit"),
        ("aios/task.list", {"pagination": {"limit": True}}, "pagination.limit"),
        ("aios/task.list", {"pagination": {"offset": -1}}, "pagination.offset"),
        ("aios/task.history", {"filter": {"status": [1]}}, "filter.status[0]"),
        ("aios/task.history", {"filter": {"start_time": "yesterday"}}, "filter.start_time"),
        ("aios/task.history", {"filter": {"end_time": "2026-13-01T00:00:00Z"}}, "filter.end_time"),
        ("aios/task.history", {"filter": {"end_time": "2026-01-01"}}, "filter.end_time"),
        ("aios/task.history", {"pagination": {"limit": 1.5}}, "pagination.limit"),
        ("aios/task.subscribe", {"task_id": "t", "events": ["noise"]}, "events[0]"),
        ("aios/task.input", {"task_id": "t", "input": "yes"}, "input"),
        ("aios/task.input", {"task_id": "t"}, "input"),
        ("aios/task.authenticate", {"task_id": "t"}, "auth_response"),
        (
            "aios/task.authenticate",
            {"task_id": "t", "auth_response": {"type": "magic"}},
            "auth_response.type",
        ),
        ("aios/task.get", {"task_id": 1}, "task_id"),
        ("aios/task.get", {"task_id": "t", "include_history": "yes"}, "include_history"),
        ("aios/initialize", {"client_info": {"name": "c", "version": "1"}}, "protocol_version"),
    ],
    ids=str,
)
def test_a_wrong_parameter_is_named(method: str, params: dict[str, Any], field: str) -> None:
    error = refused(method, params)
    assert (error.entry.code, error.data["field"]) == (-32602, field)


def test_members_that_nobody_declared_are_ignored() -> None:
    params = create(task_id="mine", options={"async": True, "x-vendor": 1}, extra=None)
    assert read(METHODS["aios/task.create"].params, params).options.is_async is True


def test_both_spellings_of_canceled_are_read_in_filters() -> None:
    for word in ("canceled", "cancelled"):
        read(METHODS["aios/task.list"].params, {"filter": {"status": [word]}})


def test_several_problems_are_told_at_once() -> None:
    error = refused("aios/task.create", {"options": {"timeout_ms": 0}})
    assert [problem["field"] for problem in error.data["problems"]] == [
        "capability_id",
        "options.timeout_ms",
    ]


def test_no_problem_repeats_the_value_that_was_sent() -> None:
    error = refused(
        "aios/task.authenticate",
        {"task_id": "t", "auth_response": {"type": "api_key", "api_key": ["s3cret-value"]}},
    )
    assert "s3cret" not in f"{error.details} {dict(error.data)}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def members_of(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Objects with the declared names and values of any sort, right ones now and then."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if schema.get("type") == "object" and "properties" in schema:
        members = {
            name: members_of(member, definitions) for name, member in schema["properties"].items()
        }
        return st.fixed_dictionaries({}, optional=members) | json_values
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | json_values
    return json_values


@pytest.mark.req("S-17")
@pytest.mark.parametrize("method", sorted(METHODS))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_any_parameters_are_read_or_refused(method: str, data: st.DataObject) -> None:
    model = METHODS[method].params
    schema = json_schema(model)
    params = data.draw(members_of(schema, schema.get("$defs", {})))
    if isinstance(params, dict):
        try:
            read(model, params)
        except AiosError as error:
            assert error.entry.code == -32602
            assert error.data["field"]

"""Types to JSON Schema, and values back."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Optional, TypedDict

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from aiosd.sdk import schema


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Extra(TypedDict):
    note: str
    weight: NotRequired[float]


@dataclass
class Leaf:
    name: str = field(metadata={"description": "What it is called."})


@dataclass
class Order:
    count: int
    color: Color
    size: Literal["s", "m"]
    leaves: list[Leaf]
    extra: Extra | None = None
    pair: tuple[int, str] = (0, "")
    prices: dict[str, float] = field(default_factory=dict)
    anything: Any = None
    flag: bool = False


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Model(BaseModel):
    path: str
    depth: int = 3


GOOD = {
    "count": 2,
    "color": "red",
    "size": "m",
    "leaves": [{"name": "oak"}],
    "extra": {"note": "x", "weight": 1},
    "pair": [1, "a"],
    "prices": {"eur": 2.5},
    "anything": [None],
    "flag": True,
}


def test_a_schema_is_valid_and_accepts_what_is_read() -> None:
    described = schema.json_schema(Order)
    Draft202012Validator.check_schema(described)
    Draft202012Validator(described).validate(GOOD)
    order = schema.read(Order, GOOD)
    assert order.leaves == [Leaf("oak")]
    assert order.color is Color.RED
    assert order.pair == (1, "a")
    assert order.extra == {"note": "x", "weight": 1.0}
    assert described["$defs"]["Leaf"]["properties"]["name"]["description"] == "What it is called."


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"count": "2"}, "arguments.count: must be integer"),
        ({"count": True}, "arguments.count: must be integer"),
        ({"color": "green"}, "arguments.color: 'green' is no Color"),
        ({"size": "l"}, "arguments.size: must be one of 's', 'm'"),
        ({"leaves": [{"name": 1}]}, r"arguments.leaves\[0\].name: must be string"),
        ({"extra": {}}, "arguments.extra.note: required"),
        ({"pair": [1]}, "arguments.pair: must have 2 items"),
        ({"prices": {"eur": "x"}}, "arguments.prices.eur: must be number"),
        ({"flag": 1}, "arguments.flag: must be boolean"),
        ({"colour": "red"}, "arguments.colour: unknown"),
    ],
)
def test_what_does_not_fit_is_named_and_refused_by_the_schema_too(
    change: dict[str, Any], problem: str
) -> None:
    value = GOOD | change
    with pytest.raises(ValueError, match=problem):
        schema.read(Order, value)
    assert not Draft202012Validator(schema.json_schema(Order)).is_valid(value)


def test_a_type_may_contain_itself() -> None:
    described = schema.json_schema(Tree)
    value = {"name": "a", "children": [{"name": "b"}]}
    Draft202012Validator(described).validate(value)
    assert schema.read(Tree, value) == Tree("a", [Tree("b")])


def test_a_pydantic_model_speaks_for_itself() -> None:
    assert schema.describes_object(Model)
    Draft202012Validator(schema.json_schema(Model)).validate({"path": "/"})
    assert schema.read(Model, {"path": "/"}) == Model(path="/")
    with pytest.raises(ValueError, match="arguments: "):
        schema.read(Model, {})


@pytest.mark.parametrize("hint", [Optional[int], int | None])  # noqa: UP045 (both spellings)
def test_null_is_allowed_where_it_is_declared(hint: Any) -> None:
    assert schema.read(hint, None) is None
    assert schema.read(hint, 4) == 4
    with pytest.raises(ValueError, match="must be integer"):
        schema.read(hint, "4")


def test_a_type_without_a_schema_is_refused_when_it_is_declared() -> None:
    with pytest.raises(TypeError, match="no JSON Schema"):
        schema.json_schema(set[int])
    assert not schema.describes_object(dict[str, Any])

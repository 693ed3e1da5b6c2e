r"""Which regular expressions may be applied to somebody else's text, and to how much of it.

Python's engine backtracks: `(a+)+$` takes a time exponential in the text's length, and while it
runs nothing else does. Two rules keep that away. A repetition inside a repetition must be kept
apart by a character that the inner one cannot take, as in `(-[a-z]+)*`; and the more choices a
pattern leaves, the shorter is the text that it is applied to.
"""

from __future__ import annotations

import re
from functools import lru_cache

# Whether mypy knows these two depends on what else it has read.
from re import _constants as sre  # type: ignore[attr-defined, unused-ignore]
from re import _parser  # type: ignore[attr-defined, unused-ignore]
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Steps that one search may take at the worst; a few tenths of a second.
BUDGET: Final = 10_000_000
LONGEST: Final = 1_000_000
#: More repetitions than this count as no limit at all.
MANY: Final = 32

_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT}
_SINGLE = {sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY}


class UnsafePattern(Exception):
    """Not a regular expression, or one that could take for ever."""


class Pattern:
    """A compiled expression and the longest text that it is applied to."""

    def __init__(self, source: str) -> None:
        try:
            parsed = _parser.parse(source)
            self._search = re.compile(source).search
        except (re.error, OverflowError, RecursionError) as error:
            raise UnsafePattern(f"is not a regular expression: {error}") from error
        _check(parsed)
        # An expression without an anchor is tried at every place of the text.
        loops = 0 if parsed and parsed[0][0] is sre.AT else 1
        ways = 1
        for choices in _choices(parsed):
            if choices < MANY:
                ways *= choices
            else:
                loops += 1
        if ways > BUDGET:
            raise UnsafePattern("leaves so many choices that it could take for ever")
        self.longest = min(LONGEST, int((BUDGET / ways) ** (1 / max(1, loops))))

    def search(self, text: str) -> bool:
        """Whether it is found; the caller has checked the length."""
        return self._search(text) is not None


@lru_cache(maxsize=512)
def compiled(source: str) -> Pattern:
    """The pattern; raises UnsafePattern."""
    return Pattern(source)


def _check(items: Iterable[Any], *, repeated: bool = False) -> None:
    for operator, argument in items:
        if operator in (sre.GROUPREF, sre.GROUPREF_EXISTS):
            raise UnsafePattern("refers back to a group, which is not supported")
        if operator in _REPEATS and argument[1] > 1:
            body = list(argument[2])
            if any(True for _ in _loops(body)) and not _kept_apart(body):
                raise UnsafePattern("repeats a repetition in a way that could take for ever")
            _check(body, repeated=True)
            continue
        if operator is sre.BRANCH and repeated and not _told_apart(argument[1]):
            raise UnsafePattern("repeats alternatives that begin alike, which could take for ever")
        for inner in _inside(operator, argument):
            _check(inner, repeated=repeated)


def _inside(operator: Any, argument: Any) -> Iterator[Iterable[Any]]:
    """The sequences that an item holds."""
    if operator in _REPEATS or operator is sre.POSSESSIVE_REPEAT:
        yield argument[2]
    elif operator is sre.SUBPATTERN:
        yield argument[3]
    elif operator is sre.BRANCH:
        yield from argument[1]
    elif operator in (sre.ASSERT, sre.ASSERT_NOT):
        yield argument[1]
    elif operator is sre.ATOMIC_GROUP:
        yield argument


def _loops(items: Iterable[Any]) -> Iterator[Any]:
    """What is repeated more or less often, at any depth."""
    for operator, argument in items:
        if operator in _REPEATS and argument[0] != argument[1]:
            yield argument[2]
        for inner in _inside(operator, argument):
            yield from _loops(inner)


def _choices(items: Iterable[Any]) -> Iterator[int]:
    """How many ways there are to go on, wherever there are several."""
    for operator, argument in items:
        if operator in _REPEATS and argument[0] != argument[1]:
            yield min(MANY, int(argument[1]) - int(argument[0]) + 1)
        elif operator is sre.BRANCH and not _told_apart(argument[1]):
            yield len(argument[1])
        for inner in _inside(operator, argument):
            yield from _choices(inner)


def _unwrapped(items: Iterable[Any]) -> list[Any]:
    """Without the group around everything."""
    items = list(items)
    while len(items) == 1 and items[0][0] is sre.SUBPATTERN:
        items = list(items[0][1][3])
    return items


def _kept_apart(body: list[Any]) -> bool:
    """Whether the body begins or ends with a character that no repetition in it can take."""
    body = _unwrapped(body)
    for operator, character in (body[0], body[-1]):
        if operator is sre.LITERAL and not any(_may_take(loop, character) for loop in _loops(body)):
            return True
    return False


def _may_take(items: Iterable[Any], character: int) -> bool:
    """Whether a sequence can match a text that holds the character, or nobody knows."""
    for operator, argument in items:
        if operator in _SINGLE:
            one = _parser.SubPattern(_parser.State(), [(operator, argument)])
            if re._compiler.compile(one).match(chr(character)):  # type: ignore[attr-defined, unused-ignore]
                return True
        elif operator is not sre.AT and (
            operator not in _REPEATS | {sre.SUBPATTERN, sre.BRANCH}
            or any(_may_take(inner, character) for inner in _inside(operator, argument))
        ):
            return True
    return False


def _told_apart(branches: Iterable[Any]) -> bool:
    """Whether the first character tells which alternative it is."""
    first = []
    for branch in branches:
        items = _unwrapped(branch)
        if not items or items[0][0] is not sre.LITERAL:
            return False
        first.append(items[0][1])
    return len(set(first)) == len(first)

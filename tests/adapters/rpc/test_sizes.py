"""No answer outgrows a gRPC message (E14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiosd.adapters.rpc.sizes import ENOUGH, first_group, groups
from aiosd.api.v1.event_pb2 import Logged


@given(st.lists(st.integers(0, ENOUGH * 2), max_size=8))
def test_groups_keep_order_and_only_a_single_element_may_be_larger(sizes: list[int]) -> None:
    messages = [Logged(message="x" * size) for size in sizes]
    cut = list(groups(messages))
    assert [one for group in cut for one in group] == messages
    assert all(group for group in cut)
    assert all(len(group) == 1 or sum(one.ByteSize() for one in group) <= ENOUGH for group in cut)
    assert first_group(messages) == (cut[0] if cut else [])

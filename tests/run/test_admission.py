from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultattr_local.run.admission import Admission


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=40),
    capacity=st.integers(1, 60),
    most=st.integers(1, 8),
)
def test_never_above_capacity_and_all_finish_in_turn(sizes, capacity, most):
    admission = Admission(capacity, most)
    order: list[int] = []

    async def work(number: int, size: int) -> None:
        async with admission.admitted_with(size):
            order.append(number)
            assert admission.reserved <= capacity or admission.admitted == 1
            assert admission.admitted <= most
            await asyncio.sleep(0)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for number, size in enumerate(sizes):
                group.create_task(work(number, size))

    asyncio.run(run())
    assert order == list(range(len(sizes)))
    assert (admission.reserved, admission.admitted) == (0, 0)


def test_a_cancelled_waiter_leaves_no_reservation():
    admission = Admission(10)

    async def run() -> None:
        async def hold() -> None:
            async with admission.admitted_with(10):
                pytest.fail("there was no room")

        async with admission.admitted_with(8):
            waiter = asyncio.create_task(hold())
            await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
        assert (admission.reserved, admission.admitted) == (0, 0)

    asyncio.run(run())

"""Drives many flows on one event loop, with no barrier between their calls.

A flow's list of requests goes to the engine as concurrent calls, so that the engine batches
the calls of all flows together. What goes wrong in one flow costs that flow alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable

from faultattr_local.engine.base import RETRY_TEMPERATURE, Engine, Reply, Request
from faultattr_local.errors import (
    EngineDied,
    EngineError,
    InvalidReply,
    TrajectoryError,
    UsageError,
)
from faultattr_local.methods.flow import Flow
from faultattr_local.run.admission import Admission
from faultattr_local.run.progress import Progress, usage_of
from faultattr_local.trajectory import LabelledTrajectory, Trajectory
from faultattr_local.verdict import Failure, Verdict

logger = logging.getLogger(__name__)


class Driver:
    """Runs flows against one engine.

    Args:
        engine: Started.
        method: Its name, for verdicts on trajectories that no flow decided.
        make_flow: Makes the flow of a trajectory.
        reservation: KV tokens to hold while a trajectory is at work.
        admission: Who may work at once.
        progress: Counted in place.
        max_restarts: Engine deaths without a reply in between, before the run ends.
    """

    def __init__(
        self,
        engine: Engine,
        method: str,
        make_flow: Callable[[Trajectory], Flow],
        reservation: Callable[[Trajectory], int],
        admission: Admission,
        progress: Progress,
        max_restarts: int = 3,
    ) -> None:
        self.engine = engine
        self.method = method
        self.make_flow = make_flow
        self.reservation = reservation
        self.admission = admission
        self.progress = progress
        self.max_restarts = max_restarts
        self._reviving = asyncio.Lock()
        self._serving = asyncio.Event()
        self._serving.set()
        self._deaths = 0

    async def run(
        self, trajectories: Iterable[LabelledTrajectory]
    ) -> AsyncIterator[tuple[LabelledTrajectory, Verdict]]:
        """Verdicts as they are made, in the order in which they are.

        Trajectories are taken from the iterable only as they are admitted.

        Raises:
            EngineDied: More often than `max_restarts`; what was yielded stays valid.
        """
        finished: asyncio.Queue[tuple[LabelledTrajectory, Verdict] | None] = asyncio.Queue()
        feeder = asyncio.create_task(self._feed(trajectories, finished))
        try:
            while (pair := await finished.get()) is not None:
                yield pair
            await feeder
        finally:
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)

    async def _feed(
        self,
        trajectories: Iterable[LabelledTrajectory],
        finished: asyncio.Queue[tuple[LabelledTrajectory, Verdict] | None],
    ) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for item in trajectories:
                    admitted = asyncio.Event()
                    group.create_task(self._work(item, admitted, finished))
                    await admitted.wait()
        except* Exception as failed:
            raise first_of(failed) from failed
        finally:
            finished.put_nowait(None)

    async def _work(
        self,
        item: LabelledTrajectory,
        admitted: asyncio.Event,
        finished: asyncio.Queue[tuple[LabelledTrajectory, Verdict] | None],
    ) -> None:
        trajectory = item.trajectory
        self.progress.waiting += 1
        async with self.admission.admitted_with(self.reservation(trajectory)):
            self.progress.waiting -= 1
            self.progress.working += 1
            admitted.set()
            try:
                verdict = await self.attribute(trajectory)
            finally:
                self.progress.working -= 1
        self.progress.done += 1
        self.progress.unscored += verdict.status == "unscored"
        await finished.put((item, verdict))

    async def attribute(self, trajectory: Trajectory) -> Verdict:
        """Run one flow to its verdict; an error of its own makes it `unscored`."""
        started = time.monotonic()
        replies: list[Reply] = []
        invalid: list[InvalidReply] = []
        try:
            verdict = await self._play(self.make_flow(trajectory), replies, invalid)
        except (EngineError, UsageError):
            raise
        except TrajectoryError as error:
            verdict = self._unscored(trajectory, error)
        except Exception as error:
            # The one boundary: a defect in a flow costs that trajectory, and is told in full.
            logger.exception("%s: the method failed", trajectory.id)
            verdict = self._unscored(trajectory, error)
        usage = usage_of(replies, len(invalid), time.monotonic() - started)
        return verdict.model_copy(update={"usage": usage})

    async def _play(self, flow: Flow, replies: list[Reply], invalid: list[InvalidReply]) -> Verdict:
        try:
            requests = next(flow)
            while True:
                answers = await self._answer_all(requests, invalid)
                replies += answers
                requests = flow.send(answers)
        except StopIteration as stop:
            verdict: Verdict = stop.value
            return verdict
        finally:
            flow.close()

    def _unscored(self, trajectory: Trajectory, error: Exception) -> Verdict:
        return Verdict(
            trajectory=trajectory.id,
            digest=trajectory.digest,
            status="unscored",
            method=self.method,
            failure=Failure(error=type(error).__name__, message=str(error)),
        )

    async def _answer_all(
        self, requests: list[Request], invalid: list[InvalidReply]
    ) -> list[Reply]:
        if len(requests) == 1:
            return [await self._answer(requests[0], invalid)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._answer(one, invalid)) for one in requests]
        except* Exception as failed:
            raise first_of(failed) from failed
        return [task.result() for task in tasks]

    async def _answer(self, request: Request, invalid: list[InvalidReply]) -> Reply:
        """One reply; an invalid one is asked for once more, and then it is an error."""
        try:
            reply = await self._from_engine(request)
        except InvalidReply as error:
            invalid.append(error)
            try:
                reply = await self._from_engine(request.again(RETRY_TEMPERATURE))
            except InvalidReply as second:
                invalid.append(second)
                raise
        self.progress.count(reply)
        return reply

    async def _generate(self, request: Request) -> Reply:
        try:
            return await self.engine.generate(request)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this call: left alone, its flow would end without a word.
            raise EngineDied("the engine gave a call up by itself") from None

    async def _from_engine(self, request: Request) -> Reply:
        """One reply, across deaths of the engine.

        A request in which the engine dies twice costs its trajectory, since it may be what
        kills the engine. `max_restarts` deaths without any reply in between end the run.
        """
        for last_try in (False, True):
            await self._serving.wait()
            restarts = self.progress.restarts
            try:
                reply = await self._generate(request)
            except EngineDied as error:
                await self._revive(restarts)
                if last_try:
                    raise TrajectoryError(
                        f"the engine died twice on this call: {error}",
                        where=f"{request.trajectory}, {request.role}",
                    ) from error
            else:
                self._deaths = 0
                return reply
        raise AssertionError("the second try returns or raises")

    async def _revive(self, restarts: int) -> None:
        """Start the engine again, once for all the calls that were in it when it died."""
        async with self._reviving:
            if self.progress.restarts != restarts:
                return
            self._deaths += 1
            if self._deaths > self.max_restarts:
                raise EngineDied(
                    f"the engine died {self._deaths} times in a row",
                    fix="Run the same command again to go on once it is well.",
                )
            self._serving.clear()
            try:
                await self.engine.stop()
                await self.engine.start()
            finally:
                self._serving.set()
            self.progress.restarts += 1


def first_of(failed: ExceptionGroup[Exception]) -> Exception:
    """The first exception of a group that may hold groups."""
    first = failed.exceptions[0]
    return first_of(first) if isinstance(first, ExceptionGroup) else first

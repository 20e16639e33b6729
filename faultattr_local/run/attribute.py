"""Attribute many trajectories: the run as a whole, from the command line and from Python."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from faultattr_local.engine import EngineConfig, make_engine
from faultattr_local.engine.base import Engine, ModelCard
from faultattr_local.engine.record import Recorder
from faultattr_local.errors import ConfigError
from faultattr_local.methods.flow import Setup
from faultattr_local.methods.registry import METHODS
from faultattr_local.prompts import Prompts
from faultattr_local.run.admission import Admission
from faultattr_local.run.config import Config, MethodName
from faultattr_local.run.drive import Driver
from faultattr_local.run.manifest import Manifest, Resume, deciding, served
from faultattr_local.run.progress import Progress
from faultattr_local.run.store import Key, RunFolder, read_lines
from faultattr_local.settings import Section
from faultattr_local.trajectory import LabelledTrajectory, Trajectory
from faultattr_local.verdict import Verdict

logger = logging.getLogger(__name__)

CHARACTERS_A_TOKEN = 3
"""Fewest characters a token in ordinary logs; reservations are made before any count."""

Pair = tuple[LabelledTrajectory, Verdict]


def attribute(
    trajectories: Iterable[Trajectory | LabelledTrajectory],
    *,
    method: MethodName | None = None,
    engine: Engine | EngineConfig | None = None,
    config: Config | None = None,
    run_dir: str | Path | None = None,
    resume: Resume = "if_possible",
) -> list[Verdict]:
    """Attribute trajectories and return their verdicts, in the order of the trajectories.

    Args:
        trajectories: As the readers of `formats` yield them, or made by hand.
        method: Wins over the config's.
        engine: A section that describes an engine, or an engine; wins over the config's.
        config: As `load_config` reads it; by default every setting is at its default.
        run_dir: Where to record; without it nothing is written and nothing resumed.
        resume: What to do when the folder holds a run already.

    Returns:
        A verdict for each trajectory. One that could not be decided is `unscored`, with
        the reason in `failure`.

    Raises:
        EngineError: The engine cannot start or died too often.
        UsageError: The config, the prompts or the run folder are not usable.
    """
    given = config or Config()
    if method is not None:
        if method not in METHODS:
            raise ConfigError(f"there is no method {method!r}", fix=f"Known: {', '.join(METHODS)}.")
        given = given.model_copy(update={"method": method})
    if isinstance(engine, Section):
        given, engine = given.model_copy(update={"engine": engine}), None
    folder = None if run_dir is None else Path(run_dir)
    run = Run(given, engine=engine, run_dir=folder, resume=resume)
    items = [run.shown(as_labelled(one)) for one in trajectories]

    async def collect() -> dict[Key, Verdict]:
        made = {key_of(item): verdict async for item, verdict in run.verdicts(items)}
        return run.earlier | made

    verdicts = asyncio.run(collect())
    return [verdicts[key_of(item)] for item in items]


class Run:
    """One sitting: an engine, a run folder where wanted, and the verdicts as they are made.

    Attributes:
        progress: Counts, kept up to date.
        earlier: Verdicts that the folder held already; their trajectories are not redone.
    """

    def __init__(
        self,
        config: Config,
        *,
        engine: Engine | None = None,
        run_dir: Path | None = None,
        resume: Resume = "if_possible",
    ) -> None:
        self.config = config
        self.run_dir = run_dir
        self.resume = resume
        self.prompts = Prompts(config.prompts)
        self.progress = Progress()
        self.earlier: dict[Key, Verdict] = {}
        if engine is None:
            if config.engine is None:
                raise ConfigError("engine: is missing", fix="Give a config with an engine, or one.")
            engine = make_engine(config.engine)
        self.engine = engine

    async def verdicts(
        self,
        items: Iterable[LabelledTrajectory],
        on_start: Callable[[ModelCard], None] = lambda card: None,
    ) -> AsyncIterator[Pair]:
        """Start the engine, yield each verdict once it is on disk, stop the engine.

        No engine is started when nothing is left to do.

        Raises:
            EngineError, UsageError: As `attribute`.
        """
        with ExitStack() as stack:
            folder = manifest = None
            engine: Engine = self.engine
            if self.run_dir is not None:
                folder = stack.enter_context(RunFolder(self.run_dir))
                manifest = Manifest(self.run_dir, self.resume)
                manifest.agree("config", deciding(self.config, self.prompts))
                self.earlier = folder.standing()
                engine = Recorder(self.engine, folder.write_call, self._unfinished_calls())
            to_do = self._to_do(items)
            if (first := next(to_do, None)) is None:
                return
            try:
                card = await engine.start()
                if manifest is not None:
                    manifest.agree("model", served(card))
                    manifest.begin(self.config, card)
                on_start(card)
                driver = self._driver(engine, card)
                outcome = "stopped"
                try:
                    async for item, verdict in driver.run(chain([first], to_do)):
                        if folder is not None:
                            folder.write_verdict(item, verdict)
                        yield item, verdict
                    outcome = "finished"
                finally:
                    if manifest is not None:
                        manifest.end(outcome)
            finally:
                await engine.stop()

    def _unfinished_calls(self) -> Iterator[dict[str, object]]:
        """Recorded calls that may be wanted again, of trajectories without a verdict."""
        assert self.run_dir is not None
        done = {name for name, _ in self.earlier}
        for call in read_lines(self.run_dir, "calls"):
            if call["trajectory"] not in done:
                yield call

    def _to_do(self, items: Iterable[LabelledTrajectory]) -> Iterator[LabelledTrajectory]:
        given: set[Key] = set()
        for item in items:
            shown = self.shown(item)
            key = key_of(shown)
            if key not in self.earlier and key not in given:
                given.add(key)
                yield shown

    def shown(self, item: LabelledTrajectory) -> LabelledTrajectory:
        """The item as the model sees it: with the reference answer where that is wanted."""
        return shown(item, self.config)

    def _driver(self, engine: Engine, card: ModelCard) -> Driver:
        setup = Setup(
            prompts=self.prompts,
            limits=self.config.answer,
            count_tokens=engine.count_tokens,
            context_tokens=card.context_tokens,
            sampling=self.config.sampling.sampling,
        )
        method = METHODS[self.config.method]

        def reservation(trajectory: Trajectory) -> int:
            characters = sum(len(step.text) for step in trajectory.steps)
            return min(characters // CHARACTERS_A_TOKEN, card.context_tokens)

        return Driver(
            engine,
            method.name,
            lambda trajectory: method.flow(trajectory, self.config, setup),
            reservation,
            Admission(card.kv_tokens),
            self.progress,
        )


def shown(item: LabelledTrajectory, config: Config) -> LabelledTrajectory:
    """The item as the model sees it: with the reference answer where that is wanted."""
    if not config.show_reference_answer:
        return item
    told = {"reference_answer": item.reference_answer}
    return item.model_copy(update={"trajectory": item.trajectory.model_copy(update=told)})


def as_labelled(one: Trajectory | LabelledTrajectory) -> LabelledTrajectory:
    """A trajectory with a place for a label."""
    return LabelledTrajectory(trajectory=one) if isinstance(one, Trajectory) else one


def key_of(item: LabelledTrajectory) -> Key:
    """What tells one trajectory from another in a run."""
    return item.trajectory.id, item.trajectory.digest

"""Time and memory of SAFARI's log: python scripts/bench_safari_log.py [megabytes]."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from faultattr_local.methods.line_log import Found, LineLog
from faultattr_local.trajectory import Step, Trajectory

WORDS = ["error", "agent", "tool", "result", "the", "of", "failed", "ok", "value", "12", "x"]
PATTERNS = (
    "zebra",
    "error",
    "^--- step 57 ",
    "error.*failed",
    "(a+)+$",
    "zebra|yankee|xylophone",
    "[a-q][^u-z]{13}zq",
    ".{0,100}error.{0,100}",
)


def made(megabytes: int, separator: str) -> Trajectory:
    """A run of 100 steps of random words, ten to a line."""
    drawn = random.Random(0)
    lines = megabytes * 1_000_000 // 47 // 100
    steps = tuple(
        Step(
            index=at,
            agent=f"Agent{at % 3}",
            content=separator.join(" ".join(drawn.choices(WORDS, k=10)) for _ in range(lines)),
        )
        for at in range(100)
    )
    return Trajectory(id="made", task="None.", steps=steps)


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its milliseconds."""
    started = time.perf_counter()
    result = call()
    return result, 1000 * (time.perf_counter() - started)


def told(found: Found) -> str:
    """The count as the model is told it."""
    return f"{found.total}" if found.exact else f"at least {found.total}"


def main() -> None:
    """Print what building, reading and searching take."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    for name, separator in (("short lines", "\n"), ("one line a step", " ")):
        trajectory = made(megabytes, separator)
        line_log, spent = timed(lambda trajectory=trajectory: LineLog(trajectory, 400))
        print(f"{name}: {line_log.size} bytes, {len(line_log)} lines, built in {spent:.0f} ms")
        print(f"  index {line_log.index_size} bytes")
        _, spent = timed(lambda line_log=line_log: line_log.read(len(line_log) // 2, 200))
        print(f"  {spent:8.2f} ms  read 200 lines")
        for pattern in PATTERNS:
            found, spent = timed(
                lambda line_log=line_log, pattern=pattern: line_log.search(pattern, 20)
            )
            print(f"  {spent:8.2f} ms  search {pattern}: {told(found)}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"highest resident memory of the whole script: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

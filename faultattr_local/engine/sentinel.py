"""Ends an engine's processes when the program that started them is gone.

vLLM's engine process outlives a program that is killed outright, and keeps its memory, so
that the next run finds the GPU full. A sentinel watches from a process of its own: it notes
what the program has started while it lives, and ends vLLM's part of that once it is dead.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

LOOK_EVERY = 0.5
"""Seconds between two looks at what has been started."""

ENGINE_MARKS = ("VLLM", "multiprocessing")
"""In the command line of vLLM's processes: when they run, and while they start."""


class Sentinel:
    """Watches this process from its creation until `dismiss`."""

    def __init__(self) -> None:
        self._watcher = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the watch; nothing is killed."""
        self._watcher.communicate(b"dismissed")


def watch() -> None:
    """Note the parent's descendants until it dies (its pipe closes) or dismisses us."""
    import psutil

    parent = psutil.Process().parent()
    noted: dict[int, psutil.Process] = {}
    last_words: list[bytes] = []
    listener = threading.Thread(
        target=lambda: last_words.append(sys.stdin.buffer.read()), daemon=True
    )
    listener.start()
    # A child that vLLM forks holds the pipe open too, so the parent itself is looked at.
    while listener.is_alive() and parent is not None and parent.is_running():
        with contextlib.suppress(psutil.NoSuchProcess):
            noted |= {one.pid: one for one in parent.children(recursive=True)}
        listener.join(LOOK_EVERY)
    if last_words == [b"dismissed"]:
        return
    for process in noted.values():
        # Whatever ends by itself in between is as welcome; a number used again is not killed.
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(mark in part for part in process.cmdline() for mark in ENGINE_MARKS):
                process.kill()


if __name__ == "__main__":
    watch()

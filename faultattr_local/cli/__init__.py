"""The `faultattr` command: one file for each group of commands."""

from __future__ import annotations


def main() -> None:
    """Run the command; the entry point of the package."""
    from faultattr_local.cli.app import app

    app(prog_name="faultattr")

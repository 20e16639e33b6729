"""`faultattr methods`, `engines` and `formats`: what there is."""

from __future__ import annotations


def methods() -> None:
    """List the methods, and where each comes from."""
    from faultattr_local.cli.table import print_table
    from faultattr_local.cli.terminal import stdout
    from faultattr_local.methods.registry import METHODS

    rows = [(one.name, one.summary, one.source) for one in METHODS.values()]
    print_table(stdout(), ("method", "what it does", "source"), rows)


def engines() -> None:
    """List the engines: where the model's replies come from."""
    from faultattr_local.cli.table import print_table
    from faultattr_local.cli.terminal import stdout
    from faultattr_local.engine import ENGINES

    rows = [(name, *told) for name, told in ENGINES.items()]
    print_table(stdout(), ("engine", "what it is", "source"), rows)


def formats() -> None:
    """List the trace formats that can be read."""
    from faultattr_local.cli.table import print_table
    from faultattr_local.cli.terminal import stdout
    from faultattr_local.formats import FORMATS

    rows = [(one.name, one.about, one.source) for one in FORMATS.values()]
    print_table(stdout(), ("format", "what it looks like", "source"), rows)

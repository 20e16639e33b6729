"""The settings of SAFARI."""

from __future__ import annotations

from pydantic import Field

from faultattr_local.settings import Section


class SafariConfig(Section):
    """Settings of the SAFARI loop."""

    max_turns: int = Field(default=30, ge=1, le=500)
    """Turns of the Investigator; in the last one it must conclude."""
    accept_above: float = Field(default=70, ge=0, le=100)
    """Accept a hypothesis whose claims reach this confidence on average."""
    max_claims: int = Field(default=3, ge=1, le=10)
    """Atomic claims that a hypothesis may rest on."""
    context_budget: int | None = Field(default=None, ge=1)
    """Tokens of prompt and longest answer in one call; by default the served context."""
    memory: bool = True
    """Keep a short-term memory; off only for the ablation."""
    read_lines: int = Field(default=200, ge=1, le=5000)
    """Lines that one read may ask for."""
    search_hits: int = Field(default=20, ge=1, le=200)
    """Matching lines that one search shows; it always counts them."""
    line_width: int = Field(default=400, ge=40, le=10_000)
    """Bytes after which a line of the log goes on in the next one."""
    allow_no_fault: bool = False
    """Whether the hypothesis may be that there is no decisive fault."""

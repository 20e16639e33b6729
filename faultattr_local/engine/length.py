"""The check that prompt and answer fit, made before anything is sent."""

from __future__ import annotations

from faultattr_local.engine.base import Request
from faultattr_local.errors import LogTooLong


def refuse_if_too_long(request: Request, prompt_tokens: int, context_tokens: int) -> None:
    """Refuse here, since an engine may cut the answer without a word.

    Raises:
        LogTooLong: With the counts and what to do.
    """
    if prompt_tokens + request.max_tokens > context_tokens:
        raise LogTooLong(
            f"the prompt has {prompt_tokens} tokens and the answer may take "
            f"{request.max_tokens}, the model serves {context_tokens}",
            where=f"{request.trajectory}, {request.role}",
            fix="Use --method safari or --method auto, or serve a longer context.",
        )

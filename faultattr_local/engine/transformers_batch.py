"""One batch through a transformers model: each answer under its own grammar and seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Row:
    """One answer in the making.

    Attributes:
        prompt: Token ids of the conversation.
        grammar: Takes the ids so far, shape (1, length), and the logits, shape
            (1, vocabulary), and gives the logits with all else than the grammar's next
            tokens at minus infinity.
        max_tokens: Most tokens to generate.
        temperature: 0 is greedy.
        seed: Of this row alone; None draws from torch's own generator.
        wanted: Whether somebody still waits for it; asked at each token.
        written: Token ids generated so far, the one that ends the answer included.
        finish_reason: "stop", "length", "abort" when no longer wanted; "" before.
    """

    prompt: Sequence[int]
    grammar: Callable[[Any, Any], Any]
    max_tokens: int
    temperature: float
    seed: int | None
    wanted: Callable[[], bool]
    written: list[int] = field(default_factory=list)
    finish_reason: str = ""


def decode_batch(model: Any, rows: Sequence[Row], end: int) -> None:
    """Generate until each row has ended, is full, or is no longer wanted.

    Prompts are padded on the left. What a row draws does not depend on its neighbours but
    for the rounding of a batched computation.

    Args:
        model: A causal language model of transformers.
        rows: Their `written` and `finish_reason` are filled.
        end: The token that ends an answer, which also pads.
    """
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    width = max(len(row.prompt) for row in rows)
    ids = [[end] * (width - len(row.prompt)) + list(row.prompt) for row in rows]
    seen = [[0] * (width - len(row.prompt)) + [1] * len(row.prompt) for row in rows]
    # llguidance's mask is made to be compiled, which wants a C++ compiler at run time.
    with torch.compiler.set_stance("force_eager"):
        model.generate(
            input_ids=torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(seen, device=model.device),
            max_new_tokens=max(row.max_tokens for row in rows),
            logits_processor=LogitsProcessorList([_Choice(rows, model.device)]),
            stopping_criteria=StoppingCriteriaList([_Ended(rows, end)]),
        )


class _Choice:
    """Chooses each row's next token and leaves greedy decoding nothing else to take."""

    def __init__(self, rows: Sequence[Row], device: Any) -> None:
        import torch

        self._rows = rows
        self._generators: list[Any] = [
            None if row.seed is None else torch.Generator(device).manual_seed(row.seed)
            for row in rows
        ]

    def __call__(self, ids: Any, logits: Any) -> Any:
        for at, row in enumerate(self._rows):
            if row.finish_reason:
                continue
            masked = row.grammar(ids[at : at + 1], logits[at : at + 1])[0]
            token = self._choose(masked, row.temperature, self._generators[at])
            row.written.append(token)
            logits[at] = float("-inf")
            logits[at, token] = 0.0
        return logits

    def _choose(self, masked: Any, temperature: float, generator: Any) -> int:
        import torch

        if temperature == 0:
            return int(masked.argmax())
        chances = torch.softmax(masked.float() / temperature, dim=-1)
        return int(torch.multinomial(chances, 1, generator=generator))


class _Ended:
    """Ends each row at its own last token, and at once when nobody waits for it."""

    def __init__(self, rows: Sequence[Row], end: int) -> None:
        self._rows = rows
        self._end = end

    def __call__(self, ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        for row in self._rows:
            row.finish_reason = row.finish_reason or self._reason(row)
        ended = [bool(row.finish_reason) for row in self._rows]
        return torch.tensor(ended, device=ids.device)

    def _reason(self, row: Row) -> str:
        if row.written[-1] == self._end:
            return "stop"
        if len(row.written) >= row.max_tokens:
            return "length"
        return "" if row.wanted() else "abort"

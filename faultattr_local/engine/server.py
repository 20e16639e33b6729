"""vLLM servers that run already: one or more, over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections import OrderedDict
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field

from faultattr_local.engine.base import ModelCard, Reply, Request, parse_answer
from faultattr_local.engine.canary import prove_constraint
from faultattr_local.engine.endpoint import Endpoint
from faultattr_local.engine.length import refuse_if_too_long
from faultattr_local.engine.tokenizer import ChatTokenizer, load_tokenizer
from faultattr_local.errors import EngineDied, EngineUnavailable, InvalidReply
from faultattr_local.settings import Section

TEMPLATE_TOKENS = 64
"""Most tokens that a chat template is taken to put around one message."""

REMEMBERED = 100_000
"""Trajectories whose server is remembered; the one unused for longest is forgotten first."""

OLD_SERVER = "Use vLLM 0.12 or newer, started with --structured-outputs-config."
FREE_WHITESPACE = (
    "Start the server with --structured-outputs-config "
    '\'{"backend": "guidance", "disable_any_whitespace": true}\'.'
)


class ServerConfig(Section):
    """vLLM servers, reached without any proxy."""

    kind: Literal["server"] = "server"
    """Which engine."""
    urls: tuple[str, ...] = Field(min_length=1)
    """Addresses such as http://host:8000/v1; all must serve the same model."""
    model: str | None = None
    """Name under which the model is served; needed when a server has several."""
    api_key_env: str | None = None
    """Environment variable that holds the key, when the servers want one."""
    timeout_s: float = Field(default=1800, gt=0)
    """Seconds to wait for one answer; a slower one is an error and is not asked for again."""
    send_seed: bool = True
    """Send the seed above temperature 0; a vLLM server on a CPU can end on one, so not there."""
    tokenizer: str | None = None
    """Folder with the model's tokenizer, to count tokens here instead of on the server."""

    def make(self) -> ServerEngine:
        """The engine, not connected."""
        return ServerEngine(self)


class ServerEngine:
    """Sends all calls of one trajectory to one server, whose cache holds its log.

    A trajectory goes to the server with the fewest calls running when it is first seen.
    The server writes the conversation in its own chat template, and takes text of a log that
    spells a control token of the model for that token; the engines that run here do not.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._endpoints: list[Endpoint] = []
        self._homes: OrderedDict[str, Endpoint] = OrderedDict()
        self._tokenizer: ChatTokenizer | None = None
        self._reports_cached = False
        self._count = lru_cache(maxsize=256)(self._count_remotely)

    async def start(self) -> ModelCard:
        """Connect to every server and prove the constraint on each.

        Raises:
            EngineUnavailable: A server is not there, is not vLLM, or serves another model.
            ConstraintError: A server does not decode under a grammar.
        """
        await self.stop()
        self._reports_cached = False
        if self.config.tokenizer:
            self._tokenizer = load_tokenizer(self.config.tokenizer)
        key = self._key()
        try:
            for url in dict.fromkeys(self.config.urls):
                endpoint = Endpoint(url, key, self.config.timeout_s, self.config.send_seed)
                self._endpoints.append(endpoint)
                await endpoint.connect(self.config.model)
            self._refuse_mixed()
            for endpoint in self._endpoints:
                self._homes["canary"] = endpoint
                await prove_constraint(
                    self.generate, where=endpoint.url, fix=OLD_SERVER, compact=FREE_WHITESPACE
                )
        except BaseException:
            await self.stop()
            raise
        del self._homes["canary"]
        return self._card()

    def _key(self) -> str | None:
        name = self.config.api_key_env
        if name is None:
            return None
        key = os.environ.get(name, "")
        # A key with a line's end would be shown by the HTTP library's own error.
        if not (key and key.isascii() and key.isprintable()):
            raise EngineUnavailable(
                f"the environment variable {name} {'holds no key' if key else 'is not set'}",
                where="engine.api_key_env",
                fix="Set it to the key of the server, on one line, or remove the setting.",
            )
        return key

    def _refuse_mixed(self) -> None:
        first = self._endpoints[0]
        for other in self._endpoints[1:]:
            if other.served != first.served:
                raise EngineUnavailable(
                    f"serves {other.served}, {first.url} serves {first.served}",
                    where=other.url,
                    fix="All servers of one run must serve the same model and context.",
                )

    def _card(self) -> ModelCard:
        first = self._endpoints[0]
        capacities = [endpoint.kv_tokens for endpoint in self._endpoints]
        known = [tokens for tokens in capacities if tokens is not None]
        identity = f"{first.served.name}\0{first.served.root}"
        return ModelCard(
            name=first.served.name,
            digest=hashlib.sha256(identity.encode()).hexdigest(),
            context_tokens=first.served.context_tokens,
            kv_tokens=sum(known) if len(known) == len(capacities) else None,
            details={
                "engine": "server",
                "urls": [endpoint.url for endpoint in self._endpoints],
                "vllm": [endpoint.version for endpoint in self._endpoints],
                "digest_of": "the served name and path; the weights cannot be seen from here",
                "seed": "sent above temperature 0" if self.config.send_seed else "not sent",
                "cached_tokens": "reported"
                if self._reports_cached
                else "not reported: start the server with --enable-prompt-tokens-details",
            },
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, by the local tokenizer where one is configured, else the server's.

        Raises:
            EngineDied: The server does not answer.
        """
        return self._tokenizer.count(text) if self._tokenizer else self._count(text)

    def _count_remotely(self, text: str) -> int:
        if not self._endpoints:
            raise EngineDied("not connected", where=self.config.urls[0])
        return self._endpoints[0].count(text)

    async def generate(self, request: Request) -> Reply:
        """Answer one request; a cancelled call closes its connection, which aborts it there.

        Raises:
            LogTooLong: Prompt and answer do not fit the context.
            InvalidReply: Cut, empty or invalid.
            TrajectoryError: The server refuses the request, or took longer than `timeout_s`.
            EngineDied: The connection was lost or the server failed.
        """
        endpoint = self._home(request.trajectory)
        started = time.time()
        endpoint.running += 1
        try:
            await self._refuse_if_too_long(request, endpoint)
            content = await endpoint.chat(request)
        finally:
            endpoint.running -= 1
        return self._reply(request, content, started)

    def _home(self, trajectory: str) -> Endpoint:
        if not self._endpoints:
            raise EngineDied("not connected", where=self.config.urls[0])
        home = self._homes.get(trajectory)
        if home is None:
            home = min(self._endpoints, key=lambda one: (one.running, one.trajectories))
            home.trajectories += 1
            self._homes[trajectory] = home
            if len(self._homes) > REMEMBERED:
                self._homes.popitem(last=False)
        self._homes.move_to_end(trajectory)
        return home

    async def _refuse_if_too_long(self, request: Request, endpoint: Endpoint) -> None:
        """Count exactly only where the bytes, of which a token takes at least one, allow it."""
        context = endpoint.served.context_tokens
        most = sum(
            len(message.content.encode("utf-8", "surrogatepass")) + TEMPLATE_TOKENS
            for message in request.messages
        )
        if most + request.max_tokens <= context:
            return
        if self._tokenizer:
            tokens = len(await asyncio.to_thread(self._tokenizer.chat, request.messages))
        else:
            tokens = await endpoint.count_chat(request.messages)
        refuse_if_too_long(request, tokens, context)

    def _reply(self, request: Request, content: dict[str, Any], started: float) -> Reply:
        try:
            choice, usage = content["choices"][0], content["usage"]
            text, reason = choice["message"]["content"] or "", str(choice["finish_reason"])
            prompt, written = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidReply(
                f"the server's answer is not a chat completion ({error!r})",
                where=f"{request.trajectory}, {request.role}",
                text=str(content)[:2000],
            ) from error
        told = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        self._reports_cached = self._reports_cached or told is not None
        return Reply(
            answer=parse_answer(request, text, reason, written),
            text=text,
            finish_reason=reason,
            prompt_tokens=prompt,
            cached_tokens=int(told or 0),
            output_tokens=written,
            started=started,
            seconds=time.time() - started,
        )

    async def stop(self) -> None:
        """Close the connections; the servers go on. Safe to call twice."""
        endpoints, self._endpoints = self._endpoints, []
        self._homes.clear()
        self._count.cache_clear()
        for endpoint in endpoints:
            await endpoint.close()

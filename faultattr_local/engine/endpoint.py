"""One vLLM server over HTTP: what it serves, and its errors in this package's words."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faultattr_local.engine.base import Message, Request
from faultattr_local.engine.server_response import json_object, judged, kv_tokens
from faultattr_local.errors import EngineDied, EngineUnavailable, TrajectoryError

if TYPE_CHECKING:
    import httpx

CONNECT_S = 10.0
"""Seconds to wait for a connection, which a live server takes at once."""

DESCRIBE_S = 30.0
"""Seconds to wait for what a server says of itself when a run starts."""

KEEP_IDLE_S = 2.0
"""Seconds to keep an idle connection: less than the five after which vLLM's server closes
it, so that no request is sent into a connection that is just being closed."""


@dataclass(frozen=True)
class Served:
    """What a server says it serves.

    Attributes:
        name: The model's name in requests.
        root: Where the server read it from.
        context_tokens: Its `max_model_len`.
    """

    name: str
    root: str
    context_tokens: int

    def __str__(self) -> str:
        return f"{self.name} ({self.context_tokens} tokens, read from {self.root})"


class Endpoint:
    """A connection to one server.

    Args:
        url: With or without the /v1 at its end.
        key: Sent as a bearer token; None sends none.
        timeout_s: Seconds to wait for an answer.
        send_seed: Send the seed of a request above temperature 0.

    Raises:
        EngineUnavailable: The address is none.

    Attributes:
        running: Calls in flight.
        trajectories: Trajectories that have gone here so far.
    """

    def __init__(self, url: str, key: str | None, timeout_s: float, send_seed: bool) -> None:
        import httpx

        self.url = url
        self.served = Served("", "", 0)
        self.version = ""
        self.kv_tokens: int | None = None
        self.running = 0
        self.trajectories = 0
        self._timeout_s = timeout_s
        self._send_seed = send_seed
        # No proxy: the servers stand on the same machine or network. The default context
        # knows the certificates that SSL_CERT_FILE names.
        limits = httpx.Limits(keepalive_expiry=KEEP_IDLE_S)
        settings: dict[str, Any] = {
            "base_url": url.rstrip("/").removesuffix("/v1"),
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "timeout": httpx.Timeout(timeout_s, connect=CONNECT_S),
            "limits": limits,
            "trust_env": False,
            "verify": ssl.create_default_context(),
        }
        try:
            self._client = httpx.AsyncClient(**settings)
            self._counter = httpx.Client(**settings)
        except httpx.InvalidURL as error:
            raise EngineUnavailable(
                f"is no address ({error})", where=url, fix="Correct engine.urls."
            ) from error

    async def connect(self, model: str | None) -> None:
        """Find out what is served.

        Args:
            model: The name wanted; None takes the only one there is.

        Raises:
            EngineUnavailable: Not there, not vLLM, or another model.
        """
        import httpx

        try:
            models = self._json(await self._client.get("/v1/models", timeout=DESCRIBE_S))
            version = await self._client.get("/version", timeout=DESCRIBE_S)
            metrics = await self._client.get("/metrics", timeout=DESCRIBE_S)
        except httpx.TransportError as error:
            raise EngineUnavailable(
                f"no server answers ({_told(error)})",
                where=self.url,
                fix="Start it, or correct engine.urls.",
            ) from error
        self.served = self._choose(models, model)
        self.version = str(self._json(version).get("version", "unknown"))
        self.kv_tokens = kv_tokens(metrics.text) if metrics.is_success else None

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        if response.status_code in (401, 403):
            raise EngineUnavailable(
                f"the server wants a key (HTTP {response.status_code})",
                where=self.url,
                fix="Put the key into an environment variable and name it in api_key_env.",
            )
        content = json_object(response) if response.is_success else None
        if content is None:
            raise EngineUnavailable(
                f"{response.url.path} answers HTTP {response.status_code} and no JSON object: "
                "this is not a vLLM server",
                where=self.url,
                fix="Give the address of a vLLM server, such as http://host:8000/v1.",
            )
        return content

    def _choose(self, models: dict[str, Any], wanted: str | None) -> Served:
        listed = [one for one in models.get("data", []) if isinstance(one, dict)]
        names = [str(one.get("id")) for one in listed]
        if wanted is None and len(listed) > 1:
            raise EngineUnavailable(
                f"serves several models ({', '.join(names)})",
                where=self.url,
                fix="Say which in engine.model.",
            )
        chosen = next((one for one in listed if wanted in (None, one.get("id"))), None)
        if chosen is None:
            raise EngineUnavailable(
                f"does not serve {wanted!r} but {', '.join(names) or 'nothing'}",
                where=self.url,
                fix="Correct engine.model or engine.urls.",
            )
        context = chosen.get("max_model_len")
        if not isinstance(context, int):
            raise EngineUnavailable(
                "does not tell max_model_len: this is not a vLLM server",
                where=self.url,
                fix="Other servers do not hold answers to a schema as needed; use vLLM.",
            )
        return Served(str(chosen["id"]), str(chosen.get("root")), context)

    async def chat(self, request: Request) -> dict[str, Any]:
        """One chat completion under the request's schema, as the server sends it.

        Raises:
            LogTooLong, TrajectoryError, EngineDied: As `ServerEngine.generate`.
        """
        # The server fills what is not sent from the model's generation_config.json.
        body: dict[str, Any] = {
            "messages": _plain(request.messages),
            "max_tokens": request.max_tokens,
            "temperature": request.sampling.temperature,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": request.schema, "strict": True},
            },
        }
        sampling = request.sampling
        if self._send_seed and sampling.temperature > 0 and sampling.seed is not None:
            body["seed"] = sampling.seed
        where = f"{request.trajectory}, {request.role}"
        return await self._post("/v1/chat/completions", body, where)

    async def count_chat(self, messages: Sequence[Message]) -> int:
        """Tokens of a conversation under the server's own chat template.

        Raises:
            TrajectoryError, EngineDied: As `ServerEngine.generate`.
        """
        body = {"messages": _plain(messages), "add_generation_prompt": True}
        return int((await self._post("/tokenize", body, self.url))["count"])

    def count(self, text: str) -> int:
        """Tokens of a text, without special tokens; blocks until the server has answered.

        Raises:
            EngineDied: It does not.
        """
        import httpx

        body = {"model": self.served.name, "prompt": text, "add_special_tokens": False}
        try:
            response = self._counter.post("/tokenize", json=body)
        except httpx.TransportError as error:
            raise EngineDied(
                f"the connection was lost while counting tokens ({_told(error)})", where=self.url
            ) from error
        return int(judged(response, self.url, self.url)["count"])

    async def _post(self, path: str, body: dict[str, Any], where: str) -> dict[str, Any]:
        import httpx

        try:
            response = await self._client.post(path, json=body | {"model": self.served.name})
        except httpx.ReadTimeout as error:
            raise TrajectoryError(
                f"{self.url} gave no answer within {self._timeout_s:g} s",
                where=where,
                fix="Raise engine.timeout_s, or let fewer trajectories run at once.",
            ) from error
        except (httpx.TransportError, RuntimeError) as error:
            # httpx raises RuntimeError for a client that was closed meanwhile.
            raise EngineDied(f"the connection was lost ({_told(error)})", where=self.url) from error
        return judged(response, self.url, where)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        self._counter.close()


def _plain(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__

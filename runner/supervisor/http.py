"""The few requests that the supervisor itself sends to a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import requests

from runner.errors import HostError

_NO_ANSWER = (requests.RequestException, ValueError)
"""`requests` lets a ValueError of urllib3 pass, for a host name with a label over 63 characters."""


class ServerUnreachable(HostError):
    """The server did not answer, or not as expected."""


class ServerClient:
    """One server by its address on the private network. Bodies are returned as read."""

    def __init__(self, base_url: str):
        self.base_url = base_url
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy of the host must not see this traffic

    def healthy(self) -> bool:
        """True when `/health` answers 200; vLLM opens its port only after loading."""
        try:
            return self._session.get(f"{self.base_url}/health", timeout=5).status_code == 200
        except _NO_ANSWER:
            return False

    def get_json(self, path: str, timeout_s: float = 60.0) -> Mapping[str, Any] | None:
        """A JSON object; None for 404.

        Raises:
            ServerUnreachable: no answer, another status, or not a JSON object.
        """
        response = self._request("GET", path, timeout_s=timeout_s)
        if response.status_code == 404:
            return None
        return self._object(response, path)

    def metrics(self) -> str:
        """The Prometheus text of `/metrics`."""
        response = self._request("GET", "/metrics", timeout_s=30)
        if response.status_code != 200:
            raise ServerUnreachable(
                f"/metrics answered {response.status_code}", where=self.base_url
            )
        # without a charset in its header `requests` would take it for Latin-1
        return response.content.decode("utf-8", "replace")

    def reset_prefix_cache(self) -> bool:
        """True when the server emptied its prefix cache (vLLM's developer mode only)."""
        return self._request("POST", "/reset_prefix_cache", timeout_s=60).status_code == 200

    def chat(self, body: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        """One chat completion, not streamed.

        Raises:
            ServerUnreachable: no answer, an error status (with the server's own words).
        """
        response = self._request("POST", "/v1/chat/completions", timeout_s=timeout_s, body=body)
        return self._object(response, "/v1/chat/completions")

    def _request(
        self, method: str, path: str, *, timeout_s: float, body: Mapping[str, Any] | None = None
    ) -> requests.Response:
        try:
            return self._session.request(
                method, f"{self.base_url}{path}", json=body, timeout=timeout_s
            )
        except _NO_ANSWER as error:
            raise ServerUnreachable(
                f"{path} did not answer: {type(error).__name__}", where=self.base_url
            ) from error

    def _object(self, response: requests.Response, path: str) -> Mapping[str, Any]:
        if response.status_code != 200:
            raise ServerUnreachable(
                f"{path} answered {response.status_code}: {response.text[:300]}",
                where=self.base_url,
            )
        try:
            value = json.loads(response.content)
        except ValueError as error:
            raise ServerUnreachable(f"{path} is not JSON", where=self.base_url) from error
        if not isinstance(value, dict):
            raise ServerUnreachable(f"{path} is not a JSON object", where=self.base_url)
        return value

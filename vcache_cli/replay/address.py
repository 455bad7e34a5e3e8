"""Where requests go: one URL, straight or by one proxy, and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Address", "address_of", "bearer"]

_CHAT: Final = "/chat/completions"
_PORTS: Final = {"http": 80, "https": 443}
_FORM: Final = "expected something like http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's chat completions."""

    scheme: str
    host: str
    port: int
    path: str
    """Of the chat completions, absolute."""
    proxy: tuple[str, int] | None = None
    """Host and port of the proxy that the user asked for."""
    key: str = field(default="", repr=False)
    """What stands after ``Bearer``; empty for none. Never printed."""

    @property
    def url(self) -> str:
        """The whole URL, as it is printed and as what was sent is remembered under."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"

    @property
    def exposes_key(self) -> bool:
        """True where the key would cross a network in the clear."""
        local = self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"
        return bool(self.key) and self.scheme == "http" and not local


def address_of(url: str, *, proxy: str | None = None, key: str = "") -> Address:
    """The chat completions below `url`, which may end in ``/v1``, or name them whole.

    Raises:
        UsageError: no plain http or https URL, or one with a secret in it.

    >>> address_of("http://localhost:8080").url
    'http://localhost:8080/v1/chat/completions'
    >>> address_of("https://models.example/openai/v1/").url
    'https://models.example/openai/v1/chat/completions'
    """
    place, port = _split("--server", url)
    path = place.path.rstrip("/")
    if not path.endswith(_CHAT):
        path += _CHAT if path.endswith("/v1") else f"/v1{_CHAT}"
    by = None
    if proxy is not None:
        found, proxy_port = _split("--proxy", proxy)
        if found.scheme != "http" or found.path.strip("/"):
            raise UsageError("`--proxy`: expected http://HOST:PORT")
        by = (found.hostname or "", proxy_port)
    return Address(place.scheme, place.hostname or "", port, path, by, key)


def _split(option: str, url: str) -> tuple[SplitResult, int]:
    try:
        place = urlsplit(url)
        port = place.port or _PORTS.get(place.scheme, 0)
    except ValueError as error:
        raise UsageError(f"`{option}`: {error}", hint=_FORM) from error
    if place.username is not None or place.password is not None:
        raise UsageError(
            f"`{option}`: a name or password in the URL would be printed",
            hint="put a key into an environment variable, and name that with --api-key-env",
        )
    plain = url.isascii() and url.isprintable() and " " not in url
    if place.scheme not in _PORTS or not place.hostname or place.query or place.fragment:
        plain = False
    if not plain:
        raise UsageError(f"`{option}`: no plain http or https URL", hint=_FORM)
    return place, port


def bearer(variable: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The key that the environment has under `variable`; empty where none is named.

    Raises:
        UsageError: there is none, or it cannot stand in a header. The key is not in the message.
    """
    if variable is None:
        return ""
    key = environment.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"`--api-key-env`: the environment has no `{variable}`",
            hint="name the variable, not the key itself",
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"`--api-key-env`: what `{variable}` holds is no key")
    return key

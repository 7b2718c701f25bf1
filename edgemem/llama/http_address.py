"""Where a model's server listens: on this machine, unless the profile names another host."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from edgemem.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection


class Address(msgspec.Struct, frozen=True):
    """One server: a host and a port, or the file of a Unix domain socket."""

    text: str
    """As the operator wrote it."""
    host: str = ""
    port: int = 0
    file: str = ""

    @classmethod
    def parse(cls, text: str, *, hosts: Collection[str] = ()) -> Address:
        """Read `http://127.0.0.1:8080` or `unix:///run/llama.sock`.

        Args:
            hosts: what may be named besides this machine, spelt as in `text`.

        Raises:
            ConfigError: it is no such address, or it leaves this machine and is not among `hosts`.
        """
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port or 80
        except ValueError as error:
            raise ConfigError(
                f"{text!r} is no address ({error}); write one such as http://127.0.0.1:8080"
            ) from error
        if parts.scheme == "unix" and parts.path and not host:
            return cls(text, file=parts.path)
        if parts.scheme != "http" or not host or parts.path.strip("/") or parts.query or parts.username:
            raise ConfigError(
                f"{text!r} names no server; write an address such as http://127.0.0.1:8080 or unix:///run/llama.sock"
            )
        if not (_is_here(host) or host in {name.strip("[]").lower() for name in hosts}):
            raise ConfigError(
                f"{host} is not this machine, and nothing may leave it unasked; if you mean it, name the host under "
                f'[chat] server_hosts = ["{host}"] in the profile'
            )
        return cls(text, host=host, port=port)

    @property
    def place(self) -> str:
        """Return what two spellings of one server have in common."""
        return self.file or f"{'127.0.0.1' if self.host == 'localhost' else self.host}:{self.port}"

    def connect(self, timeout_s: float) -> socket.socket:
        """Return a connected socket; raises OSError like any other."""
        if self.file:
            return _connected(socket.AF_UNIX, self.file, timeout_s)
        if self.host != "localhost":
            return self._connect(self.host, timeout_s)
        # what `localhost` means (RFC 6761), so that no name server is ever asked for it
        try:
            return self._connect("127.0.0.1", timeout_s)
        except ConnectionRefusedError:
            return self._connect("::1", timeout_s)

    def _connect(self, host: str, timeout_s: float) -> socket.socket:
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:  # a name, which the profile allowed
            return socket.create_connection((host, self.port), timeout_s)
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        return _connected(family, (host, self.port), timeout_s)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _connected(family: int, place: str | tuple[str, int], timeout_s: float) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        made.connect(place)
    except BaseException:
        made.close()
        raise
    return made

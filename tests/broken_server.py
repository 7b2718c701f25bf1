"""A web server on the loopback that serves one file, and can be told to do it badly."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

IDENTITY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4fbQn0QEASrdJQyc
JEqsEO33KxDHzocM04EanrGQoEyhRANCAASs/le7NRNhS7Mauq/K+o6mXJBnX+w7
zObxnpYvXeeuEnK6caVIRKktDBG3B7NGR9A21uIuaMKyjGLMaO+gKfoE
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBqTCCAVCgAwIBAgIUVm8l71kTbY7vwPOQVfvtokIx7F4wCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWYSB0ZXN0IG9uIHRoaXMgbWFjaGluZTAgFw0yNjExMjExNzIy
MDdaGA8yMTI2MTAyODE3MjIwN1owITEfMB0GA1UEAwwWYSB0ZXN0IG9uIHRoaXMg
bWFjaGluZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKz+V7s1E2FLsxq6r8r6
jqZckGdf7DvM5vGeli9d564ScrpxpUhEqS0MEbcHs0ZH0DbW4i5owrKMYsxo76Ap
+gSjZDBiMB0GA1UdDgQWBBQIaMYXAO8XZhdI53xfgwf8CBoz1zAfBgNVHSMEGDAW
gBQIaMYXAO8XZhdI53xfgwf8CBoz1zAPBgNVHRMBAf8EBTADAQH/MA8GA1UdEQQI
MAaHBH8AAAEwCgYIKoZIzj0EAwIDRwAwRAIgPRfQtvFgz/j3ARFf6ZCg/Ey4s/r5
ZjIxJvomNQ4bvdwCIAgJ0mugiAX60nvhHQxHUtKnTNBz7Y5jyKVqwwUsYZ29
-----END CERTIFICATE-----
"""
"""The key and the certificate of 127.0.0.1, signed by nobody else; no secret."""


class Served:
    """What the server has, how it behaves, and what it was asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag = '"first"'
        self.status = 200
        """Another status is all that it answers."""
        self.location = ""
        """Where it sends everybody, if anywhere."""
        self.cut: int | None = None
        """Bytes of one answer after which it hangs up."""
        self.more = 0
        """Bytes by which its Content-Length lies."""
        self.ranges = True
        """Whether it can begin in the middle."""
        self.if_range = True
        """Whether it looks at If-Range; one that does not goes on with a newer file."""
        self.shift = 0
        """Bytes by which it begins elsewhere than it was asked."""
        self.says_length = True
        self.silent = threading.Event()
        """Cleared, it waits before it answers."""
        self.silent.set()
        self.asked: list[str] = []
        """The Range header of every request, or nothing."""
        self.sent = 0
        """Bytes of content in all."""
        self.url = ""


@contextmanager
def serving(content: bytes, *, identity: Path | None = None) -> Iterator[Served]:
    """Serve on a port of this machine until the block ends; with an identity, over https."""
    served = Served(content)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            served.asked.append(self.headers.get("Range", ""))
            served.silent.wait(5)
            if served.location:
                self.send_response(302)
                self.send_header("Location", served.location)
                self.end_headers()
                return
            if served.status != 200:
                self.send_error(served.status)
                return
            begin, content = self._begin(), served.content
            if begin is not None and begin >= len(content):
                self.send_error(416)
                return
            self.send_response(200 if begin is None else 206)
            body = content[(begin or 0) :]
            if begin is not None:
                at = begin + served.shift
                self.send_header("Content-Range", f"bytes {at}-{len(content) - 1}/{len(content)}")
            if served.says_length:
                self.send_header("Content-Length", str(len(body) + served.more))
            if served.etag:
                self.send_header("ETag", served.etag)
            self.end_headers()
            body = body[: served.cut]
            self.wfile.write(body)
            served.sent += len(body)

        def _begin(self) -> int | None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            newer = served.if_range and self.headers.get("If-Range", served.etag) != served.etag
            return int(asked[1]) if asked and served.ranges and not newer else None

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Be hung up on without a word."""

    with Server(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity)
            # the handshake waits until a thread reads: a client that hangs up must not end the accepting one
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        served.url = f"{scheme}://127.0.0.1:{server.server_port}/models/tiny.gguf"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield served
        finally:
            served.silent.set()
            server.shutdown()
            thread.join()

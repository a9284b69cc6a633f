"""A push service over TLS, and browsers that subscribe to it: they alone can read what it gets."""

from __future__ import annotations

import base64
import hmac
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.chat.service.push import new_key
from penstock.chat.store.logins import Browser, PushSubscription

NAME = "push.example.test"
"""Name that the certificate of the service has."""


class Got(NamedTuple):
    """A request."""

    path: str
    headers: dict[str, str]
    body: bytes


class PushService:
    """A push service over TLS that keeps what it got, and answers as it is told."""

    def __init__(self, folder: Path) -> None:
        self.got: list[Got] = []
        self.answers: list[int] = []
        self.answer_of: Callable[[BaseHTTPRequestHandler], None] | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                service.got.append(Got(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if service.answer_of is not None:
                    service.answer_of(self)
                    return
                self.send_response(service.answers.pop(0) if service.answers else 201)
                self.send_header("location", f"https://127.0.0.1:{service.port}/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        certificate(folder)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}/send/abc"
        self.tls = ssl.create_default_context(cafile=folder / "cert.pem")
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def certificate(folder: Path) -> None:
    """Write a certificate of this machine's address and of `NAME`, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    names = [x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*pem))


class Device:
    """A browser with its keys: it alone can read what is sent to it."""

    def __init__(self, endpoint: str, on: tuple[Any, ...] = ("asks", "ended")) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = bytes(range(16))
        private, self.server_key = new_key()
        self.p256dh, self.auth = b64(point(self._private.public_key())), b64(self._auth)
        self.endpoint = endpoint
        self.browser = Browser("b1", "s", "Tests", True, 1, 1)
        self.browser.push = PushSubscription(
            key=private,
            endpoint=endpoint,
            p256dh=self.p256dh,
            auth=self.auth,
            on=on,
            contact="https://chat.example.org",
        )

    def read(self, body: bytes) -> Any:
        """Decrypt a call, as RFC 8291 and 8188 have it."""
        salt, key_length = body[:16], body[20]
        sender, sealed = body[21 : 21 + key_length], body[21 + key_length :]
        other = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self._private.exchange(ec.ECDH(), other)
        info = b"WebPush: info\0" + point(self._private.public_key()) + sender
        secret = derived(self._auth, shared, info, 32)
        key = derived(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = derived(salt, secret, b"Content-Encoding: nonce\0", 12)
        plain = AESGCM(key).decrypt(nonce, sealed, None)
        return json.loads(plain.rstrip(b"\0").removesuffix(b"\x02"))

    def claims(self, header: str) -> Any:
        """The claims of a signature; it raises if another key made it than the one that the browser named."""
        parts = dict(part.split("=", 1) for part in header.removeprefix("vapid ").split(","))
        assert parts["k"] == self.server_key
        head, claims, signature = parts["t"].split(".")
        raw = unb64(signature)
        signed = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), unb64(self.server_key))
        key.verify(signed, f"{head}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
        return json.loads(unb64(claims))


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key as bytes."""
    return key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def derived(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """One step of HKDF with SHA-256."""
    return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\x01", "sha256")[:length]


def b64(data: bytes) -> str:
    """Bytes in base64url."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    """The bytes of a text in base64url."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

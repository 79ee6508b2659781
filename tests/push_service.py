"""A push service and a browser on loopback: verifies the signature, decrypts the body, and responds."""

from __future__ import annotations

import json
import struct
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from longwatch.notifications.web_push.subscription import PushSubscription, decode_key


@dataclass(frozen=True, slots=True)
class ReceivedPush:
    """A push that was verified and decrypted."""

    path: str
    headers: dict[str, str]
    claims: dict[str, Any]
    payload: dict[str, Any]


class BrowserKeys:
    """The keys of one browser."""

    def __init__(self) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._secret = b"sixteen bytes!!!"

    @property
    def _public(self) -> bytes:
        return self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def p256dh(self) -> str:
        return base64url(self._public)

    @property
    def auth(self) -> str:
        return base64url(self._secret)

    def decrypt(self, body: bytes) -> bytes:
        """Decrypt `aes128gcm` (RFC 8188) with the keys of RFC 8291."""
        salt, size, key_length = body[:16], struct.unpack("!L", body[16:20])[0], body[20]
        sender, record = body[21 : 21 + key_length], body[21 + key_length :]
        assert len(record) <= size
        shared = self._private.exchange(
            ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        )
        secret = _derive(shared, self._secret, b"WebPush: info\0" + self._public + sender, 32)
        key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert padded.endswith(b"\2")  # the delimiter of the last record
        return padded[:-1]

    def subscription(self, endpoint: str, **fields: Any) -> PushSubscription:
        """A subscription of this browser."""
        given = {"page": "http://localhost:8321", "created_at": 1_000, "renewed_at": 1_000, **fields}
        return PushSubscription(endpoint=endpoint, p256dh=self.p256dh, auth=self.auth, **given)


def verify_vapid(header: str, audience: str, *, public_key: str | None = None) -> dict[str, Any]:
    """The claims of an Authorization header, if its signature and its audience are right."""
    scheme, _, rest = header.partition(" ")
    fields = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert scheme == "vapid"
    assert public_key in (None, fields["k"])
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode_key(fields["k"]))
    return dict(jwt.decode(fields["t"], point, algorithms=["ES256"], audience=audience))


@dataclass(slots=True)
class PushService:
    """A push service for one browser: its requests, and how it responds."""

    origin: str
    keys: BrowserKeys = field(default_factory=BrowserKeys)
    received: list[ReceivedPush] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    responses: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)  # by path

    def subscription(self, name: str = "one", **fields: Any) -> PushSubscription:
        return self.keys.subscription(f"{self.origin}/push/{name}", **fields)

    def receive(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        try:
            claims = verify_vapid(headers["authorization"], self.origin)
            payload = json.loads(self.keys.decrypt(body))
        except (jwt.PyJWTError, InvalidTag, ValueError, KeyError, AssertionError) as error:
            self.rejected.append(repr(error))
            return 400, {}, repr(error).encode()
        self.received.append(ReceivedPush(path, headers, claims, payload))
        return self.responses.get(path, (201, {}, b""))


@contextmanager
def push_service() -> Iterator[PushService]:
    """A push service on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, content = service.receive(self.path, headers, body)
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = PushService(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)

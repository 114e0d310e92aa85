"""A fresh pair of keys for each run: the client's, and the guest's own.

With its host key known beforehand the guest is told from anything else that may come to
listen on the forwarded port. ed25519 throughout: the quickest to make, and to check under
emulation. Nothing is run and nothing is written.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

TYPE = b"ssh-ed25519"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """What both ends need.

    `private`: OpenSSH PEM of the client; `authorized`: the guest's authorized_keys;
    `host_private`: the guest's host key as dropbear reads it; `host_public`: "ssh-ed25519 …"
    without host name, as in known_hosts.
    """

    private: str
    authorized: str
    host_private: bytes
    host_public: str


def new_keys() -> Keys:
    """Make both pairs."""
    client, host = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    return Keys(
        private=client.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
        authorized=f"{_public_line(client)} ktrial\n",
        host_private=_dropbear(host),
        host_public=_public_line(host),
    )


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _public_line(key: Ed25519PrivateKey) -> str:
    blob = _string(TYPE) + _string(_public(key))
    return f"{TYPE.decode()} {base64.b64encode(blob).decode()}"


def _dropbear(key: Ed25519PrivateKey) -> bytes:
    """Dropbear's own format: type, then seed and public key as one string.

    Source: buf_put_ed25519_priv_key() in dropbear's ed25519.c, 2020.79 and newer.
    """
    seed = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    return _string(TYPE) + _string(seed + _public(key))


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data

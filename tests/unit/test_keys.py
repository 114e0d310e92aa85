"""The keys of a run, read back by the library that the ssh client uses."""

from __future__ import annotations

import base64
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)

from pipeline import keys


def strings(data: bytes) -> list[bytes]:
    """The length-prefixed strings of an ssh blob; nothing may be left over."""
    found = []
    while data:
        (size,) = struct.unpack_from(">I", data)
        found.append(data[4 : 4 + size])
        assert len(found[-1]) == size
        data = data[4 + size :]
    return found


def public(line: str) -> bytes:
    kind, blob = line.split()[:2]
    name, raw = strings(base64.b64decode(blob))
    assert kind.encode() == name == b"ssh-ed25519"
    return raw


def raw_public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def test_the_client_key_is_the_one_that_is_authorized() -> None:
    pair = keys.new_keys()
    client = load_ssh_private_key(pair.private.encode(), password=None)
    assert isinstance(client, Ed25519PrivateKey)
    assert raw_public(client) == public(pair.authorized)


def test_the_host_key_in_dropbears_form_belongs_to_the_public_line() -> None:
    pair = keys.new_keys()
    name, both = strings(pair.host_private)
    seed, raw = both[:32], both[32:]
    assert name == b"ssh-ed25519"
    assert raw == public(pair.host_public)
    assert raw == raw_public(Ed25519PrivateKey.from_private_bytes(seed))


def test_every_call_gives_other_keys() -> None:
    one, two = keys.new_keys(), keys.new_keys()
    publics = {
        public(line) for line in (one.authorized, one.host_public, two.authorized, two.host_public)
    }
    assert len(publics) == 4

# mypy: ignore-errors
"""Digests and compression in a call: C objects made in it, and such that existed before."""

import hashlib
import hmac
import zlib

import pytest
import torch

import stator

from .harness import reset_engine


def digest(x, data, name):
    made = hashlib.new(name, data)
    made.update(b"more")
    other = made.copy()
    other.update(data)
    return x + made.digest_size, made.hexdigest(), other.hexdigest(), made.name, made.block_size


def constructors(x, data, name):
    kinds = hashlib.md5, hashlib.sha3_256, hashlib.blake2b, hashlib.shake_128
    sizes = [kind(data).digest_size for kind in kinds]
    return x + sum(sizes), hashlib.shake_128(data).hexdigest(7), hashlib.blake2s(data).digest()


def authenticated(x, data, name):
    made = hmac.new(b"key", data, name)
    same = hmac.compare_digest(made.digest(), hmac.digest(b"key", data, name))
    return x + same, made.hexdigest(), hashlib.pbkdf2_hmac(name, data, b"salt", 3)


def compressed(x, data, name):
    packed = zlib.compress(data * 20)
    machine = zlib.compressobj(9)
    parts = machine.compress(data) + machine.flush()
    back = zlib.decompressobj()
    return x + len(packed), parts, back.decompress(parts), back.eof, zlib.crc32(data, 5)


def refused(x, data, name):
    try:
        zlib.decompress(data)
    except zlib.error as error:
        return x + 1, str(error)


def unknown(x, data, name):
    try:
        hashlib.new("no such digest", data)
    except ValueError as error:
        return x + 1, str(error)


PROGRAMS = [digest, constructors, authenticated, compressed, refused, unknown]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_captured(fn):
    reset_engine()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for data, name in ((b"abc", "sha256"), (b"abc", "sha256"), (b"abd", "sha256"), (b"", "sha1")):
        assert repr(compiled(torch.ones(2), data, name)) == repr(fn(torch.ones(2), data, name))
    assert compiled.statistics()["hits"] >= 1


def kept(x):
    return x + 1, hashlib.sha1(b"a")


def given(x, made):
    made.update(b"abc")
    return x + 1, made.hexdigest()


def read(x, made):
    return x + 1, made.hexdigest(), made.copy().digest()


def flushed(x, machine):
    return x + 1, machine.compress(b"abc") + machine.flush()


@pytest.mark.parametrize("fn", [given, read], ids=lambda fn: fn.__name__)
def test_one_of_the_world(fn):
    """What it holds can't be seen: it is not looked at, and changed once."""
    reset_engine()
    with pytest.raises(stator.CaptureError):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(1), hashlib.sha1(b"x"))
    compiled = stator.compile(fn, backend="eager")
    mine, its = hashlib.sha1(b"x"), hashlib.sha1(b"x")
    for _ in range(3):
        assert repr(compiled(torch.ones(1), its)) == repr(fn(torch.ones(1), mine))
        mine.update(b"y")
        its.update(b"y")


def test_a_compressor_of_the_world():
    reset_engine()
    with pytest.raises(stator.CaptureError):
        stator.compile(flushed, backend="eager", fullgraph=True)(torch.ones(1), zlib.compressobj())
    compiled = stator.compile(flushed, backend="eager")
    assert repr(compiled(torch.ones(1), zlib.compressobj())) == repr(
        flushed(torch.ones(1), zlib.compressobj())
    )


def test_one_that_is_kept():
    reset_engine()
    with pytest.raises(stator.CaptureError, match="recipe"):
        stator.compile(kept, backend="eager", fullgraph=True)(torch.ones(1))

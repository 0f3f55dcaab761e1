"""Digests and compression: `hashlib`'s modules of C, and `zlib`.

Their objects keep what they were given in a form that nobody can see: one of the world is not
looked into, one made in the call is changed by the call alone, and can't be made again.
"""

from typing import Any

from .rows import Functions, Rows, Types, Unnamed

_OPENSSL = (
    "md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512 shake_128 shake_256"
)
_MADE = "reads calls | s"

FUNCTIONS: Functions = {
    "_hashlib": {
        _MADE: " ".join(f"openssl_{name}" for name in _OPENSSL.split())
        + " new pbkdf2_hmac scrypt compare_digest",
        "reads calls | sh": "hmac_new hmac_digest",  # the name of a digest is looked up
        "constant | .": "get_fips_mode",
    },
    "_md5": {_MADE: "md5"},
    "_sha1": {_MADE: "sha1"},
    "_sha256": {_MADE: "sha224@-3.11 sha256@-3.11"},
    "_sha512": {_MADE: "sha384@-3.11 sha512@-3.11"},
    "_sha2": {_MADE: "sha224@3.12+ sha256@3.12+ sha384@3.12+ sha512@3.12+"},
    "zlib": {_MADE: "adler32 compress compressobj crc32 decompress decompressobj"},
}

_DIGEST: Rows = {
    "mutates calls | asm s": "update",
    "reads calls | as s": "digest hexdigest copy",
    "reads identity | as": "__repr__",
}
_MADE_BY_CALLS: Rows = {**_DIGEST, _MADE: "()", "reads calls | . s": "__new__"}
_COPIES = "copy __copy__ __deepcopy__"

TYPES: Types = {
    "_hashlib:HASH": _DIGEST,
    "_hashlib:HASHXOF": {"reads calls | as s": "digest hexdigest"},
    "_hashlib:HMAC": _DIGEST,
    **{f"{module}:{name}": _DIGEST for module, name in (("_md5", "md5"), ("_sha1", "sha1"))},
    **{f"_sha256:{name}@-3.11": _DIGEST for name in ("sha224", "sha256")},
    **{f"_sha512:{name}@-3.11": _DIGEST for name in ("sha384", "sha512")},
    **{f"_sha2:{name}@3.12+": _DIGEST for name in ("sha224", "sha256", "sha384", "sha512")},
    **{f"_sha3:sha3_{size}": _MADE_BY_CALLS for size in (224, 256, 384, 512)},
    **{f"_sha3:shake_{size}": _MADE_BY_CALLS for size in (128, 256)},
    **{f"_blake2:blake2{kind}": _MADE_BY_CALLS for kind in "bs"},
    "zlib:Compress": {"mutates calls | asm s": "compress flush", "reads | as .": _COPIES},
    "zlib:Decompress": {"mutates calls | asm s": "decompress flush", "reads | as .": _COPIES},
}


def _made_by(name: str) -> Any:
    return lambda module: type(getattr(module, name)())


UNNAMED: Unnamed = {
    **{
        f"{module}:{name}": _made_by(name)
        for module, names in {
            "_md5": "md5",
            "_sha1": "sha1",
            "_sha256": "sha224 sha256",
            "_sha512": "sha384 sha512",
            "_sha2": "sha224 sha256 sha384 sha512",
        }.items()
        for name in names.split()
    },
    "zlib:Compress": _made_by("compressobj"),
    "zlib:Decompress": _made_by("decompressobj"),
}

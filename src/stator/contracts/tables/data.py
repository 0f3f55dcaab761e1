"""Data formats: struct, json, unicodedata, binascii, codecs, datetime, decimal, array."""

from typing import Any

from .iterators import ITERATOR
from .rows import COMPARE, Functions, Rows, Types, Unnamed, override

_UNICODE = (
    "bidirectional category combining decimal decomposition digit east_asian_width is_normalized "
    "lookup mirrored name normalize numeric"
)
_UNICODE_3_15 = (
    "block extended_pictographic grapheme_cluster_break indic_conjunct_break isxidcontinue "
    "isxidstart iter_graphemes"
)
_ENCODINGS = "ascii latin_1 raw_unicode_escape unicode_escape utf_16_be utf_16_le utf_16 utf_32_be "
_ENCODINGS += "utf_32_le utf_32 utf_7 utf_8"

FUNCTIONS: Functions = {
    "_struct": {
        "reads calls | dh s": "calcsize iter_unpack pack unpack unpack_from",
        "mutates calls | dh sm s": "pack_into",
        "forbidden hidden_state": "_clearcache",
    },
    "_json": {
        "pure | s": "encode_basestring encode_basestring_ascii",
        "pure calls | s": "scanstring",
    },
    "unicodedata": {
        "reads calls | s .": " ".join(
            [_UNICODE, *(f"{name}@3.15+" for name in _UNICODE_3_15.split())]
        ),
    },
    "binascii": {
        "reads calls | s": "a2b_base64 a2b_hex a2b_qp a2b_uu b2a_base64 b2a_hex b2a_qp b2a_uu "
        "crc32 crc_hqx hexlify unhexlify a2b_ascii85@3.15+ a2b_base32@3.15+ a2b_base85@3.15+ "
        "b2a_ascii85@3.15+ b2a_base32@3.15+ b2a_base85@3.15+",
    },
    "_codecs": {
        "reads calls | s": " ".join(f"{name}_encode {name}_decode" for name in _ENCODINGS.split()),
        "reads calls | s s dh": "charmap_decode charmap_encode",
        "pure | s": "charmap_build",
        "reads calls | s s .": "escape_decode escape_encode readbuffer_encode utf_16_ex_decode "
        "utf_32_ex_decode",
        "forbidden codec": "decode encode lookup lookup_error register register_error unregister "
        "_unregister_error@3.14+ _normalize_encoding@3.15+",
    },
    # Evaluated, as Python code: capture/library/csv_files.py.
    "_csv": {
        "forbidden hidden_state": "field_size_limit get_dialect list_dialects reader "
        "register_dialect unregister_dialect writer",
    },
    "array": {"reads calls | . s": "_array_reconstructor"},
    "marshal": {"forbidden codec": "dump dumps load loads"},
    # The context's flags change with every operation.
    "_decimal": {"forbidden hidden_state": "getcontext setcontext localcontext"},
}

_DATE = (
    f"{COMPARE} __hash__ __repr__ __str__ ctime isocalendar isoformat isoweekday toordinal "
    "weekday timetuple __reduce__ day month year"
)
_PARTS: Rows = {"reads | s": "__iter__", "mutates | sm": "__next__"}
_MOVED = "__add__ __radd__ __sub__ __rsub__"
_ZONED = "utcoffset dst tzname"

TYPES: Types = {
    "_struct:Struct": {
        "reads calls | s": "() iter_unpack pack unpack unpack_from __repr__@3.13+ format size",
        "reads calls | .": "__new__",
        "mutates calls | asm s": "__init__",
        "mutates calls | s sm s": "pack_into",
    },
    "_json:make_scanner": {
        "reads calls | ac": "()",
        "reads calls | . ac": "__new__",
        "reads calls | ac s": "__call__",
    },
    "_json:make_encoder": {
        "reads calls | dac": "()",
        "reads calls | . dac": "__new__",
        "reads calls identity | ac da s": "__call__",
    },
    "unicodedata:UCD": {"reads calls | . s .": _UNICODE},
    "_datetime:date": {
        "pure calls | s": f"() {_DATE} {_MOVED} replace __replace__@3.13+",
        "pure calls | s s": "strftime __format__",
        "pure calls | . s": "__new__ fromisocalendar fromisoformat fromordinal",
        "forbidden time": "today fromtimestamp",
        "forbidden import": "strptime@3.14+",
    },
    "_datetime:datetime": {
        "reads calls | s": f"() {COMPARE} __hash__ __repr__ __str__ ctime isoformat date time "
        f"timetz timetuple utctimetuple replace __replace__@3.13+ {_MOVED} {_ZONED} __reduce__ "
        "__reduce_ex__",
        "reads calls | . s": "__new__ combine fromisoformat",
        "reads calls | . s .": "utcfromtimestamp",
        "forbidden time": "now utcnow fromtimestamp astimezone timestamp",
        "forbidden import": "strptime",
    },
    "_datetime:time": {
        "reads calls | s": f"() {COMPARE} __hash__ __repr__ __str__ __format__ strftime isoformat "
        f"replace __replace__@3.13+ {_ZONED} __reduce__ __reduce_ex__",
        "reads calls | . s": "__new__ fromisoformat",
        "forbidden import": "strptime@3.14+",
    },
    "_datetime:timedelta": {
        "pure calls | s": f"() {COMPARE} {_MOVED} __abs__ __neg__ __pos__ __bool__ __divmod__ "
        "__rdivmod__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __mul__ __rmul__ __truediv__ "
        "__rtruediv__ __hash__ __repr__ __str__ __reduce__ total_seconds",
        "pure calls | . s": "__new__",
    },
    "_datetime:tzinfo": {
        "pure | .": "() __new__ dst utcoffset tzname",
        "reads calls | as": "__reduce__ fromutc",
    },
    "_datetime:timezone": {
        "pure calls | s": f"() {COMPARE} __hash__ __repr__ __str__ __getinitargs__ {_ZONED} "
        "fromutc",
        "pure calls | . s": "__new__",
    },
    # Keys and files of zones are asked when one is made.
    "_zoneinfo:ZoneInfo": {
        "reads calls | s": f"{_ZONED} fromutc __repr__ __str__",
        "reads | s": "__reduce__ key",
        "pure | .": "__init_subclass__",
        "forbidden io": "() __new__ no_cache from_file clear_cache _unpickle",
    },
    "_codecs:EncodingMap": {"pure | .": "size"},
    "_decimal:Decimal": {
        "pure | s": "__hash__ __bool__ __repr__ __str__ __copy__ __deepcopy__ __reduce__ adjusted "
        "as_tuple as_integer_ratio canonical conjugate is_canonical is_finite is_infinite is_nan "
        "is_qnan is_snan is_signed is_zero radix real imag copy_abs copy_negate __float__ __int__ "
        "__trunc__ __floor__ __ceil__ __complex__",
        "forbidden hidden_state": "() *",
    },
    "_decimal:Context": {"forbidden hidden_state": "() * __setattr__ __delattr__ __getattribute__"},
    "array:array": {
        "reads | s": "__len__ __iter__ __add__ __copy__ __deepcopy__ tobytes tolist",
        "reads calls | s": f"{COMPARE} __getitem__ __mul__ __rmul__ __contains__ __repr__ "
        "__reduce_ex__ count index __buffer__@3.12+",
        "reads calls | s di": "()",
        "reads calls | . s di": "__new__",
        "mutates calls | sm di s": "append extend frombytes fromlist fromunicode insert pop remove "
        "__setitem__ __delitem__ __iadd__ __imul__",
        "mutates | sm .": "byteswap reverse clear@3.13+ __release_buffer__@3.12+",
        "forbidden memory": "buffer_info",
        "forbidden io": "tofile fromfile",
        "reads | as": "tounicode",
    },
    "_csv:Dialect": {
        "forbidden hidden_state": "() __new__",  # it asks for registered ones
        "pure | .": "__reduce__ __reduce_ex__",  # refuse
    },
    "_csv:Reader": {
        "reads | s": "__iter__",
        "mutates calls | sm": "__next__",
        "pure | .": "()",  # refuses
    },
    "_csv:Writer": {
        "forbidden hidden_state": "writerow writerows",
        "pure | .": "()",  # refuses
    },
    "_struct:unpack_iterator": {
        "reads | s": "__iter__ __length_hint__",
        "mutates | sm": "__next__",
        "pure | .": "() __new__",  # refuses
    },
    "_datetime:IsoCalendarDate": {
        "pure calls | s": "() __repr__ __reduce__",
        "pure calls | . s": "__new__",
    },
    "_string:formatteriterator": _PARTS,
    "_string:fieldnameiterator": _PARTS,
    "array:arrayiterator": override(ITERATOR, {"reads | s": "__iter__ __reduce__"}),
}


def _array_iterator(module: Any) -> type:
    return type(iter(module.array("b")))


UNNAMED: Unnamed = {
    "_codecs:EncodingMap": lambda module: type(module.charmap_build("".join(map(chr, range(256))))),
    "array:arrayiterator": _array_iterator,
    "_struct:unpack_iterator": lambda module: type(module.iter_unpack("b", b"")),
    "_datetime:IsoCalendarDate": lambda module: type(module.date(1, 1, 1).isocalendar()),
    "_string:formatteriterator": lambda module: type(module.formatter_parser("")),
    "_string:fieldnameiterator": lambda module: type(module.formatter_field_name_split("")[1]),
}

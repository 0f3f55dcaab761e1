"""The code objects that the decoder is tried and timed on: a part of the standard library."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

_NAMES = """
    _collections_abc _pydecimal _pyio _strptime _weakrefset abc argparse ast asyncio.base_events
    asyncio.locks asyncio.queues asyncio.streams asyncio.tasks asyncio.taskgroups base64 bdb
    bisect calendar cmd code codecs collections concurrent.futures.process configparser
    contextlib copy csv dataclasses datetime difflib dis doctest email._header_value_parser enum
    fractions ftplib functools gettext glob hashlib heapq html.parser http.client http.cookiejar
    inspect ipaddress json.decoder json.encoder locale logging mailbox mimetypes
    multiprocessing.managers numbers opcode operator optparse os pathlib pdb pickle pickletools
    platform plistlib pprint pydoc queue random re._compiler re._parser reprlib sched selectors
    shelve shlex shutil signal smtplib socket sqlite3.dump ssl statistics string subprocess
    symtable tarfile tempfile textwrap threading timeit tokenize traceback tracemalloc types
    typing unittest.case unittest.mock urllib.parse urllib.request uuid warnings weakref
    xml.dom.minidom xml.etree.ElementTree zipfile zoneinfo._zoneinfo
"""


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and all those in its constants."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def compiled(module: str) -> CodeType:
    """The code of a module, compiled anew from its source and without importing it."""
    path = Path(sysconfig.get_path("stdlib"), *module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_name(f"{path.name}.py")
    return compile(source.read_bytes(), str(source), "exec", dont_inherit=True)


def stdlib_code() -> list[CodeType]:
    """Thousands of code objects."""
    return [code for module in _NAMES.split() for code in nested(compiled(module))]

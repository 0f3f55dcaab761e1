"""Files of the cache: damaged, foreign, not to be trusted, too many, written by two at once."""

import json
import os
import random
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from stator.store import files, folder
from stator.store.digests import of_code
from stator.store.files import Stored
from stator.store.reasons import CacheError, Damaged

MUTANTS = int(os.environ.get("STATOR_TEST_MUTANTS", "200"))


def program(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.relu(x) * n + 1


def other(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.tanh(x) - n


X = torch.linspace(-1, 1, 5)


def loaded(function: Any = program, n: int = 3) -> int:
    """One process: it is right, whatever the cache says; how much was loaded."""
    stator.reset()
    before = stator.counters()["loaded"]
    assert torch.equal(stator.compile(function, backend="eager")(X, n), function(X, n))
    return int(stator.counters()["loaded"] - before)


def entries(cache: Path) -> list[Path]:
    return sorted(cache.rglob(f"*{folder.SUFFIX}"))


def test_a_second_process_loads(cache: Path) -> None:
    assert loaded() == 0
    assert loaded() == 1
    assert loaded(n=4) == 0
    assert loaded(n=4) == 1
    assert len(entries(cache)) == 2


def test_off_by_default(tmp_path: Path) -> None:
    with stator.config.patch(cache=False, cache_dir=str(tmp_path)):
        loaded()
    assert not list(tmp_path.iterdir())


def mutated(data: bytes, how: random.Random) -> bytes:
    match how.randrange(5):
        case 0:
            return data[: how.randrange(len(data))]
        case 1:
            at = how.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << how.randrange(8)]) + data[at + 1 :]
        case 2:
            start, end = sorted((how.randrange(len(data)), how.randrange(len(data))))
            return data[:start] + data[end + 1 :]
        case 3:
            at = how.randrange(len(data))
            return data[:at] + how.randbytes(how.randrange(1, 9)) + data[at:]
    return how.randbytes(how.randrange(200))


def test_damaged_files_are_ignored(cache: Path) -> None:
    loaded()
    (path,) = entries(cache)
    data = path.read_bytes()
    how = random.Random(0)
    for _ in range(MUTANTS):
        changed = mutated(data, how)
        path.write_bytes(changed)
        with pytest.raises(Damaged):
            files.unpacked(changed)
    for _ in range(min(MUTANTS, 20)):
        for each in entries(cache):
            each.unlink()
        path.write_bytes(mutated(data, how))
        assert loaded() == 0
    for each in entries(cache):
        each.unlink()
    path.write_bytes(data)
    assert loaded() == 1


def test_entries_in_the_place_of_others(cache: Path) -> None:
    loaded(program)
    loaded(other)
    one, two = entries(cache)
    a, b = one.read_bytes(), two.read_bytes()
    one.write_bytes(b)
    two.write_bytes(a)
    assert loaded(program) == 0
    assert loaded(other) == 0


def test_rows_that_say_something_else(cache: Path) -> None:
    """With a digest that is right: what is read is data of known kinds, or refused."""
    loaded()
    (path,) = entries(cache)
    (stored,) = files.unpacked(path.read_bytes())
    how = random.Random(1)
    for _ in range(50):
        body = json.loads(json.dumps(stored.body))
        row = how.choice(body[0])
        row[0] = how.choice(["class", "function", "c", "op", "Perform", "nothing", "module", "k"])
        for each in entries(cache):
            each.unlink()
        path.write_bytes(files.packed([Stored(stored.header, body)]))
        loaded()


@pytest.mark.parametrize("path", ["os.system", "builtins.eval", "builtins.exec", "torch.load"])
def test_what_may_not_be_called(cache: Path, path: str) -> None:
    """The graph's operator is replaced by a function that does something: it is not called."""
    loaded()
    (place,) = entries(cache)
    (stored,) = files.unpacked(place.read_bytes())
    module, _, name = path.rpartition(".")
    rows = stored.body[0]
    graph = stored.body[4]
    called = [node for node in graph[1] if node[0] == 0]
    kind = "function" if path == "torch.load" else "c"
    digest = "0" * 32
    if kind == "function":
        digest = of_code(torch.load.__code__)
    rows.append([kind, module, name, name if kind == "c" else digest])
    called[0][1] = len(rows) - 1
    place.unlink()
    place.write_bytes(files.packed([stored]))
    assert loaded() == 0


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_files_that_others_can_write(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded()
    (path,) = entries(cache)
    path.chmod(0o666)
    assert loaded() == 0
    for each in entries(cache):
        if each != path:
            each.unlink()
    path.chmod(0o600)
    assert loaded() == 1
    path.parent.chmod(0o777)
    assert loaded() == 0
    path.parent.chmod(0o700)
    monkeypatch.setenv(files.KEY, "secret")
    assert loaded() == 0  # it is not signed
    assert loaded() == 1  # the new one is
    monkeypatch.setenv(files.KEY, "another")
    assert loaded() == 0


def test_a_folder_that_can_not_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    assert loaded() == 0
    assert loaded() == 0
    monkeypatch.undo()
    cache.write_text("no folder")
    assert loaded() == 0


def test_no_half_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="No space"):
        files.write(tmp_path / "entry", b"data")
    assert not list(tmp_path.iterdir())


def test_what_was_used_longest_ago_is_thrown_away(cache: Path) -> None:
    for n in range(2, 8):
        loaded(n=n)
    paths = entries(cache)
    assert len(paths) == 6
    now = time.time()
    for age, path in enumerate(paths):
        os.utime(path, (now - age, now - age))
    kept = sum(path.stat().st_size for path in paths[:3])
    assert folder.sweep(kept) == 3
    assert entries(cache) == sorted(paths[:3])
    assert folder.clear() == 3
    assert not entries(cache)


def test_what_a_dead_process_has_left_is_thrown_away(cache: Path) -> None:
    loaded()
    place = entries(cache)[0].parent
    old, new = place / f"{files.BEGUN}old", place / f"{files.BEGUN}new"
    for path in (old, new):
        path.write_text("half of it")
    before = time.time() - 7200
    os.utime(old, (before, before))
    assert folder.sweep(1 << 20) == 1
    assert not old.exists()
    assert new.exists()  # somebody may be writing it
    assert len(entries(cache)) == 1


WRITER = """
import sys
from pathlib import Path
import stator
from stator.store import folder
from stator.store.files import Stored
stator.config.cache, stator.config.cache_dir = True, sys.argv[1]
for n in range(int(sys.argv[2])):
    key = folder.Key(("module", f"f{n % 50}", "f", "0"), "")
    assert folder.keep(key, Stored({"key": key.text}, [[["k", f"{sys.argv[3]} {n}"]] * 50]))
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    count = 500
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(count), str(who)])
        for who in range(2)
    ]
    assert [each.wait(120) for each in running] == [0, 0]
    with stator.config.patch(cache=True, cache_dir=str(tmp_path)):
        found = list(folder.listed())
    assert len(found) == 2 * count
    assert all(isinstance(stored, Stored) for _, stored in found)


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "program.stator"
    compiled = stator.compile(program, backend="eager")
    with pytest.raises(CacheError, match="nothing was compiled yet"):
        stator.save(path, compiled)
    compiled(X, 3)
    assert stator.save(path, compiled) == []
    stator.reset()
    folder.LOADED.clear()
    before = stator.counters()
    again = stator.load(path, program)
    assert torch.equal(again(X, 3), program(X, 3))
    after = stator.counters()
    assert after["loaded"] - before["loaded"] == 1
    assert after["compiles"] == before["compiles"]
    assert torch.equal(again(X, 4), program(X, 4))  # what the file does not have
    folder.LOADED.clear()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CacheError, match="can't be loaded"):
        stator.load(path, program)


def test_what_can_not_be_saved_is_said(tmp_path: Path) -> None:
    compiled = stator.compile(program, backend=lambda module, inputs: module.forward)
    compiled(X, 3)
    with pytest.raises(CacheError):
        stator.save(tmp_path / "program.stator", compiled)


def test_loaded_entries_can_be_saved_again(cache: Path, tmp_path: Path) -> None:
    loaded()
    stator.reset()
    compiled = stator.compile(program, backend="eager")
    compiled(X, 3)
    assert stator.save(tmp_path / "again.stator", compiled) == []


def test_a_module_is_saved(tmp_path: Path) -> None:
    import_module("torch.distributed.fsdp")  # whose modules are called in another way
    model = torch.nn.Linear(5, 3)
    compiled = stator.compile(model, backend="eager")
    compiled(X)
    path = tmp_path / "model.stator"
    assert stator.save(path, compiled) == []
    stator.reset()
    folder.LOADED.clear()
    before = stator.counters()["loaded"]
    assert torch.equal(stator.load(path, model)(X), model(X))
    assert stator.counters()["loaded"] == before + 1

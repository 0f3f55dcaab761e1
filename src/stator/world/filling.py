"""Filling shadows: attributes, slots and contents, as they are read, each with its guard.

In: a record, and what the program reads of it. Out: the value, which the shadow now holds, too.
Only the layout base's own methods touch the raw object.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any
from weakref import ref

from stator import objects
from stator._native import _core as core
from stator.diagnostics.catalogue import KeyOfItsOwn, OddNamespace, OpaqueObject
from stator.guards import (
    Attr,
    AttrKeys,
    Callback,
    DictKeyAt,
    Equal,
    Field,
    Fixed,
    Index,
    Is,
    Key,
    Keys,
    Length,
    NoAttr,
    NoKey,
    Slot,
    SlotEmpty,
    Source,
)
from stator.objects.sets import fill_like
from stator.world.kinds import (
    CONSTANTS,
    has_address_hash,
    has_plain_hash,
    plain_element,
    plain_key,
    plain_keys,
)
from stator.world.records import (
    DICTS,
    MAXLEN,
    MISSING,
    SEQUENCES,
    SETS,
    TYPECODE,
    DictRecord,
    Record,
    forgets,
    pairs,
    raw_items,
)
from stator.world.store import ALL, Store


class Filling(Store):
    """The part of a `World` that fills its shadows."""

    # ------------------------------------------------------------------ attributes of shadows

    def attribute(self, record: Record, name: str) -> Any:
        """An instance attribute, filled in and guarded; MISSING if the instance has none."""
        own = record.dict
        if own is None:
            return MISSING
        self.read(id(record.shadow), name)
        if name in own:
            return own[name]
        if record.attributes_filled or name in record.attributes:
            return MISSING
        value = self.first_attribute(record, name)
        if value is not MISSING:
            own[name] = value
        return value

    def first_attribute(self, record: Record, name: str) -> Any:
        """What an instance attribute was before the call, guarded; MISSING if there was none."""
        raw_dict = self.raw_attributes(record)
        raw = MISSING if raw_dict is None else dict.get(raw_dict, name, MISSING)
        if raw is MISSING:
            self.guard(record.source, NoAttr(name))
            record.attributes[name] = MISSING
            return MISSING
        value = self.wrap(raw, Attr(record.source, name))
        record.attributes[name] = value
        return value

    def raw_attributes(self, record: Record) -> dict[str, Any] | None:
        """The dict of the raw object; it must be reached through this object only."""
        raw = record.raw_dict
        if raw is not None and self.owners.get(id(raw)) is not record:
            if id(raw) in self.owners or id(raw) in self.stand_ins:
                raise shared_dict(record)
            self.owners[id(raw)] = record
        return raw

    def dict_of(self, record: Record) -> dict[str, Any] | None:
        """The `__dict__` of a shadow, itself filled as it is read."""
        own = record.dict
        if own is None:  # none, or the shadow itself
            return objects.instance_dict(record.shadow)
        self.raw_attributes(record)
        if id(own) not in self.records and not record.attributes_filled:
            self.records[id(own)] = DictRecord(record)
        return own

    def fill_attributes(self, record: Record) -> None:
        """All instance attributes, in the order of the raw object's dict, and all slots."""
        self.read(id(record.shadow), ALL)
        self.fill_slots(record)
        if record.attributes_filled:
            return
        own, raw_dict = record.dict, self.raw_attributes(record) or {}
        assert own is not None
        if any(type(name) is not str for name in dict.__iter__(raw_dict)):
            raise OddNamespace("an instance has attributes whose names are not strings")
        names = tuple(dict.__iter__(raw_dict))
        self.guard(record.source, AttrKeys(names))
        for name in names:
            self.attribute(record, name)
        current = dict(own)
        own.clear()
        for name in names:
            if name in current and name not in record.deleted:
                own[name] = current.pop(name)
        own.update(current)
        record.attributes_filled = True

    def fill_slots(self, record: Record) -> None:
        self.read(id(record.shadow), ALL)
        if record.slots is not None:
            return
        record.slots = {}
        for name, descriptor in objects.slots(type(record.shadow)).items():
            try:
                raw = descriptor.__get__(record.raw)
            except AttributeError:
                self.guard(record.source, SlotEmpty(descriptor))
                record.slots[name] = MISSING
                continue
            value = self.wrap(raw, Slot(record.source, descriptor))
            record.slots[name] = value
            descriptor.__set__(record.shadow, value)

    def touch(self, value: Any, name: Any = MISSING) -> None:
        """The program changes an object: one attribute or item, or any of its items."""
        record = self.records.get(id(value))
        if record is None:
            return
        keys: Any = (name,) if name is not MISSING else ()
        if name is MISSING and DICTS.holds(record.base):
            keys = dict.__iter__(record.shadow)
        record = record.owner or record
        record.touched = True
        self.write(id(record.shadow), ALL if name is MISSING or type(name) is not str else name)
        if self.watch is not None:
            self.watch(id(record.shadow), name)
        record.changed_names.update(key for key in keys if type(key) is str)

    # ------------------------------------------------------------------ contents of shadows

    def fill(self, record: Record) -> None:
        """The whole contents of a container, each item wrapped."""
        self.read(id(record.shadow), ALL)
        if record.filled:
            if record.weak and self.weakly is not None:
                self.weakly(record)
            return
        record.filled = True
        if record.owner is not None:
            self.fill_attributes(record.owner)
            return
        base = record.base
        if SEQUENCES.holds(base):
            self._fill_sequence(record)
        elif DICTS.holds(base):
            self._fill_dict(record)
        elif SETS.holds(base):
            self._fill_set(record)
        elif base is bytearray:
            content = bytes(bytearray.__iter__(record.raw))
            self.guard(record.source, Callback(_same_bytes(content), f"holds {content!r}"))
            bytearray.extend(record.shadow, content)
            record.initial = content
        elif base is array:
            content = array.tobytes(record.raw)
            kind = TYPECODE.__get__(record.raw)
            self.guard(record.source, Callback(_same_array(kind, content), f"holds {content!r}"))
            array.frombytes(record.shadow, content)
            record.initial = content

    def _fill_sequence(self, record: Record) -> None:
        raw, base, known = record.raw, record.base, record.items
        items = raw_items(raw, base)
        self.guard(record.source, Length(len(items)))
        if base is deque:
            self.guard_limit(record)
        wrapped = [
            known[i] if i in known else self.wrap(item, Index(record.source, i))
            for i, item in enumerate(items)
        ]
        if base is list:
            list.__setitem__(record.shadow, slice(0, 0), wrapped)  # before what was appended
        else:
            base.extend(record.shadow, wrapped)  # type: ignore[attr-defined]
        record.initial = list(wrapped)

    def guard_limit(self, record: Record) -> None:
        """How many items a deque takes is read."""
        if record.limit is MISSING:
            record.limit = MAXLEN.__get__(record.raw)
            self.guard(Field(record.source, MAXLEN), Equal(record.limit))

    def _fill_dict(self, record: Record) -> None:
        raw, base, known, source = record.raw, record.base, record.items, record.source
        if base is OrderedDict and len(list(base.__iter__(raw))) != dict.__len__(raw):
            raise OpaqueObject("an OrderedDict that methods of dict have changed, behind its order")
        items = pairs(raw, base)
        if all(plain_key(key) for key, _ in items):
            self.guard(source, Keys(tuple(key for key, _ in items)))
            keys = [key for key, _ in items]
        else:
            if base is OrderedDict:
                raise KeyOfItsOwn("an OrderedDict with objects as keys existed before the call")
            self.guard(source, Length(len(items)))
            keys = [self._wrap_key(key, DictKeyAt(source, i)) for i, (key, _) in enumerate(items)]
        initial: dict[Any, Any] = {}
        for key, (raw_key, value) in zip(keys, items, strict=True):
            if raw_key in record.writes:
                initial[key] = MISSING
            elif plain_key(raw_key) and raw_key in known:
                initial[key] = known[raw_key]
            elif plain_key(raw_key):
                initial[key] = self.wrap(value, Key(source, raw_key))
            else:
                initial[key] = self.wrap(value, _value_at(source, raw_key))
        setitem = OrderedDict.__setitem__ if base is OrderedDict else dict.__setitem__
        for key, value in initial.items():
            setitem(record.shadow, key, value)
        for key in known:
            if key in record.writes:
                setitem(record.shadow, key, known[key])
        record.initial = list(initial.items())
        parts = (part for item in items for part in item)
        self._note_weak(record, [self.stand_ins[id(each)] for each in parts if forgets(each)])

    def _note_weak(self, record: Record, references: list[Any]) -> None:
        """A container refers weakly to objects, and loses those that die."""
        record.weak = [target for each in references if (target := ref.__call__(each)) is not None]
        if record.weak and self.weakly is not None:
            self.weakly(record)

    def holds_weak(self, record: Record) -> bool:
        """Whether a dict that is not filled is such a container."""
        if not DICTS.holds(record.base) or record.owner is not None:
            return False
        return any(forgets(key) or forgets(value) for key, value in dict.items(record.raw))

    def _wrap_key(self, key: Any, source: Source) -> Any:
        if plain_key(key):
            self.guard(source, Equal(key) if CONSTANTS.holds(type(key)) else Is(key))
            return key
        cls = type(key)
        if not (plain_element(key) or has_address_hash(cls)):
            name = type(key).__qualname__
            raise KeyOfItsOwn(f"a key of class {name}, which defines __eq__ or __hash__")
        self.guard(source, Is(key))
        return self.kept_key(key)

    def kept_key(self, key: Any) -> Any:
        """An object that is a key: what else is hashed may be the same one, or another."""
        made = self.wrap(key, Fixed(key))
        self._keys[id(made)] = made
        if type(key) is ref and made is not key and not has_plain_hash(type(key())):
            self._hash_again(key, made)
        return made

    def _hash_again(self, raw: Any, made: Any) -> None:
        """A weak reference keeps the hash of its object, which the program's own code computes.

        It is evaluated for the object's stand-in; the other one is known, since it is a key.
        """
        if self.evaluated is not None:
            self.evaluated(_as_key, made)
        if self.evaluated is None or hash(made) != hash(raw):
            name = type(ref.__call__(raw)).__qualname__
            raise KeyOfItsOwn(f"a weak reference to an object of class {name} is a key")

    def _fill_set(self, record: Record) -> None:
        items = raw_items(record.raw, set)
        if not all(plain_key(item) or plain_element(item) for item in items):
            raise KeyOfItsOwn("a set that holds more than constants existed before the call")
        self.guard(record.source, Keys(tuple(items)))
        wrapped = [item if plain_key(item) else self.kept_key(item) for item in items]
        fill_like(record.shadow, record.raw, wrapped)
        record.initial = set()
        core.set_take_over(record.initial, record.shadow)
        self._note_weak(record, [self.stand_ins[id(item)] for item in items if forgets(item)])

    def item(self, record: Record, key: Any) -> Any:
        """One item of a container that is not filled; MISSING if the container must be filled.

        Only constant keys of dicts, and indices of lists: nothing that could run user code.
        """
        cls = type(key)
        if record.owner is not None:
            return self.attribute(record.owner, key) if cls is str else MISSING
        self.read(id(record.shadow), key if cls is str else ALL)
        if record.grown:
            return MISSING
        if cls is int and record.base is list:
            size = list.__len__(record.raw)
            index = key + size if key < 0 else key
            if not 0 <= index < size:
                return MISSING
            if not record.items:
                self.guard(record.source, Length(size))
            if index not in record.items:
                raw = list.__getitem__(record.raw, index)
                record.items[index] = self.wrap(raw, Index(record.source, index))
            return record.items[index]
        if (cls is str or cls is int) and DICTS.holds(record.base) and plain_keys(record):
            if key in record.items:
                return record.items[key]
            if not dict.__contains__(record.raw, key):
                return MISSING
            raw = dict.__getitem__(record.raw, key)
            record.items[key] = self.wrap(raw, Key(record.source, key))
            return record.items[key]
        return MISSING

    def store_item(self, record: Record, key: Any, value: Any) -> bool:
        """Writes one item of a dict that is not filled; False if it must be filled first."""
        if record.owner is not None or not DICTS.holds(record.base) or type(key) is not str:
            return False
        if not plain_keys(record):
            return False
        record.items[key] = value
        record.writes.add(key)
        return True

    def has_key(self, record: Record, key: Any) -> bool | None:
        """Whether an unfilled dict has a constant key; None if it must be filled to tell."""
        if type(key) is not str or not DICTS.holds(record.base):
            return None
        if record.owner is not None:
            return self.attribute(record.owner, key) is not MISSING
        if not plain_keys(record):
            return None
        self.read(id(record.shadow), key)
        if key in record.items:
            return True
        if key in record.absent:
            return False
        if dict.__contains__(record.raw, key):
            if forgets(dict.__getitem__(record.raw, key)):
                return None
            self.item(record, key)
            return True
        record.absent.add(key)
        self.guard(record.source, NoKey(key))
        return False

    def length(self, record: Record) -> int:
        """How many items an unfilled container holds."""
        self.read(id(record.shadow), ALL)
        size: int = record.base.__len__(record.raw)  # type: ignore[attr-defined]
        if record.plain_length is None:
            record.plain_length = size
            self.guard(record.source, Length(size))
        return size + (list.__len__(record.shadow) if record.grown else 0)


def shared_dict(record: Record) -> OpaqueObject:
    name = type(record.raw).__qualname__
    return OpaqueObject(f"the attributes of a {name} are in a dict that is used elsewhere, too")


def _value_at(source: Source, key: Any) -> Source:
    return Key(source, key)


def _same_bytes(content: bytes) -> Callable[[Any], bool]:
    return lambda value: bytes(bytearray.__iter__(value)) == content


def _same_array(kind: str, content: bytes) -> Callable[[Any], bool]:
    return lambda value: TYPECODE.__get__(value) == kind and array.tobytes(value) == content


def _as_key(value: Any) -> Any:
    """Evaluated, this asks for a value's hash, which a weak reference keeps from then on."""
    return {value}

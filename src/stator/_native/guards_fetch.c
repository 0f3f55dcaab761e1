/* Sources: read a value from its parent's without running user code.
 *
 * Every fetch checks what it needs (is this a list, is the index in range, does
 * the type have this slot), so it is safe on any object; a value that cannot be
 * read makes the guard fail. Values are borrowed.
 */
#include "guards.h"
#include "guards_layout.h"

/* ---- dict lookup ---- */

/* Can two keys be compared without user code? Their types compare in C, and
 * for tuples so do their elements'. */
static int
compares_in_c(PyObject *o, int depth)
{
    richcmpfunc compare = Py_TYPE(o)->tp_richcompare;
    if (compare == PyTuple_Type.tp_richcompare) {
        if (depth > 4)
            return 0;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
            if (!compares_in_c(PyTuple_GET_ITEM(o, i), depth + 1))
                return 0;
        return 1;
    }
    return compare == PyUnicode_Type.tp_richcompare || compare == PyLong_Type.tp_richcompare
        || compare == PyFloat_Type.tp_richcompare || compare == PyBytes_Type.tp_richcompare
        || compare == PyComplex_Type.tp_richcompare || compare == PyBaseObject_Type.tp_richcompare;
}

int
keys_equal(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (!compares_in_c(a, 0) || !compares_in_c(b, 0))
        return -1;
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0)
        PyErr_Clear();
    return equal;
}

static inline Py_hash_t
str_hash(PyObject *o)
{
    return ((PyASCIIObject *)o)->hash;
}

/* The entry of a key, -1 when absent, -2 when only user code could tell.
 * Follows the probe sequence of lookdict in Objects/dictobject.c. */
static Py_ssize_t
keys_find(PyDictKeysObject *keys, PyObject *key, Py_hash_t hash)
{
    size_t mask = ((size_t)1 << keys->dk_log2_size) - 1, perturb = (size_t)hash, i = (size_t)hash & mask;
    int is_unicode = DK_IS_UNICODE(keys);
    for (;;) {
        Py_ssize_t ix = dict_keys_index(keys, i);
        if (ix >= 0) {
            PyObject *found;
            Py_hash_t found_hash;
            if (is_unicode) {
                found = DK_UNICODE_ENTRIES(keys)[ix].me_key;
                found_hash = str_hash(found);
            }
            else {
                found = DK_ENTRIES(keys)[ix].me_key;
                found_hash = DK_ENTRIES(keys)[ix].me_hash;
            }
            if (found == key)
                return ix;
            if (found_hash == hash) {
                int equal = keys_equal(found, key);
                if (equal)
                    return equal < 0 ? -2 : ix;
            }
        }
        else if (ix == DKIX_EMPTY)
            return -1;
        perturb >>= 5; /* PERTURB_SHIFT */
        i = (i * 5 + perturb + 1) & mask;
    }
}

int
dict_entry(PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **found, PyObject **value)
{
    PyDictObject *d = (PyDictObject *)dict;
    Py_ssize_t ix = keys_find(d->ma_keys, key, hash);
    if (ix < 0)
        return ix == -1 ? 0 : -1;
    if (DK_IS_UNICODE(d->ma_keys)) {
        PyDictUnicodeEntry *entry = &DK_UNICODE_ENTRIES(d->ma_keys)[ix];
        *found = entry->me_key;
        *value = d->ma_values != NULL ? d->ma_values->values[ix] : entry->me_value;
    }
    else {
        PyDictKeyEntry *entry = &DK_ENTRIES(d->ma_keys)[ix];
        *found = entry->me_key;
        *value = entry->me_value;
    }
    return *value != NULL;
}

int
dict_find(PyObject *dict, PyObject *key, Py_hash_t hash, PyObject **value)
{
    PyObject *found;
    return dict_entry(dict, key, hash, &found, value);
}

/* ---- attributes ---- */

/* An attribute in the instance itself. `hint` remembers the entry: instances of
 * a class mostly keep their attributes in the same order. */
int
instance_find(PyObject *o, PyObject *name, Py_hash_t hash, int32_t *hint, PyObject **value)
{
    *value = NULL;
    if (PyType_Check(o))
        return 0; /* a class's attributes are found along its MRO */
    Attributes a = attributes(o);
    if (a.values != NULL) {
        Py_ssize_t ix = *hint;
        if ((size_t)ix >= (size_t)a.keys->dk_nentries || DK_UNICODE_ENTRIES(a.keys)[ix].me_key != name) {
            ix = keys_find(a.keys, name, hash);
            if (ix < 0)
                return ix == -1 ? 0 : -1;
            *hint = (int32_t)ix;
        }
        *value = a.values->values[ix];
        return *value != NULL;
    }
    if (a.dict == NULL)
        return 0;
    PyDictObject *d = (PyDictObject *)a.dict;
    Py_ssize_t ix = *hint;
    if (DK_IS_UNICODE(d->ma_keys) && (size_t)ix < (size_t)d->ma_keys->dk_nentries
        && DK_UNICODE_ENTRIES(d->ma_keys)[ix].me_key == name) {
        *value = d->ma_values != NULL ? d->ma_values->values[ix] : DK_UNICODE_ENTRIES(d->ma_keys)[ix].me_value;
        if (*value != NULL)
            return 1;
    }
    ix = keys_find(d->ma_keys, name, hash);
    if (ix >= 0)
        *hint = (int32_t)ix;
    return dict_find(a.dict, name, hash, value);
}

/* ---- fetch ---- */

static PyObject *
or_none(PyObject *o)
{
    return o == NULL ? Py_None : o;
}

PyObject **
slot_of(PyObject *descriptor, PyObject *o)
{
    PyMemberDescrObject *d = (PyMemberDescrObject *)descriptor;
    if (!PyObject_TypeCheck(o, PyDescr_TYPE(d)))
        return NULL;
    return (PyObject **)((char *)o + d->d_member->offset);
}

static PyObject *
slot_value(PyObject *descriptor, PyObject *o)
{
    PyObject **slot = slot_of(descriptor, o);
    return slot == NULL ? NULL : *slot;
}

/* What a getter of a C type answers. The object holds the answer, so it stays
 * when the reference is dropped. Only for getters of which that is true, and
 * which run no Python code; torch keeps the Python side of a gradient alive. */
static PyObject *
field_value(PyObject *descriptor, PyObject *o)
{
    PyGetSetDescrObject *d = (PyGetSetDescrObject *)descriptor;
    if (!PyObject_TypeCheck(o, PyDescr_TYPE(d)))
        return NULL;
    if (strcmp(d->d_getset->name, "grad") == 0 && grad_warns(o))
        return NULL; /* guards that ask for a gradient are about leaves */
    PyObject *value = d->d_getset->get(o, d->d_getset->closure);
    if (value == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(value);
    return value;
}

/* A deque's layout is private; its own C functions run no other code. */
static PyTypeObject *deque_type;

int
is_deque(PyObject *o)
{
    return deque_type != NULL && PyObject_TypeCheck(o, deque_type);
}

Py_ssize_t
deque_length(PyObject *deque)
{
    return deque_type->tp_as_sequence->sq_length(deque);
}

/* An iterator over a list or tuple: its layout is private, and looked at once. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t index;
    PyObject *items; /* NULL once it has ended */
} SequenceIterator;

static PyTypeObject *list_iterator, *reversed_list, *tuple_iterator;

/* The type of an iterator over `items` that has given one, if it looks as it should. */
static PyTypeObject *
iterator_type(PyObject *iterator, PyObject *items, Py_ssize_t index)
{
    if (iterator == NULL)
        return NULL;
    PyTypeObject *type = Py_TYPE(iterator);
    PyObject *first = type->tp_iternext(iterator);
    SequenceIterator *it = (SequenceIterator *)iterator;
    int known = type->tp_basicsize == sizeof *it && it->index == index && it->items == items;
    Py_XDECREF(first);
    Py_DECREF(iterator);
    return known ? type : NULL;
}

static int
iterators_init(void)
{
    PyObject *list = Py_BuildValue("[iii]", 1, 2, 3), *tuple = Py_BuildValue("(iii)", 1, 2, 3);
    if (list != NULL && tuple != NULL) {
        list_iterator = iterator_type(PyObject_GetIter(list), list, 1);
        tuple_iterator = iterator_type(PyObject_GetIter(tuple), tuple, 1);
        reversed_list = iterator_type(PyObject_CallMethod(list, "__reversed__", NULL), list, 1);
    }
    Py_XDECREF(list);
    Py_XDECREF(tuple);
    return PyErr_Occurred() ? -1 : 0;
}

/* The item that an iterator will give when it has given `by` others. */
static PyObject *
item_ahead(PyObject *iterator, Py_ssize_t by)
{
    SequenceIterator *it = (SequenceIterator *)iterator;
    PyTypeObject *type = Py_TYPE(iterator);
    if (type != list_iterator && type != tuple_iterator && type != reversed_list)
        return NULL;
    if (it->items == NULL || it->index < 0 || it->index >= Py_SIZE(it->items))
        return NULL;
    Py_ssize_t at = type == reversed_list ? it->index - by : it->index + by;
    if (at < 0 || at >= Py_SIZE(it->items))
        return NULL;
    return type == tuple_iterator ? PyTuple_GET_ITEM(it->items, at) : PyList_GET_ITEM(it->items, at);
}

int
fetch_init(void)
{
    if (deque_type != NULL)
        return 0;
    if (iterators_init() < 0)
        return -1;
    PyObject *module = PyImport_ImportModule("_collections");
    PyObject *type = module == NULL ? NULL : PyObject_GetAttrString(module, "deque");
    Py_XDECREF(module);
    if (type == NULL)
        return -1;
    deque_type = (PyTypeObject *)type;
    return 0;
}

static PyObject *
key_at(PyObject *dict, Py_ssize_t index)
{
    if (!PyDict_Check(dict) || PyObject_TypeCheck(dict, &PyODict_Type))
        return NULL; /* an OrderedDict keeps its order elsewhere: see the KEYS check */
    Py_ssize_t at = 0;
    PyObject *key;
    while (PyDict_Next(dict, &at, &key, NULL))
        if (index-- == 0)
            return key;
    return NULL;
}

static PyObject *
item_at(PyObject *sequence, Py_ssize_t index)
{
    if (PyTuple_Check(sequence) || PyList_Check(sequence)) {
        Py_ssize_t size = Py_SIZE(sequence);
        if (index < 0)
            index += size;
        if (index < 0 || index >= size)
            return NULL;
        return PyTuple_Check(sequence) ? PyTuple_GET_ITEM(sequence, index) : PyList_GET_ITEM(sequence, index);
    }
    if (is_deque(sequence)) {
        Py_ssize_t size = deque_length(sequence);
        if (index < 0)
            index += size;
        if (index < 0 || index >= size)
            return NULL;
        PyObject *item = deque_type->tp_as_sequence->sq_item(sequence, index);
        Py_XDECREF(item); /* the deque holds it */
        return item;
    }
    return NULL;
}

/* What an object of C holds and tells nobody but the garbage collector: the
 * container of an iterator, the iterators that a zip goes through. */
typedef struct {
    Py_ssize_t left;
    PyObject *found;
} Held;

static int
visit_held(PyObject *o, void *arg)
{
    Held *held = arg;
    if (held->left-- > 0)
        return 0;
    held->found = o;
    return 1; /* no further */
}

static PyObject *
held_at(PyObject *o, Py_ssize_t index)
{
    Held held = {index, NULL};
    if (PyObject_IS_GC(o) && Py_TYPE(o)->tp_traverse != NULL)
        Py_TYPE(o)->tp_traverse(o, visit_held, &held);
    return held.found;
}

PyObject *
fetch(Node *node, PyObject *base, PyObject *const *locals, PyObject *function)
{
    PyObject *value = NULL;
    PyFunctionObject *f = (PyFunctionObject *)base;
    switch (node->op) {
    case SOURCE_LOCAL:
        return locals == NULL ? NULL : locals[node->index];
    case SOURCE_FUNCTION:
        return function;
    case SOURCE_FIXED:
        return node->key;
    case SOURCE_GLOBALS:
        return PyFunction_Check(base) ? f->func_globals : NULL;
    case SOURCE_BUILTINS:
        return PyFunction_Check(base) ? f->func_builtins : NULL;
    case SOURCE_CLOSURE:
        return PyFunction_Check(base) ? or_none(f->func_closure) : NULL;
    case SOURCE_DEFAULTS:
        return PyFunction_Check(base) ? or_none(f->func_defaults) : NULL;
    case SOURCE_KWDEFAULTS:
        return PyFunction_Check(base) ? or_none(f->func_kwdefaults) : NULL;
    case SOURCE_CODE:
        return PyFunction_Check(base) ? f->func_code : NULL;
    case SOURCE_METHOD_FUNC:
        return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : NULL;
    case SOURCE_METHOD_SELF:
        return PyMethod_Check(base) ? PyMethod_GET_SELF(base) : NULL;
    case SOURCE_CELL:
        return PyCell_Check(base) ? PyCell_GET(base) : NULL;
    case SOURCE_SLOT:
        return slot_value(node->key, base);
    case SOURCE_FIELD:
        return field_value(node->key, base);
    case SOURCE_REFERENT:
        if (!PyWeakref_CheckRef(base))
            return NULL;
        value = ((PyWeakReference *)base)->wr_object;
        return Py_REFCNT(value) > 0 ? value : Py_None;
    case SOURCE_MODULE_ATTR:
        if (!PyModule_Check(base))
            return NULL;
        /* fall through */
    case SOURCE_ATTR:
        return instance_find(base, node->key, node->hash, &node->hint, &value) == 1 ? value : NULL;
    case SOURCE_CLASS_ATTR:
        return PyType_Check(base) ? _PyType_Lookup((PyTypeObject *)base, node->key) : NULL;
    case SOURCE_TYPE:
        return (PyObject *)Py_TYPE(base);
    case SOURCE_INDEX:
        return item_at(base, node->index);
    case SOURCE_KEY:
        return PyDict_Check(base) && dict_find(base, node->key, node->hash, &value) == 1 ? value : NULL;
    case SOURCE_KEY_AT:
        return key_at(base, node->index);
    case SOURCE_HELD:
        return held_at(base, node->index);
    case SOURCE_AHEAD:
        return item_ahead(base, node->index);
    case SOURCE_ROOT:
    case SOURCE_CALL: /* evaluated by the tree: its value is owned */
    case SOURCE_COUNT:
        break;
    }
    return NULL;
}

/* What a level depends on because it has a child of this kind. */
unsigned
source_uses(SourceOp op)
{
    switch (op) {
    case SOURCE_ATTR:
    case SOURCE_MODULE_ATTR:
        return USES_ATTRS;
    case SOURCE_CLASS_ATTR:
        return USES_MRO;
    case SOURCE_TYPE:
        return 0; /* the type is part of every record */
    case SOURCE_INDEX:
    case SOURCE_KEY:
        return USES_ITEMS;
    case SOURCE_KEY_AT:
        return USES_ITEMS | USES_ORDER;
    case SOURCE_GLOBALS:
    case SOURCE_BUILTINS:
    case SOURCE_METHOD_FUNC:
    case SOURCE_METHOD_SELF:
        return USES_LIFE;
    default:
        return USES_RAW;
    }
}

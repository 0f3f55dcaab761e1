/* Checks on one value: no user code, nothing allocated (but see KEYS). */
#include "guards.h"
#include "guards_layout.h"

/* ---- equality with constants ---- */

/* torch's own types are known by name: without torch there are none, and a
 * class made in Python is a heap type. */
static int
is_torch(PyTypeObject *type, const char *name)
{
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && strncmp(type->tp_name, "torch.", 6) == 0
        && strcmp(type->tp_name + 6, name) == 0;
}

/* Types whose own C comparison decides equality: exact type, then `==`. */
static int
compares_as_a_whole(PyTypeObject *type)
{
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBytes_Type || is_torch(type, "device");
}

/* Types with one object per value. */
static int
compares_by_identity(PyTypeObject *type)
{
    return type == &PyBool_Type || type == Py_TYPE(Py_None) || type == Py_TYPE(Py_Ellipsis)
        || type == Py_TYPE(Py_NotImplemented) || is_torch(type, "dtype") || is_torch(type, "layout")
        || is_torch(type, "memory_format");
}

static int
is_tuple_type(PyTypeObject *type)
{
    return type == &PyTuple_Type || (type->tp_base == &PyTuple_Type && is_torch(type, "Size"));
}

/* One of start, stop and step of a slice or a range, borrowed from it: both keep
 * these objects for life. NULL without an exception when memory is short. */
static PyObject *
bound_of(PyObject *o, int i)
{
    static const char *const texts[] = {"start", "stop", "step"};
    if (PySlice_Check(o)) {
        PySliceObject *slice = (PySliceObject *)o;
        return i == 0 ? slice->start : i == 1 ? slice->stop : slice->step;
    }
    PyObject *bound = PyObject_GetAttrString(o, texts[i]);
    if (bound == NULL)
        PyErr_Clear();
    else
        Py_DECREF(bound);
    return bound;
}

static int
has_bounds(PyTypeObject *type)
{
    return type == &PySlice_Type || type == &PyRange_Type;
}

/* A range's fields count, not its items: range(0, 1, 5) and range(0, 2, 5) differ. */
static int
same_bounds(PyObject *a, PyObject *b)
{
    for (int i = 0; i < 3; i++) {
        PyObject *of_a = bound_of(a, i), *of_b = bound_of(b, i);
        if (of_a == NULL || of_b == NULL || !typed_equal(of_a, of_b))
            return 0;
    }
    return 1;
}

/* Can `o` be the constant of an EQUAL check? Only what can't change and whose
 * comparison can't run user code. */
int
constant_supported(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    if (type == &PyFloat_Type || type == &PyComplex_Type || type == &PyRange_Type || compares_as_a_whole(type)
        || compares_by_identity(type))
        return 1;
    int supported = 0;
    if (Py_EnterRecursiveCall(" in a guard's constant") != 0) {
        PyErr_Clear();
        return 0;
    }
    if (is_tuple_type(type)) {
        supported = 1;
        for (Py_ssize_t i = 0; supported && i < PyTuple_GET_SIZE(o); i++)
            supported = constant_supported(PyTuple_GET_ITEM(o, i));
    }
    else if (type == &PySlice_Type) {
        PySliceObject *slice = (PySliceObject *)o;
        supported = constant_supported(slice->start) && constant_supported(slice->stop)
            && constant_supported(slice->step);
    }
    else if (type == &PyFrozenSet_Type) {
        supported = 1;
        Py_ssize_t at = 0;
        PyObject *key;
        Py_hash_t hash;
        while (supported && _PySet_NextEntry(o, &at, &key, &hash))
            supported = constant_supported(key);
    }
    Py_LeaveRecursiveCall();
    return supported;
}

static int
same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0; /* tells -0.0 from 0.0, and nan is nan */
}

/* Do two sets have equal elements in the same order? */
static int
same_sequence(PyObject *a, PyObject *b)
{
    Py_ssize_t in_a = 0, in_b = 0;
    PyObject *of_a, *of_b;
    Py_hash_t hash;
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b))
        return 0;
    while (_PySet_NextEntry(a, &in_a, &of_a, &hash) && _PySet_NextEntry(b, &in_b, &of_b, &hash))
        if (!typed_equal(of_a, of_b))
            return 0;
    return 1;
}

/* Equal in type and value, throughout: 1, True and 1.0 differ. */
int
typed_equal(PyObject *constant, PyObject *value)
{
    if (constant == value)
        return 1;
    PyTypeObject *type = Py_TYPE(constant);
    if (Py_TYPE(value) != type)
        return 0;
    if (type == &PyFloat_Type)
        return same_double(PyFloat_AS_DOUBLE(constant), PyFloat_AS_DOUBLE(value));
    if (type == &PyComplex_Type) {
        Py_complex a = ((PyComplexObject *)constant)->cval, b = ((PyComplexObject *)value)->cval;
        return same_double(a.real, b.real) && same_double(a.imag, b.imag);
    }
    if (compares_as_a_whole(type)) {
        int equal = PyObject_RichCompareBool(constant, value, Py_EQ);
        if (equal < 0)
            PyErr_Clear();
        return equal > 0;
    }
    if (is_tuple_type(type)) {
        Py_ssize_t n = PyTuple_GET_SIZE(constant);
        if (PyTuple_GET_SIZE(value) != n)
            return 0;
        for (Py_ssize_t i = 0; i < n; i++)
            if (!typed_equal(PyTuple_GET_ITEM(constant, i), PyTuple_GET_ITEM(value, i)))
                return 0;
        return 1;
    }
    if (has_bounds(type))
        return same_bounds(constant, value);
    if (type == &PyFrozenSet_Type)
        return same_sequence(constant, value);
    return 0; /* what has one object per value, and everything else: by identity */
}

/* ---- containers ---- */

/* As the layout base's __len__; -1 for what has no such base. */
Py_ssize_t
length_of(PyObject *value)
{
    if (PyTuple_Check(value) || PyList_Check(value) || PyBytes_Check(value))
        return Py_SIZE(value);
    if (PyDict_Check(value))
        return ((PyDictObject *)value)->ma_used;
    if (PyAnySet_Check(value))
        return PySet_GET_SIZE(value);
    if (PyUnicode_Check(value))
        return PyUnicode_GET_LENGTH(value);
    if (is_deque(value))
        return deque_length(value);
    return -1;
}

/* OrderedDict keeps its order in a list of its own: ask its iterator, the one
 * check that allocates. */
static int
ordered_keys_match(PyObject *dict, PyObject *keys)
{
    PyObject *it = PyODict_Type.tp_iter(dict), *key;
    Py_ssize_t i = 0, n = PyTuple_GET_SIZE(keys);
    int match = it != NULL;
    while (match && (key = PyIter_Next(it)) != NULL) {
        match = i < n && typed_equal(PyTuple_GET_ITEM(keys, i), key);
        i++;
        Py_DECREF(key);
    }
    Py_XDECREF(it);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return match && i == n;
}

/* As the dict itself orders them. */
static int
plain_keys_match(PyObject *dict, PyObject *keys)
{
    if (((PyDictObject *)dict)->ma_used != PyTuple_GET_SIZE(keys))
        return 0;
    Py_ssize_t at = 0, i = 0;
    PyObject *key;
    while (PyDict_Next(dict, &at, &key, NULL)) {
        if (!typed_equal(PyTuple_GET_ITEM(keys, i), key))
            return 0;
        i++;
    }
    return 1;
}

/* A set's elements in their order, which is that of its table. */
static int
elements_match(PyObject *set, PyObject *elements)
{
    Py_ssize_t at = 0, i = 0;
    PyObject *element;
    Py_hash_t hash;
    if (PySet_GET_SIZE(set) != PyTuple_GET_SIZE(elements))
        return 0;
    while (_PySet_NextEntry(set, &at, &element, &hash))
        if (!typed_equal(PyTuple_GET_ITEM(elements, i++), element))
            return 0;
    return 1;
}

static int
keys_match(PyObject *dict, PyObject *keys)
{
    if (PyAnySet_Check(dict))
        return elements_match(dict, keys);
    if (!PyDict_Check(dict) || ((PyDictObject *)dict)->ma_used != PyTuple_GET_SIZE(keys))
        return 0;
    return PyObject_TypeCheck(dict, &PyODict_Type) ? ordered_keys_match(dict, keys) : plain_keys_match(dict, keys);
}

static int
attributes_match(PyObject *o, PyObject *names)
{
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    if (PyType_Check(o))
        return n == 0; /* a class's attributes are found along its MRO */
    Attributes a = attributes(o);
    if (a.values == NULL)
        return a.dict == NULL ? n == 0 : plain_keys_match(a.dict, names);
    if (values_size(a.values) != n)
        return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!typed_equal(PyTuple_GET_ITEM(names, i), DK_UNICODE_ENTRIES(a.keys)[values_index(a.values, i)].me_key))
            return 0;
    return 1;
}

/* As `key in container`: 1, 0, or -1 when only user code could tell. */
static int
contains(PyObject *container, const Check *c)
{
    PyObject *value, *key;
    if (PyDict_Check(container))
        return dict_find(container, c->arg, c->hash, &value);
    if (!PyAnySet_Check(container))
        return -1;
    Py_ssize_t at = 0;
    Py_hash_t hash;
    while (_PySet_NextEntry(container, &at, &key, &hash)) {
        int equal = hash == c->hash ? keys_equal(key, c->arg) : 0;
        if (equal)
            return equal;
    }
    return 0;
}

/* ---- the checks ---- */

/* On the value itself: what holds for an object holds as long as it lives, or
 * changes only with its type. */
int
check_value(const Check *c, PyObject *value)
{
    switch (c->op) {
    case CHECK_TYPE_IS:
        return (PyObject *)Py_TYPE(value) == c->arg;
    case CHECK_IS:
        return value == c->arg;
    case CHECK_IS_WEAK: /* a dead reference holds None */
        return value == ((PyWeakReference *)c->arg)->wr_object && value != Py_None;
    case CHECK_IS_NOT:
        return value != c->arg;
    case CHECK_EQUAL:
        return typed_equal(c->arg, value);
    case CHECK_SUBTYPE:
        return PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)c->arg);
    default:
        return 0;
    }
}

/* On what the value contains. */
int
check_contents(const Check *c, PyObject *value)
{
    PyObject *found, **slot;
    int32_t hint = 0;
    switch (c->op) {
    case CHECK_LENGTH:
        return length_of(value) == c->n;
    case CHECK_KEYS:
        return keys_match(value, c->arg);
    case CHECK_HAS_KEY:
        return contains(value, c) == 1;
    case CHECK_NO_KEY:
        return contains(value, c) == 0;
    case CHECK_NO_ATTR:
        return instance_find(value, c->arg, c->hash, &hint, &found) == 0;
    case CHECK_NO_CLASS_ATTR:
        return PyType_Check(value) && _PyType_Lookup((PyTypeObject *)value, c->arg) == NULL;
    case CHECK_ATTR_KEYS:
        return attributes_match(value, c->arg);
    case CHECK_SLOT_EMPTY:
        slot = slot_of(c->arg, value);
        return slot != NULL && *slot == NULL;
    default:
        return 0;
    }
}

/* What a level depends on because of a check on its node; a check that is
 * settled once and for all by the value's identity uses nothing. */
unsigned
check_uses(const Check *c)
{
    switch (c->op) {
    case CHECK_SUBTYPE:
        return USES_BASES;
    case CHECK_LENGTH:
    case CHECK_HAS_KEY:
    case CHECK_NO_KEY:
        return USES_ITEMS;
    case CHECK_KEYS:
        return USES_ITEMS | USES_ORDER;
    case CHECK_NO_ATTR:
    case CHECK_ATTR_KEYS:
        return USES_ATTRS;
    case CHECK_SLOT_EMPTY:
        return USES_RAW;
    case CHECK_NO_CLASS_ATTR:
        return USES_MRO;
    default:
        return 0;
    }
}

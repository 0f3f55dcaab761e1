/* Where CPython keeps an object's attributes and a dict's entries.
 *
 * Guards read them in place: the API functions that would do it may run user
 * code (__getattribute__, a key's __eq__), allocate, or create an instance's
 * dict. A new Python version is a new column here.
 */
#ifndef STATOR_GUARDS_LAYOUT_H
#define STATOR_GUARDS_LAYOUT_H

#include "compat.h"

#include "internal/pycore_dict.h"
#include "internal/pycore_object.h"
#if PY_VERSION_HEX >= 0x030D0000
#include "internal/pycore_setobject.h"
#endif

/* The attributes an instance holds itself: in a dict, or, while nobody asked
 * for the dict, in a vector of values described by its class's keys. */
typedef struct {
    PyObject *dict;
    PyDictKeysObject *keys;
    PyObject *const *values;
} Attributes;

static inline int
has_managed_dict(PyObject *o)
{
    return (Py_TYPE(o)->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
}

static inline PyDictKeysObject *
class_keys(PyObject *o)
{
    return (PyDictKeysObject *)((PyHeapTypeObject *)Py_TYPE(o))->ht_cached_keys;
}

/* The address of the word that points to an instance's dict; NULL where the
 * type gives its instances none. Creates nothing. */
static inline PyObject **
dict_slot(PyObject *o)
{
    if (has_managed_dict(o))
        return (PyObject **)o - 3;
    return _PyObject_GetDictPtr(o);
}

static inline Attributes
attributes(PyObject *o)
{
    Attributes a = {NULL, NULL, NULL};
    if (!has_managed_dict(o)) {
        PyObject **slot = _PyObject_GetDictPtr(o);
        if (slot != NULL)
            a.dict = *slot;
        return a;
    }
#if PY_VERSION_HEX < 0x030C0000
    PyDictValues *values = *_PyObject_ValuesPointer(o);
    a.dict = *_PyObject_ManagedDictPointer(o);
#elif PY_VERSION_HEX < 0x030D0000
    PyDictOrValues at = *_PyObject_DictOrValuesPointer(o);
    PyDictValues *values = NULL;
    if (_PyDictOrValues_IsValues(at))
        values = _PyDictOrValues_GetValues(at);
    else
        a.dict = _PyDictOrValues_GetDict(at);
#else
    PyDictValues *values = NULL;
    a.dict = (PyObject *)_PyObject_GetManagedDict(o);
    if (a.dict == NULL && (Py_TYPE(o)->tp_flags & Py_TPFLAGS_INLINE_VALUES)
        && _PyObject_InlineValues(o)->valid)
        values = _PyObject_InlineValues(o);
#endif
    if (values != NULL) {
        a.keys = class_keys(o);
        a.values = values->values;
    }
    return a;
}

/* How many attributes an instance without a dict has, and which of the class's
 * keys the i-th of them in order of insertion is. */
static inline Py_ssize_t
inline_size(const Attributes *a)
{
#if PY_VERSION_HEX < 0x030D0000
    return ((const uint8_t *)a->values)[-2];
#else
    return ((const PyDictValues *)((const char *)a->values - offsetof(PyDictValues, values)))->size;
#endif
}

static inline Py_ssize_t
inline_index(const Attributes *a, Py_ssize_t i)
{
#if PY_VERSION_HEX < 0x030D0000
    return ((const uint8_t *)a->values)[-3 - i];
#else
    const PyDictValues *values = (const PyDictValues *)((const char *)a->values - offsetof(PyDictValues, values));
    return ((const uint8_t *)&values->values[values->capacity])[i];
#endif
}

/* Does the instance share this dict's values with itself, so that a store to
 * an attribute may bypass the dict (and its version, and its watchers)? */
static inline int
dict_is_bypassed(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030D0000
    return 0;
#else
    PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    return values != NULL && values->embedded;
#endif
}

/* Where a dict's version is. */
static inline const uint64_t *
dict_tag(PyObject *dict)
{
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    return &((PyDictObject *)dict)->ma_version_tag;
    _Py_COMP_DIAG_POP
}

/* The i-th index of a dict's hash table. */
static inline Py_ssize_t
dict_keys_index(PyDictKeysObject *keys, size_t i)
{
    if (keys->dk_log2_size < 8)
        return ((const int8_t *)keys->dk_indices)[i];
    if (keys->dk_log2_size < 16)
        return ((const int16_t *)keys->dk_indices)[i];
    if (keys->dk_log2_size < 32)
        return ((const int32_t *)keys->dk_indices)[i];
    return ((const int64_t *)keys->dk_indices)[i];
}

#endif

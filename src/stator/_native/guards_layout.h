/* Where CPython keeps an object's attributes and a dict's entries.
 *
 * Guards read them in place: the API functions that would do it may run user
 * code (__getattribute__, a key's __eq__), allocate, or create an instance's
 * dict. What differs between versions of Python is in compat.h.
 */
#ifndef STATOR_GUARDS_LAYOUT_H
#define STATOR_GUARDS_LAYOUT_H

#include "compat.h"

/* The attributes an instance holds itself: in a dict, or, while nobody asked
 * for the dict, in a vector of values described by its class's keys. */
typedef struct {
    PyObject *dict;
    PyDictKeysObject *keys;
    const PyDictValues *values;
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
    const PyDictValues *values = managed_values(o, &a.dict);
    if (values != NULL) {
        a.keys = class_keys(o);
        a.values = values;
    }
    return a;
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

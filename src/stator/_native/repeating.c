/* Guards of a region that is called again: the same facts, seen from other arguments.
 *
 * A model of many equal layers has a few hundred guards for each, which differ in nothing but where
 * their sources start. So sources and guards are copied field by field, as objects with slots.
 */
#include "native.h"

/* Where a field of such an object is; -1 with an exception if its class has none of this name. */
static Py_ssize_t
field_offset(PyObject *o, const char *name)
{
    PyObject *member = PyObject_GetAttrString((PyObject *)Py_TYPE(o), name);
    if (member == NULL)
        return -1;
    Py_ssize_t offset = -1;
    if (Py_IS_TYPE(member, &PyMemberDescr_Type))
        offset = ((PyMemberDescrObject *)member)->d_member->offset;
    else
        PyErr_Format(PyExc_TypeError, "%s.%s is no slot", Py_TYPE(o)->tp_name, name);
    Py_DECREF(member);
    return offset;
}

/* A shallow copy of an object that consists of slots. */
static PyObject *
slots_copy(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    if (type->tp_itemsize || type->tp_dictoffset || type->tp_weaklistoffset
        || type->tp_alloc != PyType_GenericAlloc || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        PyErr_Format(PyExc_TypeError, "a %s does not consist of slots", type->tp_name);
        return NULL;
    }
    PyObject *made = type->tp_alloc(type, 0);
    if (made == NULL)
        return NULL;
    for (Py_ssize_t at = sizeof(PyObject); at < type->tp_basicsize; at += sizeof(PyObject *)) {
        PyObject *held = *(PyObject **)((char *)o + at);
        *(PyObject **)((char *)made + at) = Py_XNewRef(held);
    }
    return made;
}

static void
set_field(PyObject *o, Py_ssize_t offset, PyObject *value)
{
    PyObject **place = (PyObject **)((char *)o + offset), *before = *place;
    *place = Py_NewRef(value);
    Py_XDECREF(before);
}

/* The sources, each of which starts at a root, at one before it, or stays what it is. */
static PyObject *
rebased_sources(PyObject *sources, PyObject *bases, PyObject *roots)
{
    Py_ssize_t n = PyTuple_GET_SIZE(sources);
    PyObject *made = PyList_New(n);
    for (Py_ssize_t i = 0; made != NULL && i < n; i++) {
        PyObject *source = PyTuple_GET_ITEM(sources, i), *base = PyTuple_GET_ITEM(bases, i), *copy;
        if (base == Py_None) {
            PyList_SET_ITEM(made, i, Py_NewRef(source));
            continue;
        }
        Py_ssize_t at = PyLong_AsSsize_t(base);
        if (at == -1 && PyErr_Occurred())
            Py_CLEAR(made);
        else if (at >= i || (at < 0 && ~at >= PyTuple_GET_SIZE(roots))) {
            PyErr_SetString(PyExc_IndexError, "a source stands before the one that it starts at");
            Py_CLEAR(made);
        }
        else if (at < 0)
            PyList_SET_ITEM(made, i, Py_NewRef(PyTuple_GET_ITEM(roots, ~at)));
        else {
            Py_ssize_t offset = field_offset(source, "of");
            copy = offset < 0 ? NULL : slots_copy(source);
            if (copy == NULL) {
                Py_CLEAR(made);
                continue;
            }
            set_field(copy, offset, PyList_GET_ITEM(made, at));
            PyList_SET_ITEM(made, i, copy);
        }
    }
    return made;
}

/* repeated_guards(sources, bases, roots, guards, places): the sources from these roots, and the guards there. */
static PyObject *
repeated_guards(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *sources, *bases, *roots, *guards, *places;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!:repeated_guards", &PyTuple_Type, &sources, &PyTuple_Type, &bases,
                          &PyTuple_Type, &roots, &PyTuple_Type, &guards, &PyTuple_Type, &places))
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(guards);
    if (PyTuple_GET_SIZE(sources) != PyTuple_GET_SIZE(bases) || n != PyTuple_GET_SIZE(places)) {
        PyErr_SetString(PyExc_ValueError, "each source has a base, and each guard a source");
        return NULL;
    }
    PyObject *paths = rebased_sources(sources, bases, roots);
    if (paths == NULL)
        return NULL;
    PyObject *made = PyList_New(n), *result = NULL;
    Py_ssize_t offset = n == 0 ? 0 : field_offset(PyTuple_GET_ITEM(guards, 0), "source");
    if (made == NULL || offset < 0)
        goto done;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *guard = PyTuple_GET_ITEM(guards, i), *copy;
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
        if (at == -1 && PyErr_Occurred())
            goto done;
        if (at < 0 || at >= PyList_GET_SIZE(paths) || Py_TYPE(guard) != Py_TYPE(PyTuple_GET_ITEM(guards, 0))) {
            PyErr_SetString(PyExc_ValueError, "a guard has no source");
            goto done;
        }
        if ((copy = slots_copy(guard)) == NULL)
            goto done;
        set_field(copy, offset, PyList_GET_ITEM(paths, at));
        PyList_SET_ITEM(made, i, copy);
    }
    result = PyTuple_Pack(2, paths, made);
done:
    Py_DECREF(paths);
    Py_XDECREF(made);
    return result;
}

/* slots_copied(object): a shallow copy of an object that consists of slots. */
static PyObject *
slots_copied(PyObject *Py_UNUSED(m), PyObject *o)
{
    return slots_copy(o);
}

PyMethodDef repeating_functions[] = {
    {"repeated_guards", repeated_guards, METH_VARARGS,
     "repeated_guards(sources, bases, roots, guards, places) -> the sources from these roots, and the guards there"},
    {"slots_copied", slots_copied, METH_O, "slots_copied(object) -> a shallow copy of an object of slots"},
    {NULL},
};

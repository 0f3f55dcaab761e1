/* Assignments of `obj.__dict__` and `obj.__class__`, and calls of some functions, counted.
 *
 * They change what an object is without changing any dict, so no version and no
 * watcher tells of them. CPython carries both out in setters that it finds in
 * static tables: one for `__class__`, and two for the `__dict__` of classes
 * written in Python. Setters that count and then call CPython's take their
 * places there, once and for good. As long as the count stands still, every
 * object is of the class it was, and has the dict it had; objects whose
 * `__dict__` comes from somewhere else (a type of an extension) are not covered.
 *
 * Where a table is not what is expected, or can't be written, nothing is counted
 * and guards look at each object instead.
 *
 * Functions of C code that Python code calls are found in static tables, too. Calls
 * of a few of torch's are counted in the same way: they change what nothing else
 * tells of, such as which impl the object of a tensor has (torch.utils.swap_tensors).
 */
#include "guards.h"
#include <unistd.h>

Rebindings rebindings;

static setter set_class, set_dict;

/* The tables are those of all interpreters, some of which may have a lock of their own. */
static void
add(uint64_t *to, uint64_t n)
{
    __atomic_fetch_add(to, n, __ATOMIC_RELAXED);
}

/* Code may run at both ends of an assignment (audit hooks, finalizers of what is
 * replaced) and check guards there, so nobody may rely on the count in between. */
static void
begins(void)
{
    add(&rebindings.count, 1);
    add(&rebindings.under_way, 1);
}

static void
ends(void)
{
    add(&rebindings.count, 1);
    add(&rebindings.under_way, -1);
}

static int
counted(setter set, PyObject *o, PyObject *value, void *closure)
{
    begins();
    int status = set(o, value, closure);
    ends();
    return status;
}

#define COUNTED_CALLS(X) X(0) X(1) X(2)

static PyCFunction originals[3];

#define X(i)                                                   \
    static PyObject *counted_call_##i(PyObject *self, PyObject *arg) \
    {                                                          \
        begins();                                              \
        PyObject *result = originals[i](self, arg);            \
        ends();                                                \
        return result;                                         \
    }
COUNTED_CALLS(X)
#undef X

#define X(i) counted_call_##i,
static const PyCFunction counted_calls[] = {COUNTED_CALLS(X)};
#undef X

static int
counted_class(PyObject *o, PyObject *value, void *closure)
{
    return counted(set_class, o, value, closure);
}

static int
counted_dict(PyObject *o, PyObject *value, void *closure)
{
    return counted(set_dict, o, value, closure);
}

/* The table's entry behind a descriptor in a class's dict. */
static PyGetSetDef *
entry_of(PyTypeObject *type, const char *name)
{
    PyObject *dict = PyObject_GetAttrString((PyObject *)type, "__dict__");
    PyObject *descriptor = dict == NULL ? NULL : PyMapping_GetItemString(dict, name);
    PyGetSetDef *entry = NULL;
    if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type))
        entry = ((PyGetSetDescrObject *)descriptor)->d_getset;
    Py_XDECREF(dict);
    Py_XDECREF(descriptor); /* the class keeps it */
    PyErr_Clear();
    return entry;
}

/* Store an address in memory that may be read-only: the kernel tries. */
static int
store(void *at, void *address)
{
    int ends[2];
    if (pipe(ends) < 0)
        return 0;
    int stored = write(ends[1], &address, sizeof address) == sizeof address
        && read(ends[0], at, sizeof address) == sizeof address;
    close(ends[0]);
    close(ends[1]);
    return stored;
}

/* A class whose instances get a dict; with `base`, which has weak references already,
 * the table is another one. */
static PyTypeObject *
class_with_dict(PyObject *base)
{
    return (PyTypeObject *)(base == NULL ? PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "full")
                                         : PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){}", "dict_only", base));
}

int
rebindings_init(void)
{
    PyObject *base = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){s(s)}", "base", "__slots__", "__weakref__");
    PyTypeObject *full = class_with_dict(NULL), *rest = base == NULL ? NULL : class_with_dict(base);
    if (base == NULL || full == NULL || rest == NULL)
        goto done;
    PyGetSetDef *class_entry = entry_of(&PyBaseObject_Type, "__class__");
    PyGetSetDef *full_entry = entry_of(full, "__dict__"), *rest_entry = entry_of(rest, "__dict__");
    if (class_entry == NULL || full_entry == NULL || rest_entry == NULL || class_entry->set == NULL
        || full_entry->set == NULL || full_entry->set != rest_entry->set)
        goto done;
    set_class = class_entry->set;
    set_dict = full_entry->set;
    rebindings.counted = store(&class_entry->set, (void *)counted_class) && store(&full_entry->set, (void *)counted_dict)
        && store(&rest_entry->set, (void *)counted_dict);
done:
    Py_XDECREF(base);
    Py_XDECREF((PyObject *)full);
    Py_XDECREF((PyObject *)rest);
    return PyErr_Occurred() ? -1 : 0;
}

/* From now on, if it is a function or method that takes one argument, or a tuple of them. */
int
rebindings_count_calls(PyObject *function)
{
    PyMethodDef *entry = PyCFunction_CheckExact(function) ? ((PyCFunctionObject *)function)->m_ml
        : Py_IS_TYPE(function, &PyMethodDescr_Type)       ? ((PyMethodDescrObject *)function)->d_method
                                                          : NULL;
    if (!rebindings.counted || entry == NULL || (entry->ml_flags != METH_VARARGS && entry->ml_flags != METH_O))
        return 0;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(counted_calls); i++) {
        if (entry->ml_meth == counted_calls[i])
            return 1;
        if (originals[i] != NULL)
            continue;
        originals[i] = entry->ml_meth;
        return store(&entry->ml_meth, (void *)counted_calls[i]);
    }
    return 0;
}

static int
gives_dict(PyTypeObject *type)
{
    return type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT) != 0;
}

/* Is an instance's dict replaced only by setters that count? The class that gives
 * it to them says how. */
int
dict_is_counted(PyTypeObject *type)
{
    while (type->tp_base != NULL && gives_dict(type->tp_base))
        type = type->tp_base;
    if (!rebindings.counted || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE))
        return 0;
    PyGetSetDef *entry = entry_of(type, "__dict__");
    return entry != NULL && entry->set == counted_dict;
}

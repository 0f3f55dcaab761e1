/* Binding: the arguments of a call to the parameters of a function.
 *
 * Follows initialize_locals() in CPython's Python/ceval.c step by step, less
 * its error messages: whatever does not fit is left to the function itself,
 * which is called with the same arguments and raises what it always raised.
 */
#include "dispatch.h"

static inline void
place(Binding *b, Py_ssize_t i, PyObject *value)
{
    b->values[i] = Py_NewRef(value);
}

static int
binding_alloc(Binding *b, PyCodeObject *code)
{
    Py_ssize_t n = parameter_count(code);
    PyObject **room = b->small;
    if (n > BINDING_SMALL) {
        room = PyMem_Malloc((size_t)(n + 1) * sizeof(PyObject *));
        if (room == NULL)
            return 0;
    }
    b->code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    b->values = room + 1;
    b->n = n;
    memset(b->values, 0, (size_t)n * sizeof(PyObject *));
    return 1;
}

void
binding_release(Binding *b)
{
    for (Py_ssize_t i = 0; i < b->n; i++)
        Py_XDECREF(b->values[i]);
    if (b->values != b->small + 1)
        PyMem_Free(b->values - 1);
    Py_DECREF(b->code);
}

/* The index of the parameter a keyword names, or -1. */
static Py_ssize_t
keyword_index(PyCodeObject *code, PyObject *keyword)
{
    PyObject **names = &PyTuple_GET_ITEM(code->co_localsplusnames, 0);
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++)
        if (names[i] == keyword)
            return i;
    /* Names are interned almost always; equal ones need not be. */
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++)
        if (PyUnicode_Compare(names[i], keyword) == 0)
            return i;
    return -1;
}

static int
fill_keywords(Binding *b, PyCodeObject *code, PyObject *const *values, PyObject *kwnames, PyObject *kwdict)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, i);
        if (!PyUnicode_CheckExact(keyword))
            return 0; /* not a string, or a subclass with an __eq__ of its own */
        Py_ssize_t j = keyword_index(code, keyword);
        if (j < 0) {
            if (kwdict == NULL || PyDict_SetItem(kwdict, keyword, values[i]) < 0)
                return 0;
        }
        else {
            if (b->values[j] != NULL)
                return 0; /* given twice */
            place(b, j, values[i]);
        }
    }
    return 1;
}

static int
fill_defaults(Binding *b, PyFunctionObject *function, PyCodeObject *code, Py_ssize_t given)
{
    PyObject *defaults = function->func_defaults;
    Py_ssize_t argcount = code->co_argcount;
    Py_ssize_t first = argcount - (defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults));
    for (Py_ssize_t i = given; i < argcount; i++) {
        if (b->values[i] != NULL)
            continue;
        if (i < first)
            return 0;
        place(b, i, PyTuple_GET_ITEM(defaults, i - first));
    }
    return 1;
}

static int
fill_keyword_defaults(Binding *b, PyFunctionObject *function, PyCodeObject *code)
{
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_argcount; i < end; i++) {
        if (b->values[i] != NULL)
            continue;
        PyObject *defaults = function->func_kwdefaults;
        if (defaults == NULL)
            return 0;
        PyObject *value = PyDict_GetItemWithError(defaults, PyTuple_GET_ITEM(code->co_localsplusnames, i));
        if (value == NULL)
            return 0;
        place(b, i, value);
    }
    return 1;
}

static int
fill(Binding *b, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyCodeObject *code = b->code;
    Py_ssize_t next = code->co_argcount + code->co_kwonlyargcount;
    Py_ssize_t positional = nargs < code->co_argcount ? nargs : code->co_argcount;
    PyObject *kwdict = NULL;
    for (Py_ssize_t i = 0; i < positional; i++)
        place(b, i, args[i]);
    if (code->co_flags & CO_VARARGS) {
        PyObject *rest = PyTuple_New(nargs - positional);
        if (rest == NULL)
            return 0;
        for (Py_ssize_t i = positional; i < nargs; i++)
            PyTuple_SET_ITEM(rest, i - positional, Py_NewRef(args[i]));
        b->values[next++] = rest;
    }
    else if (nargs > positional)
        return 0;
    if (code->co_flags & CO_VARKEYWORDS) {
        kwdict = PyDict_New();
        if (kwdict == NULL)
            return 0;
        b->values[next] = kwdict;
    }
    if (kwnames != NULL && !fill_keywords(b, code, args + nargs, kwnames, kwdict))
        return 0;
    return fill_defaults(b, function, code, positional) && fill_keyword_defaults(b, function, code);
}

int
binding_fill(Binding *b, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (!binding_alloc(b, (PyCodeObject *)function->func_code))
        return 0;
    if (fill(b, function, args, nargs, kwnames))
        return 1;
    PyErr_Clear();
    binding_release(b);
    return 0;
}

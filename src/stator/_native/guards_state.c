/* Probes: torch's global state without a Python object in between.
 *
 * A probe is a function of torch's own, found by its C++ name, whose answer
 * determines what the state's Python function says. So while it answers what it
 * did when the guards on that state last held, they hold, and the Python
 * function need not be asked. stator.guards.state verifies each probe before
 * its first use; without one, the Python function is called.
 */
#include "guards.h"
#include <dlfcn.h>

#define CAPSULE "stator.probe"

struct Probe {
    uint64_t (*ask)(uint64_t);
    uint64_t argument, mask;
    int exact; /* 0: only answers other than 0 determine the state */
};

uint64_t
probe_ask(const Probe *p)
{
    return p->ask(p->argument) & p->mask;
}

int
probe_settles(const Probe *p, uint64_t answer)
{
    return p->exact || answer != 0;
}

/* NULL with an exception when it is none. */
const Probe *
probe_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, CAPSULE);
}

/* ---- the states of a tree ---- */

/* What guards on state ask, and what they expect, to numbers. There are as many as
 * there are combinations of settings that a program is traced under. */
static PyObject *numbers;

static int
add_state(PyObject *parts, const Node *node)
{
    for (int32_t i = 0; i < node->n_checks; i++) {
        const Check *c = &node->checks[i];
        if (c->op != CHECK_EQUAL)
            return 0;
        PyObject *part = PyTuple_Pack(3, node->key, (PyObject *)Py_TYPE(c->arg), c->arg);
        if (part == NULL || PyList_Append(parts, part) < 0) {
            Py_XDECREF(part);
            return -1;
        }
        Py_DECREF(part);
    }
    return 1;
}

static int
number_of(PyObject *parts, unsigned *number)
{
    if (numbers == NULL && (numbers = PyDict_New()) == NULL)
        return -1;
    PyObject *key = PyList_AsTuple(parts);
    PyObject *next = key == NULL ? NULL : PyLong_FromSsize_t(PyDict_GET_SIZE(numbers) + 1);
    PyObject *found = next == NULL ? NULL : PyDict_SetDefault(numbers, key, next);
    if (found != NULL)
        *number = (unsigned)PyLong_AsUnsignedLong(found);
    else if (key != NULL && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear(); /* a constant that has no hash: no number */
    Py_XDECREF(key);
    Py_XDECREF(next);
    return PyErr_Occurred() ? -1 : 0;
}

int
state_number(GuardTree *t)
{
    const Level *root = &t->levels[0];
    PyObject *parts = PyList_New(0);
    int status = parts == NULL ? -1 : 1;
    while (status > 0 && t->n_states < root->n_children
           && t->nodes[root->children[t->n_states]].op == SOURCE_CALL)
        status = add_state(parts, &t->nodes[root->children[t->n_states++]]);
    if (status > 0 && t->n_states > 0)
        status = number_of(parts, &t->state);
    Py_XDECREF(parts);
    return status < 0 ? -1 : 0;
}

/* ---- module ---- */

static void
probe_free(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, CAPSULE));
}

static PyObject *
state_probe(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const char *const libraries[] = {"libc10.so", "libtorch_cpu.so"};
    const char *symbol;
    unsigned long long argument;
    int bits, exact;
    if (!PyArg_ParseTuple(args, "sKip:state_probe", &symbol, &argument, &bits, &exact))
        return NULL;
    if (bits < 1 || bits > 64) {
        PyErr_SetString(PyExc_ValueError, "an answer has 1 to 64 bits");
        return NULL;
    }
    void *function = NULL;
    for (size_t i = 0; function == NULL && i < Py_ARRAY_LENGTH(libraries); i++) {
        void *library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
        if (library != NULL)
            function = dlsym(library, symbol);
    }
    if (function == NULL)
        Py_RETURN_NONE;
    Probe *p = PyMem_Malloc(sizeof *p);
    if (p == NULL)
        return PyErr_NoMemory();
    *p = (Probe){(uint64_t (*)(uint64_t))function, argument, UINT64_MAX >> (64 - bits), exact};
    PyObject *capsule = PyCapsule_New(p, CAPSULE, probe_free);
    if (capsule == NULL)
        PyMem_Free(p);
    return capsule;
}

static PyObject *
state_ask(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    const Probe *p = probe_of(capsule);
    return p == NULL ? NULL : PyLong_FromUnsignedLongLong(probe_ask(p));
}

PyMethodDef state_functions[] = {
    {"state_probe", state_probe, METH_VARARGS,
     "state_probe(symbol, argument, bits, exact) -> a probe, or None where torch has no such function"},
    {"state_ask", state_ask, METH_O, "state_ask(probe) -> its answer now"},
    {NULL},
};

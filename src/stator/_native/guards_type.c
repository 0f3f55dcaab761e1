/* The GuardTree type: lifetime, methods, and the guards' part of the module.
 *
 *   GuardTree(guards, *, outputs=(), explainer=None, shortcuts=True)
 */
#include "guards.h"

/* ---- records ---- */

void
tree_forget(GuardTree *t)
{
    for (Py_ssize_t i = 0; i < t->n_levels; i++)
        level_forget(&t->levels[i]);
    t->quiet.on = 0;
    while (t->n_types > 0)
        Py_DECREF(t->types[--t->n_types].type);
}

/* ---- lifetime ---- */

static PyObject *
tree_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards", "outputs", "explainer", "shortcuts", NULL};
    PyObject *guards, *outputs = NULL, *explainer = Py_None;
    int shortcuts = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|$O!Op:GuardTree", names, &PyTuple_Type, &guards,
                                     &PyTuple_Type, &outputs, &explainer, &shortcuts))
        return NULL;
    GuardTree *t = (GuardTree *)type->tp_alloc(type, 0);
    if (t == NULL)
        return NULL;
    t->shortcuts = shortcuts;
    t->watchers = watchers_in_use();
    t->explainer = Py_NewRef(explainer);
    t->failed_guard = -1;
    if (tree_fill(t, guards, outputs) < 0) {
        Py_DECREF(t);
        return NULL;
    }
    t->flat = tree_is_flat(t);
    t->alive = 1;
    return (PyObject *)t;
}

static int
tree_traverse(GuardTree *t, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < t->n_nodes; i++)
        Py_VISIT(t->nodes[i].key);
    for (Py_ssize_t i = 0; i < t->n_checks && t->checks != NULL; i++)
        Py_VISIT(t->checks[i].arg);
    for (Py_ssize_t i = 0; i < t->n_specs; i++) {
        int status = tensor_spec_traverse(t->specs[i], visit, arg);
        if (status)
            return status;
    }
    for (Py_ssize_t i = 0; i < t->n_types; i++)
        Py_VISIT(t->types[i].type);
    Py_VISIT(t->explainer);
    Py_VISIT(t->failed_value);
    return 0;
}

static int
tree_clear(GuardTree *t)
{
    t->alive = 0;
    if (t->levels != NULL)
        tree_forget(t);
    for (Py_ssize_t i = 0; i < t->n_nodes; i++)
        Py_CLEAR(t->nodes[i].key);
    for (Py_ssize_t i = 0; i < t->n_checks && t->checks != NULL; i++) {
        Py_CLEAR(t->checks[i].arg);
        if (t->checks[i].op == CHECK_TENSOR)
            t->checks[i].spec = NULL;
    }
    while (t->n_specs > 0)
        tensor_spec_free(t->specs[--t->n_specs]);
    Py_CLEAR(t->explainer);
    Py_CLEAR(t->failed_value);
    return 0;
}

static void
tree_dealloc(GuardTree *t)
{
    PyObject_GC_UnTrack(t);
    if (t->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)t);
    tree_clear(t);
    for (Py_ssize_t i = 0; i < t->n_checks && t->checks != NULL; i++) {
        Check *c = &t->checks[i];
        if (c->n_nodes > 0)
            PyMem_Free(c->nodes);
        if (c->op == CHECK_RELATION)
            program_free(c->program);
    }
    for (Py_ssize_t i = 0; i < t->n_nodes; i++)
        if (t->nodes[i].op == SOURCE_CALL)
            PyMem_Free(t->nodes[i].state);
    PyMem_Free(t->nodes);
    PyMem_Free(t->values);
    PyMem_Free(t->levels);
    PyMem_Free(t->words);
    PyMem_Free(t->quiet.order);
    PyMem_Free(t->quiet.looks);
    PyMem_Free(t->quiet.known);
    PyMem_Free(t->word_levels);
    PyMem_Free(t->tests);
    PyMem_Free(t->specs);
    PyMem_Free(t->checks);
    PyMem_Free(t->children);
    PyMem_Free(t->outputs);
    PyMem_Free(t->distinct);
    Py_TYPE(t)->tp_free((PyObject *)t);
}

/* ---- methods ---- */

#define LOCALS_SMALL 16

/* check(locals, function): 1, 0, or -1 with an exception. NULL stands for unbound. */
static int
check_from_python(GuardTree *t, const char *name, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyTuple_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "%s(locals: tuple, function) takes 2 arguments", name);
        return -1;
    }
    PyObject *function = args[1] == Py_None ? NULL : args[1];
    if (function != NULL && !PyFunction_Check(function)) {
        PyErr_Format(PyExc_TypeError, "%s() needs a function or None, not %.200s", name, Py_TYPE(function)->tp_name);
        return -1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args[0]);
    if (n < t->n_locals) {
        PyErr_Format(PyExc_ValueError, "%s() needs %zd locals, got %zd", name, t->n_locals, n);
        return -1;
    }
    PyObject *small[LOCALS_SMALL] = {NULL}, **locals = small;
    if (n > LOCALS_SMALL && (locals = PyMem_Malloc(n * sizeof *locals)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = PyTuple_GET_ITEM(args[0], i);
        locals[i] = value == null_object ? NULL : value;
    }
    int pass = guard_tree_check((PyObject *)t, locals, function, 0);
    if (locals != small)
        PyMem_Free(locals);
    return pass;
}

static PyObject *
tree_check(GuardTree *t, PyObject *const *args, Py_ssize_t nargs)
{
    int pass = check_from_python(t, "check", args, nargs);
    return pass < 0 ? NULL : Py_NewRef(pass ? Py_True : Py_False);
}

/* A second, full evaluation that keeps the value it fails on. */
static PyObject *
tree_explain(GuardTree *t, PyObject *const *args, Py_ssize_t nargs)
{
    if (!t->alive || t->explaining) {
        PyErr_SetString(PyExc_RuntimeError, "the guard tree cannot be explained now");
        return NULL;
    }
    tree_forget(t);
    t->explaining = 1;
    int pass = check_from_python(t, "explain", args, nargs);
    t->explaining = 0;
    PyObject *value = t->failed_value;
    t->failed_value = NULL;
    PyObject *result = NULL;
    if (pass > 0)
        result = Py_NewRef(Py_None);
    else if (pass == 0) {
        int found = value != NULL;
        if (t->explainer == Py_None)
            result = Py_BuildValue("iOO", t->failed_guard, found ? Py_True : Py_False, found ? value : Py_None);
        else
            result = PyObject_CallFunction(t->explainer, "iOO", t->failed_guard, found ? Py_True : Py_False,
                                           found ? value : Py_None);
    }
    Py_XDECREF(value);
    return result;
}

static PyObject *
tree_values(GuardTree *t, PyObject *const *args, Py_ssize_t nargs)
{
    int pass = check_from_python(t, "values", args, nargs);
    return pass < 0 ? NULL : pass ? guard_tree_outputs((PyObject *)t) : Py_NewRef(Py_None);
}

static PyObject *
tree_forget_method(GuardTree *t, PyObject *Py_UNUSED(ignored))
{
    tree_forget(t);
    Py_RETURN_NONE;
}

static PyObject *
tree_statistics(GuardTree *t, PyObject *Py_UNUSED(ignored))
{
    Py_ssize_t recorded = 0;
    for (Py_ssize_t i = 0; i < t->n_levels; i++)
        recorded += t->levels[i].recorded;
    Py_ssize_t looks = 0;
    while (t->quiet.on && t->quiet.looks[looks] != LOOK_NO_FURTHER)
        looks++;
    return Py_BuildValue("{sn sn sn sn sn sn sK sK sK sK}", "nodes", t->n_nodes, "checks", t->n_checks, "levels", t->n_levels,
                         "recorded", recorded, "looks", t->quiet.on ? looks : -1,
                         "known", t->quiet.on && t->quiet.listed ? t->quiet.n_known : -1, "checked", t->checked, "evaluated", t->evaluated,
                         "callbacks", t->callbacks_run, "events", t->events);
}

static PyMethodDef tree_methods[] = {
    {"check", (PyCFunction)(void (*)(void))tree_check, METH_FASTCALL, "check(locals, function) -> do all guards hold?"},
    {"explain", (PyCFunction)(void (*)(void))tree_explain, METH_FASTCALL,
     "explain(locals, function) -> None, or what the explainer makes of the guard that fails"},
    {"values", (PyCFunction)(void (*)(void))tree_values, METH_FASTCALL,
     "values(locals, function) -> the outputs if all guards hold, else None"},
    {"forget", (PyCFunction)tree_forget_method, METH_NOARGS, "drop all records: the next check evaluates everything"},
    {"statistics", (PyCFunction)tree_statistics, METH_NOARGS, "counts of nodes, checks, levels and evaluations"},
    {NULL},
};

static PyMemberDef tree_members[] = {
    {"n_locals", T_PYSSIZET, offsetof(GuardTree, n_locals), READONLY, "how many locals are read"},
    {"callbacks", T_ULONGLONG, offsetof(GuardTree, callbacks_run), READONLY, "checks that ran Python code so far"},
    {NULL},
};

PyTypeObject GuardTree_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.GuardTree",
    .tp_basicsize = sizeof(GuardTree),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Guards compiled into one tree; see docs/guards.md.",
    .tp_new = tree_new,
    .tp_dealloc = (destructor)tree_dealloc,
    .tp_traverse = (traverseproc)tree_traverse,
    .tp_clear = (inquiry)tree_clear,
    .tp_methods = tree_methods,
    .tp_members = tree_members,
    .tp_weaklistoffset = offsetof(GuardTree, weakrefs),
};

/* ---- module ---- */

static const char *const source_names[] = {
#define X(name) #name,
    SOURCE_OPS(X)
#undef X
    NULL,
};

static const char *const check_names[] = {
#define X(name) #name,
    CHECK_OPS(X)
#undef X
    NULL,
};

static int
add_names(PyObject *module, const char *attribute, const char *const *names)
{
    Py_ssize_t n = 0;
    while (names[n] != NULL)
        n++;
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, name);
    }
    int status = PyModule_AddObjectRef(module, attribute, tuple);
    Py_XDECREF(tuple);
    return status;
}

int
guards_init(PyObject *module)
{
    if (PyType_Ready(&GuardTree_Type) < 0 || rebindings_init() < 0 || versions_init(module) < 0 || lowering_init() < 0
        || fetch_init() < 0)
        return -1;
    if (PyModule_AddObjectRef(module, "GuardTree", (PyObject *)&GuardTree_Type) < 0
        || add_names(module, "GUARD_SOURCES", source_names) < 0 || add_names(module, "GUARD_CHECKS", check_names) < 0
        || add_names(module, "GUARD_EXPRS", expr_names) < 0)
        return -1;
    return PyModule_AddFunctions(module, version_functions) < 0 || PyModule_AddFunctions(module, quiet_functions) < 0
            || PyModule_AddFunctions(module, tensor_functions) < 0
            || PyModule_AddFunctions(module, calibration_functions) < 0
            || PyModule_AddFunctions(module, state_functions) < 0
        ? -1
        : 0;
}

/* Direct calls: an entry whose target only hands inputs to a graph.
 *
 * The residual function of most captured functions is `return graph(…)[0]`. Such
 * a target also says so in a way that C code understands: what holds the graph,
 * which parameters and fetched values are its arguments, which of its outputs is
 * the result. An entry with it calls the graph at once, without the function's
 * frame and without a tuple of what is fetched, whose items would be counted up
 * and down again. Anybody else who calls the target calls the function; so does
 * an entry while a debugger or profiler watches, which is to see it.
 */
#include "calling.h"
#include "dispatch.h"

#define DIRECT_SMALL 16

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function; /* the same in Python */
    PyObject *cell;     /* holds the graph; what it holds may change */
    PyObject *failed;   /* called while an exception of the graph is handled */
    Py_ssize_t output;  /* of the graph, that is the result */
    Py_ssize_t n;
    int32_t *arguments; /* n: of parameters, or ~ of the guards' outputs */
} DirectCall;

static PyObject *
direct_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    return PyObject_Vectorcall(((DirectCall *)self)->function, args, nargsf, kwnames);
}

/* `except: failed(); raise`. */
static void
graph_failed(DirectCall *self)
{
    PyThreadState *ts = PyThreadState_Get();
    PyObject *error = take_exception();
    _PyErr_StackItem handled = {.exc_value = Py_NewRef(error), .previous_item = ts->exc_info};
    ts->exc_info = &handled;
    PyObject *result = PyObject_CallNoArgs(self->failed);
    ts->exc_info = handled.previous_item;
    Py_XDECREF(handled.exc_value);
    if (result == NULL) {
        Py_DECREF(error);
        return;
    }
    Py_DECREF(result);
    give_exception(error);
}

static PyObject *
chosen(PyObject *outputs, Py_ssize_t i)
{
    if (PyTuple_CheckExact(outputs) && i < PyTuple_GET_SIZE(outputs))
        return Py_NewRef(PyTuple_GET_ITEM(outputs, i));
    return PySequence_GetItem(outputs, i);
}

/* A Python function takes its own references to arguments before anything runs;
 * others rely on the caller's. */
static PyObject *
call_graph(PyObject *graph, PyObject **args, Py_ssize_t n)
{
    size_t nargsf = (size_t)n | PY_VECTORCALL_ARGUMENTS_OFFSET;
    if (PyFunction_Check(graph) && ((PyFunctionObject *)graph)->vectorcall == ordinary_vectorcall)
        return call_python(graph, args, nargsf, NULL);
    for (Py_ssize_t i = 0; i < n; i++)
        Py_INCREF(args[i]);
    PyObject *result = call_other(graph, args, nargsf);
    for (Py_ssize_t i = 0; i < n; i++)
        Py_DECREF(args[i]);
    return result;
}

/* Does anybody want to know which functions run? */
static inline int
is_watched(PyThreadState *ts)
{
    return ts->c_tracefunc != NULL || ts->c_profilefunc != NULL || is_monitored(ts);
}

static PyObject *
call_watched(Entry *entry, PyObject *const *values, size_t nvaluesf)
{
    PyObject *fetched = NULL;
    if (entry->fetch && !entry_fetch(entry, &fetched))
        return PyErr_NoMemory();
    return entry_call_function(entry, fetched, values, nvaluesf);
}

PyObject *
direct_call(Entry *entry, PyObject *const *values, size_t nvaluesf)
{
    DirectCall *self = (DirectCall *)entry->target;
    if (is_watched(PyThreadState_Get()))
        return call_watched(entry, values, nvaluesf);
    PyObject *graph = PyCell_GET(self->cell), *small[DIRECT_SMALL + 1], **args = small;
    if (graph == NULL) {
        PyErr_SetString(PyExc_SystemError, "stator: the graph of a direct call is gone");
        return NULL;
    }
    if (self->n > DIRECT_SMALL && (args = PyMem_Malloc((self->n + 1) * sizeof *args)) == NULL)
        return PyErr_NoMemory();
    Fetched fetched = entry->guards == NULL ? (Fetched){NULL, NULL, 0} : guard_tree_fetched(entry->guards);
    for (Py_ssize_t i = 0; i < self->n; i++) {
        int32_t from = self->arguments[i];
        args[i + 1] = from >= 0 ? values[from] : fetched.values[fetched.places[~from]];
    }
    Py_INCREF(graph);
    PyObject *made = call_graph(graph, args + 1, self->n);
    if (args != small)
        PyMem_Free(args);
    PyObject *result = made == NULL ? NULL : chosen(made, self->output);
    Py_XDECREF(made);
    if (result == NULL)
        graph_failed(self);
    Py_DECREF(graph);
    return result;
}

/* Does the target find all it wants in such an entry? */
int
direct_fits(PyObject *target, PyObject *guards, Py_ssize_t n_parameters, int fetch, int tails)
{
    DirectCall *self = (DirectCall *)target;
    Py_ssize_t n_outputs = fetch && guards != NULL ? guard_tree_fetched(guards).n : 0;
    for (Py_ssize_t i = 0; i < self->n; i++) {
        int32_t from = self->arguments[i];
        if (from >= 0 ? from >= n_parameters : ~from >= n_outputs)
            return 0;
    }
    return !tails;
}

/* ---- the type ---- */

static PyObject *
direct_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "graph", "arguments", "output", "failed", NULL};
    PyObject *function, *cell, *arguments, *failed;
    Py_ssize_t output;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!nO:DirectCall", names, &PyFunction_Type, &function,
                                     &PyCell_Type, &cell, &PyTuple_Type, &arguments, &output, &failed))
        return NULL;
    DirectCall *self = (DirectCall *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = direct_vectorcall;
    self->function = Py_NewRef(function);
    self->cell = Py_NewRef(cell);
    self->failed = Py_NewRef(failed);
    self->output = output;
    self->n = PyTuple_GET_SIZE(arguments);
    self->arguments = PyMem_Calloc(self->n + 1, sizeof *self->arguments);
    if (self->arguments == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < self->n; i++) {
        long from = PyLong_AsLong(PyTuple_GET_ITEM(arguments, i));
        if (from < INT32_MIN || from > INT32_MAX)
            PyErr_SetString(PyExc_OverflowError, "arguments are numbers of parameters, or ~ those of what is fetched");
        if (PyErr_Occurred()) {
            Py_DECREF(self);
            return NULL;
        }
        self->arguments[i] = (int32_t)from;
    }
    return (PyObject *)self;
}

static int
direct_traverse(DirectCall *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->cell);
    Py_VISIT(self->failed);
    return 0;
}

/* Nothing is cleared: it is in no cycle that the function or the cell is not in. */
static void
direct_dealloc(DirectCall *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->function);
    Py_XDECREF(self->cell);
    Py_XDECREF(self->failed);
    PyMem_Free(self->arguments);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef direct_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(DirectCall, vectorcall), READONLY, NULL},
    {"function", T_OBJECT_EX, offsetof(DirectCall, function), READONLY, "the residual function"},
    {NULL},
};

PyTypeObject DirectCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.DirectCall",
    .tp_doc = "DirectCall(function, graph, arguments, output, failed)\n--\n\n"
              "A target that only calls the graph in a cell: `function`, for those who have no faster way.",
    .tp_basicsize = sizeof(DirectCall),
    .tp_vectorcall_offset = offsetof(DirectCall, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = direct_new,
    .tp_dealloc = (destructor)direct_dealloc,
    .tp_traverse = (traverseproc)direct_traverse,
    .tp_members = direct_members,
};

int
direct_init(PyObject *module)
{
    return PyModule_AddType(module, &DirectCall_Type);
}

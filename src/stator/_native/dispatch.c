/* CompiledFunction: what stands in a program in place of a compiled function.
 *
 * A call binds its arguments, looks for the first entry whose guards hold and
 * calls that entry's target with the bound parameters. When no entry fits it
 * calls `miss`, which compiles. All of it is C between the caller's frame and
 * the target's: no frame of ours shows in a traceback.
 *
 * Guards may call back into Python and targets run the program, so anything
 * can happen to this object in between: entries come and go, the function gets
 * another __code__, another thread calls. Nothing below looks at a borrowed
 * pointer across such a point except what the caller of a vectorcall keeps
 * alive: the callable itself and the arguments.
 */
#include "calling.h"
#include "dispatch.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyFunctionObject *function;
    PyCodeObject *code; /* of the function, when `own` was made */
    Py_ssize_t plain;   /* positional arguments that are the bound parameters as they are; -1: none */
    Bucket *own;
    Bucket *shared;     /* tried after `own`, never written; or NULL */
    PyObject *miss;     /* miss(compiled, bound) -> result, Entry or CALL_ORIGINAL */
    PyObject *name;
    PyObject *dict;
    PyObject *weakrefs;
    unsigned long long hits, misses;
} CompiledFunction;

/* ---- the mode: one for the process ---- */

enum {
    MODE_DISPATCH = 0, /* entries, then miss */
    MODE_EAGER = 1,    /* the wrapped function */
    MODE_MISS = 2,     /* always miss */
};

static int mode = MODE_DISPATCH;

/* What miss returns to have the wrapped function called. */
static PyObject *call_original;

/* What a target raises for the same: an exception type, whose argument is called
 * when that function has returned. */
static PyObject *run_original;

/* ---- calling ---- */

/* Steals the references; that to the entry keeps its target alive meanwhile. */
static inline PyObject *
call_entry(Entry *entry, PyObject *fetched, PyObject *const *values, size_t nvaluesf, Left *left)
{
    *left = left_by(entry);
    PyObject *result = fetched == NULL && !entry->direct ? call(entry->target, values, nvaluesf)
                                                         : entry_call(entry, fetched, values, nvaluesf);
    Py_DECREF(entry);
    return result;
}

/* ---- tail calls ----
 *
 * The target of an entry that `tails` returns a tuple: a compiled function and
 * the arguments to call it with, after the target's own frame is gone; or None
 * and the result. So a program that is split in a loop needs no more stack than
 * one that is not. No such tuple ever reaches the program.
 *
 * If nothing can have changed torch's state since an entry's guards held, the
 * next entry's need not ask for it. They do now and then: a signal's handler may
 * do anything.
 */

#define ASK_AGAIN 8

static PyObject *call_one(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames, Left *left);

PyObject *
dispatch_finish(PyObject *result, Left left)
{
    unsigned n_calls = 0;
    while (result != NULL && left.tails) {
        PyObject *next = result;
        if (!PyTuple_CheckExact(next) || PyTuple_GET_SIZE(next) < 1) {
            PyErr_SetString(PyExc_SystemError, "stator: the target of a tailing entry did not return a tuple");
            result = NULL;
        }
        else if (Py_IS_TYPE(PyTuple_GET_ITEM(next, 0), &CompiledFunction_Type)) {
            PyObject **items = ((PyTupleObject *)next)->ob_item;
            size_t n = (size_t)PyTuple_GET_SIZE(next) - 1;
            PyObject_GC_UnTrack(next); /* the callee may use items[0] meanwhile */
            if (++n_calls % ASK_AGAIN == 0)
                left.state = 0;
            result = call_one(items[0], items + 1, n | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL, &left);
        }
        else {
            result = Py_NewRef(PyTuple_GET_ITEM(next, PyTuple_GET_SIZE(next) - 1));
            left.tails = 0;
        }
        Py_DECREF(next);
    }
    return result;
}

/* ---- finding an entry ---- */

/* The function has another __code__: what was compiled for the old one is void. */
static int
follow_code(CompiledFunction *self)
{
    PyCodeObject *code = (PyCodeObject *)self->function->func_code;
    if (self->code == code)
        return 0;
    Py_INCREF(code);
    Bucket *own = bucket_new(code);
    if (own == NULL) {
        Py_DECREF(code);
        return -1;
    }
    PyCodeObject *old_code = self->code;
    Bucket *old_own = self->own;
    int binds = code->co_kwonlyargcount > 0 || (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
    self->code = code;
    self->own = own;
    self->plain = binds ? -1 : code->co_argcount;
    Py_XDECREF(old_code);
    Py_XDECREF(old_own);
    return 0;
}

static Entry *
search_on(CompiledFunction *self, Entry *tried, PyCodeObject *code, PyObject *const *values, PyObject *function,
          PyObject **fetched)
{
    Entry *entry = NULL;
    if (self->own->code == code)
        entry = bucket_search(self->own, tried, 1, values, function, fetched);
    if (entry == NULL && self->shared != NULL && self->shared->code == code)
        entry = bucket_search(self->shared, tried, 0, values, function, fetched);
    return entry;
}

/* `code` is the one whose parameters `values` are: the function may have got
 * another one meanwhile, whose entries read other values. */
static Py_ALWAYS_INLINE inline Entry *
find_entry(CompiledFunction *self, PyCodeObject *code, PyObject *const *values, PyObject *function, unsigned known,
           PyObject **fetched)
{
    Entry *first = NULL;
    if (self->own->code == code && self->own->index == NULL && PyTuple_GET_SIZE(self->own->entries) > 0) {
        first = (Entry *)Py_NewRef(PyTuple_GET_ITEM(self->own->entries, 0));
        if (entry_holds(first, values, function, known, fetched))
            return first;
    }
    Entry *entry = search_on(self, first, code, values, function, fetched);
    Py_XDECREF(first);
    return entry;
}

static inline void
count_hit(CompiledFunction *self, Entry *entry)
{
    self->hits++;
    entry->hits++;
}

Entry *
dispatch_find(PyObject *compiled, PyObject *const *locals, PyObject *function, PyObject **fetched)
{
    CompiledFunction *self = (CompiledFunction *)compiled;
    *fetched = NULL;
    if (mode != MODE_DISPATCH || ((PyFunctionObject *)function)->func_code != (PyObject *)self->code)
        return NULL;
    Entry *entry = find_entry(self, self->code, locals, function, 0, fetched);
    if (entry != NULL)
        count_hit(self, entry);
    return entry;
}

/* ---- the call ---- */

typedef struct {
    PyObject *const *args;
    size_t nargsf;
    PyObject *kwnames;
} Arguments;

static PyObject *
call_wrapped(CompiledFunction *self, const Arguments *given)
{
    return call_python((PyObject *)self->function, given->args, given->nargsf, given->kwnames);
}

int
dispatch_is_run_original(PyObject **report)
{
    PyObject *type, *value, *traceback;
    *report = NULL;
    if (!PyErr_ExceptionMatches(run_original))
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && PyExceptionInstance_Check(value)) {
        PyObject *args = ((PyBaseExceptionObject *)value)->args;
        if (args != NULL && PyTuple_GET_SIZE(args) > 0)
            *report = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return 1;
}

void
dispatch_report(PyObject *report, PyObject *result)
{
    if (report != NULL && result != NULL) {
        PyObject *done = PyObject_CallNoArgs(report);
        if (done == NULL)
            PyErr_WriteUnraisable(report);
        Py_XDECREF(done);
    }
    Py_XDECREF(report);
}

/* What an entry's target has returned or raised; the wrapped function's result if
 * the target left it to that. */
static Py_ALWAYS_INLINE inline PyObject *
settled(CompiledFunction *self, PyObject *result, const Arguments *given, Left *left)
{
    PyObject *report;
    if (__builtin_expect(result != NULL, 1) || !dispatch_is_run_original(&report))
        return result;
    left->tails = 0;
    result = call_wrapped(self, given);
    dispatch_report(report, result);
    return result;
}

/* What the target of an entry that miss returned takes first; 0, or -1 with an
 * exception. Its guards have not been evaluated yet. */
static int
fetch_for_miss(CompiledFunction *self, Entry *entry, PyObject *bound, PyObject *const *values, PyObject **fetched)
{
    *fetched = NULL;
    if (!entry->fetch)
        return 0;
    if (entry->guards != NULL && guard_tree_locals(entry->guards) > PyTuple_GET_SIZE(bound)) {
        PyErr_Format(PyExc_SystemError, "stator: miss returned an entry of another function: %R", entry);
        return -1;
    }
    if (entry_holds(entry, values, (PyObject *)self->function, 0, fetched))
        return 0;
    entry_invalid(entry, bound, (PyObject *)self->function);
    return -1;
}

static PyObject *
call_miss(CompiledFunction *self, PyObject *const *values, size_t nvaluesf, const Arguments *given, Left *left)
{
    Py_ssize_t n = PyVectorcall_NARGS(nvaluesf);
    PyObject *bound = PyTuple_New(n);
    if (bound == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        PyTuple_SET_ITEM(bound, i, Py_NewRef(values[i]));
    self->misses++;
    PyObject *miss_args[] = {NULL, (PyObject *)self, bound};
    PyObject *miss = Py_NewRef(self->miss);
    PyObject *result = call(miss, miss_args + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET);
    Py_DECREF(miss);
    if (result != NULL && Py_IS_TYPE(result, &Entry_Type)) {
        PyObject *fetched;
        int status = fetch_for_miss(self, (Entry *)result, bound, values, &fetched);
        Py_DECREF(bound);
        if (status == 0)
            return settled(self, call_entry((Entry *)result, fetched, values, nvaluesf, left), given, left);
        Py_DECREF(result);
        return NULL;
    }
    Py_DECREF(bound);
    if (result == call_original) {
        Py_DECREF(result);
        return call_wrapped(self, given);
    }
    return result;
}

static PyObject *
call_with(CompiledFunction *self, PyCodeObject *code, PyObject *const *values, size_t nvaluesf,
          const Arguments *given, Left *left)
{
    if (mode == MODE_DISPATCH) {
        PyObject *fetched = NULL;
        Entry *entry = find_entry(self, code, values, (PyObject *)self->function, 0, &fetched);
        if (entry != NULL) {
            count_hit(self, entry);
            return settled(self, call_entry(entry, fetched, values, nvaluesf, left), given, left);
        }
    }
    return call_miss(self, values, nvaluesf, given, left);
}

/* Everything but the plain case: another mode, another code, real binding. */
static PyObject *
call_generally(CompiledFunction *self, const Arguments *given, Left *left)
{
    if (mode == MODE_EAGER)
        return call_wrapped(self, given);
    if (follow_code(self) < 0)
        return NULL;
    Py_ssize_t nargs = PyVectorcall_NARGS(given->nargsf);
    if (given->kwnames == NULL && nargs == self->plain)
        return call_with(self, self->code, given->args, given->nargsf, given, left);
    Binding b;
    if (!binding_fill(&b, self->function, given->args, nargs, given->kwnames))
        return call_wrapped(self, given);
    PyObject *result
        = call_with(self, b.code, b.values, (size_t)b.n | PY_VECTORCALL_ARGUMENTS_OFFSET, given, left);
    binding_release(&b);
    return result;
}

static PyObject *
call_one(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames, Left *left)
{
    unsigned known = left->state;
    *left = (Left){0, 0};
    CompiledFunction *self = (CompiledFunction *)callable;
    if (mode == MODE_DISPATCH && kwnames == NULL && PyVectorcall_NARGS(nargsf) == self->plain
        && self->function->func_code == (PyObject *)self->code) {
        PyObject *fetched = NULL;
        Entry *entry = find_entry(self, self->code, args, (PyObject *)self->function, known, &fetched);
        if (entry != NULL) {
            count_hit(self, entry);
            return settled(self, call_entry(entry, fetched, args, nargsf, left), &(Arguments){args, nargsf, NULL},
                           left);
        }
        return call_miss(self, args, nargsf, &(Arguments){args, nargsf, NULL}, left);
    }
    return call_generally(self, &(Arguments){args, nargsf, kwnames}, left);
}

static PyObject *
compiled_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Left left = {0, 0};
    PyObject *result = call_one(callable, args, nargsf, kwnames, &left);
    return left.tails ? dispatch_finish(result, left) : result;
}

/* ---- life ---- */

static PyObject *
checked_bucket(PyObject *object, PyObject *code, const char *parameter)
{
    if (!Py_IS_TYPE(object, &Bucket_Type)) {
        PyErr_Format(PyExc_TypeError, "%s must be a Bucket or None, not %.200s", parameter, Py_TYPE(object)->tp_name);
        return NULL;
    }
    if (((Bucket *)object)->code != (PyCodeObject *)code) {
        PyErr_Format(PyExc_ValueError, "%s is for another code object: %R", parameter, object);
        return NULL;
    }
    return object;
}

static PyObject *
compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "miss", "name", "bucket", "shared", NULL};
    PyObject *function, *miss, *name = Py_None, *bucket = Py_None, *shared = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|$OOO:CompiledFunction", names, &PyFunction_Type, &function,
                                     &miss, &name, &bucket, &shared))
        return NULL;
    if (!PyCallable_Check(miss)) {
        PyErr_Format(PyExc_TypeError, "miss must be callable, not %.200s", Py_TYPE(miss)->tp_name);
        return NULL;
    }
    if (name != Py_None && !PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "name must be a string or None, not %.200s", Py_TYPE(name)->tp_name);
        return NULL;
    }
    PyObject *code = ((PyFunctionObject *)function)->func_code;
    if ((bucket != Py_None && checked_bucket(bucket, code, "bucket") == NULL)
        || (shared != Py_None && checked_bucket(shared, code, "shared") == NULL))
        return NULL;
    CompiledFunction *self = (CompiledFunction *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = compiled_vectorcall;
    self->function = (PyFunctionObject *)Py_NewRef(function);
    self->miss = Py_NewRef(miss);
    self->name = Py_NewRef(name);
    if (follow_code(self) < 0)
        goto error;
    if (bucket != Py_None)
        Py_SETREF(self->own, (Bucket *)Py_NewRef(bucket));
    if (shared != Py_None && shared != bucket)
        self->shared = (Bucket *)Py_NewRef(shared);
    /* As functools.update_wrapper(): what was set on the function is set here. */
    PyObject *attributes = ((PyFunctionObject *)function)->func_dict;
    if (attributes != NULL && PyDict_GET_SIZE(attributes) > 0) {
        self->dict = PyDict_Copy(attributes);
        if (self->dict == NULL)
            goto error;
    }
    return (PyObject *)self;
error:
    Py_DECREF(self);
    return NULL;
}

static int
compiled_traverse(CompiledFunction *self, visitproc visit, void *arg)
{
    Py_VISIT(self->function);
    Py_VISIT(self->code);
    Py_VISIT(self->own);
    Py_VISIT(self->shared);
    Py_VISIT(self->miss);
    Py_VISIT(self->name);
    Py_VISIT(self->dict);
    return 0;
}

/* Leaves an object that can be called: a finalizer of the same garbage may do
 * that. The function and the buckets clear themselves when they are garbage
 * too; a bucket may also be another's. */
static int
compiled_clear(CompiledFunction *self)
{
    Py_CLEAR(self->shared);
    Py_CLEAR(self->dict);
    Py_XSETREF(self->miss, Py_NewRef(Py_None));
    return 0;
}

static void
compiled_dealloc(CompiledFunction *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    Py_CLEAR(self->function);
    Py_CLEAR(self->code);
    Py_CLEAR(self->own);
    Py_CLEAR(self->shared);
    Py_CLEAR(self->miss);
    Py_CLEAR(self->name);
    Py_CLEAR(self->dict);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ---- the face of a function ----
 *
 * As after functools.wraps(): __name__, __qualname__, __doc__ and __module__
 * are the function's until they are set on the wrapper. What says how to call
 * it (__defaults__, __code__ ...) is the function's own: there is one of each.
 */

static PyObject *
face_get(CompiledFunction *self, void *closure)
{
    PyObject *value = self->dict == NULL ? NULL : PyDict_GetItemString(self->dict, closure);
    if (value != NULL)
        return Py_NewRef(value);
    return PyObject_GetAttrString((PyObject *)self->function, closure);
}

static int
face_set(CompiledFunction *self, PyObject *value, void *closure)
{
    PyObject *dict = PyObject_GenericGetDict((PyObject *)self, NULL);
    if (dict == NULL)
        return -1;
    int status = value != NULL ? PyDict_SetItemString(dict, closure, value) : PyDict_DelItemString(dict, closure);
    Py_DECREF(dict);
    if (status < 0 && value == NULL && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_SetString(PyExc_AttributeError, closure);
    return status;
}

static PyObject *
function_get(CompiledFunction *self, void *closure)
{
    return PyObject_GetAttrString((PyObject *)self->function, closure);
}

static int
function_set(CompiledFunction *self, PyObject *value, void *closure)
{
    return PyObject_SetAttrString((PyObject *)self->function, closure, value);
}

static PyObject *
compiled_descr_get(PyObject *self, PyObject *object, PyObject *Py_UNUSED(type))
{
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyObject *
compiled_repr(CompiledFunction *self)
{
    PyObject *name = self->name != Py_None ? Py_NewRef(self->name) : face_get(self, "__qualname__");
    if (name == NULL)
        return NULL;
    PyObject *text = PyUnicode_FromFormat("<compiled function %S at %p>", name, self);
    Py_DECREF(name);
    return text;
}

/* A string is the name of a global: pickle refers to it, copy returns the
 * object itself, both as they do for functions. */
static PyObject *
compiled_reduce(CompiledFunction *self, PyObject *Py_UNUSED(ignored))
{
    return face_get(self, "__qualname__");
}

/* ---- entries, for the driver ---- */

static PyObject *
compiled_add_entry(CompiledFunction *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"guards", "target", "bucket", "fetch", "tails", "steady", NULL};
    PyObject *guards, *target, *bucket = Py_None;
    int fetch = 0, tails = 0, steady = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$Oppp:add_entry", names, &guards, &target, &bucket, &fetch, &tails,
                                     &steady))
        return NULL;
    if (follow_code(self) < 0)
        return NULL;
    if (bucket == Py_None)
        bucket = (PyObject *)self->own;
    else if (!Py_IS_TYPE(bucket, &Bucket_Type)) {
        PyErr_Format(PyExc_TypeError, "bucket must be a Bucket or None, not %.200s", Py_TYPE(bucket)->tp_name);
        return NULL;
    }
    Py_INCREF(bucket);
    PyObject *entry = bucket_add((Bucket *)bucket, guards, target, fetch, tails, steady);
    Py_DECREF(bucket);
    return entry;
}

/* The own bucket for the function's code as it is now: a new reference. */
static Bucket *
own_bucket(CompiledFunction *self)
{
    return follow_code(self) < 0 ? NULL : (Bucket *)Py_NewRef((PyObject *)self->own);
}

static PyObject *
compiled_remove_entry(CompiledFunction *self, PyObject *entry)
{
    Bucket *own = own_bucket(self);
    if (own == NULL)
        return NULL;
    int removed = bucket_remove(own, entry);
    Py_DECREF(own);
    return removed < 0 ? NULL : PyBool_FromLong(removed);
}

static PyObject *
compiled_clear_entries(CompiledFunction *self, PyObject *Py_UNUSED(ignored))
{
    Bucket *own = own_bucket(self);
    if (own == NULL)
        return NULL;
    bucket_clear(own);
    Py_DECREF(own);
    Py_RETURN_NONE;
}

static PyObject *
compiled_entries(CompiledFunction *self, PyObject *Py_UNUSED(ignored))
{
    return follow_code(self) < 0 ? NULL : Py_NewRef(self->own->entries);
}

static PyObject *
compiled_find(CompiledFunction *self, PyObject *bound)
{
    if (!PyTuple_Check(bound)) {
        PyErr_Format(PyExc_TypeError, "find() needs the tuple of bound parameters, not %.200s", Py_TYPE(bound)->tp_name);
        return NULL;
    }
    if (follow_code(self) < 0)
        return NULL;
    if (PyTuple_GET_SIZE(bound) != parameter_count(self->code)) {
        PyErr_Format(PyExc_ValueError, "%U has %zd parameters, %zd values were given", self->code->co_qualname,
                     parameter_count(self->code), PyTuple_GET_SIZE(bound));
        return NULL;
    }
    Entry *entry = find_entry(self, self->code, &PyTuple_GET_ITEM(bound, 0), (PyObject *)self->function, 0, NULL);
    return entry == NULL ? Py_NewRef(Py_None) : (PyObject *)entry;
}

static PyObject *
compiled_statistics(CompiledFunction *self, PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{sKsK}", "hits", self->hits, "misses", self->misses);
}

static PyObject *
compiled_get_bucket(CompiledFunction *self, void *Py_UNUSED(closure))
{
    return (PyObject *)own_bucket(self);
}

static PyObject *
compiled_get_shared(CompiledFunction *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->shared == NULL ? Py_None : (PyObject *)self->shared);
}

static PyObject *
compiled_aot_compile(CompiledFunction *self, PyObject *inputs)
{
    return PyObject_CallMethod(self->miss, "aot_compile", "OO", (PyObject *)self, inputs);
}

static PyMethodDef compiled_methods[] = {
    {"aot_compile", (PyCFunction)compiled_aot_compile, METH_O,
     "aot_compile((args, kwargs)) -> what was compiled for such a call, which is not made (docs/cache.md)"},
    {"add_entry", (PyCFunction)(void (*)(void))compiled_add_entry, METH_VARARGS | METH_KEYWORDS,
     "add_entry(guards, target, *, bucket=None, fetch=False) -> Entry, tried first; bucket is the own one unless "
     "given; with fetch, dispatch calls target(fetched, *bound)"},
    {"remove_entry", (PyCFunction)compiled_remove_entry, METH_O, "remove_entry(entry) -> was it in the own bucket"},
    {"clear", (PyCFunction)compiled_clear_entries, METH_NOARGS, "clear(): remove all entries of the own bucket"},
    {"entries", (PyCFunction)compiled_entries, METH_NOARGS, "entries() -> tuple of those of the own bucket, in order"},
    {"find", (PyCFunction)compiled_find, METH_O, "find(bound) -> the Entry a call with these parameters would run, or None"},
    {"statistics", (PyCFunction)compiled_statistics, METH_NOARGS, "statistics() -> {'hits': int, 'misses': int}"},
    {"__reduce__", (PyCFunction)compiled_reduce, METH_NOARGS, "by qualified name, as for functions"},
    {NULL},
};

static PyMemberDef compiled_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(CompiledFunction, function), READONLY, "the original function"},
    {"miss", T_OBJECT_EX, offsetof(CompiledFunction, miss), READONLY, "called when no entry fits"},
    {"name", T_OBJECT_EX, offsetof(CompiledFunction, name), READONLY, "what to call it in reports, or None"},
    {NULL},
};

#define FACE(name) {name, (getter)face_get, (setter)face_set, NULL, name}
#define FUNCTION(name) {name, (getter)function_get, (setter)function_set, NULL, name}

static PyGetSetDef compiled_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"bucket", (getter)compiled_get_bucket, NULL, "the own Bucket", NULL},
    {"shared", (getter)compiled_get_shared, NULL, "the Bucket tried after the own one, or None", NULL},
    FACE("__name__"),
    FACE("__qualname__"),
    FACE("__doc__"),
    FACE("__module__"),
    FUNCTION("__defaults__"),
    FUNCTION("__kwdefaults__"),
    FUNCTION("__annotations__"),
    FUNCTION("__annotate__"),
    FUNCTION("__code__"),
    FUNCTION("__closure__"),
    FUNCTION("__globals__"),
    FUNCTION("__builtins__"),
    FUNCTION("__type_params__"),
    {NULL},
};

PyTypeObject CompiledFunction_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.CompiledFunction",
    .tp_doc = "CompiledFunction(function, miss, *, name=None, bucket=None, shared=None)\n--\n\n"
              "A function that stator compiles. It is called like the function it was made of,\n"
              "which is its __wrapped__, and does what that does: with name, signature, docstring\n"
              "and attributes of that function.\n\n"
              "A call runs what was compiled for arguments like these, if its guards hold, and\n"
              "compiles the function for them otherwise. stator.explain(function)(*args) tells\n"
              "what becomes of a call.",
    .tp_basicsize = sizeof(CompiledFunction),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_new = compiled_new,
    .tp_dealloc = (destructor)compiled_dealloc,
    .tp_traverse = (traverseproc)compiled_traverse,
    .tp_clear = (inquiry)compiled_clear,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(CompiledFunction, vectorcall),
    .tp_descr_get = compiled_descr_get,
    .tp_repr = (reprfunc)compiled_repr,
    .tp_methods = compiled_methods,
    .tp_members = compiled_members,
    .tp_getset = compiled_getset,
    .tp_dictoffset = offsetof(CompiledFunction, dict),
    .tp_weaklistoffset = offsetof(CompiledFunction, weakrefs),
};

/* ---- module functions ---- */

static PyObject *
set_mode(PyObject *Py_UNUSED(module), PyObject *value)
{
    long wanted = PyLong_AsLong(value);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    if (wanted < MODE_DISPATCH || wanted > MODE_MISS) {
        PyErr_Format(PyExc_ValueError, "no mode %ld", wanted);
        return NULL;
    }
    PyObject *previous = PyLong_FromLong(mode);
    if (previous != NULL)
        mode = (int)wanted;
    return previous;
}

static PyObject *
get_mode(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(mode);
}

PyMethodDef dispatch_functions[] = {
    {"set_mode", set_mode, METH_O, "set_mode(mode) -> the previous one; what all compiled functions do when called"},
    {"get_mode", get_mode, METH_NOARGS, "get_mode() -> int"},
    {NULL},
};

static PyObject *
call_original_repr(PyObject *Py_UNUSED(self))
{
    return PyUnicode_FromString("CALL_ORIGINAL");
}

static PyTypeObject CallOriginal_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.CallOriginal",
    .tp_doc = "Returned by a miss callback to have the wrapped function called.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = call_original_repr,
};

int
dispatch_init(PyObject *module)
{
    if (calling_init() < 0 || entries_init(module) < 0 || PyType_Ready(&CompiledFunction_Type) < 0
        || PyType_Ready(&CallOriginal_Type) < 0)
        return -1;
    call_original = PyObject_New(PyObject, &CallOriginal_Type);
    if (call_original == NULL)
        return -1;
    run_original = PyErr_NewExceptionWithDoc(
        "stator._native._core.RunOriginal",
        "Raised by the target of an entry, when nothing has happened yet, to have the wrapped function called.",
        PyExc_BaseException, NULL);
    if (run_original == NULL || PyModule_AddObjectRef(module, "RunOriginal", run_original) < 0)
        return -1;
    if (PyModule_AddFunctions(module, entries_functions) < 0
        || PyModule_AddObjectRef(module, "CALL_ORIGINAL", call_original) < 0
        || PyModule_AddIntConstant(module, "MODE_DISPATCH", MODE_DISPATCH) < 0
        || PyModule_AddIntConstant(module, "MODE_EAGER", MODE_EAGER) < 0
        || PyModule_AddIntConstant(module, "MODE_MISS", MODE_MISS) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "CompiledFunction", (PyObject *)&CompiledFunction_Type);
}

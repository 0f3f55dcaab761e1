/* Entries in buckets, and what is found by code object.
 *
 * A bucket's entries are an immutable tuple that is replaced as a whole, so a
 * reader needs a reference to it and nothing else: no lock, whatever other
 * threads, guards or targets do to the bucket meanwhile. Allocation may run
 * the garbage collector and with it any code, so each change allocates first
 * and reads the current tuple only then.
 */
#include "calling.h"
#include "dispatch.h"

/* ---- Entry ---- */

static int
entry_traverse(Entry *self, visitproc visit, void *arg)
{
    Py_VISIT(self->guards);
    Py_VISIT(self->target);
    return 0;
}

static int
entry_clear(Entry *self)
{
    self->direct = 0;
    Py_CLEAR(self->guards);
    Py_CLEAR(self->target);
    return 0;
}

static void
entry_dealloc(Entry *self)
{
    PyObject_GC_UnTrack(self);
    entry_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
entry_repr(Entry *self)
{
    return PyUnicode_FromFormat("<Entry for %R, %llu hits>", self->target, self->hits);
}

static PyObject *
entry_get_guards(Entry *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->guards == NULL ? Py_None : self->guards);
}

static PyGetSetDef entry_getset[] = {
    {"guards", (getter)entry_get_guards, NULL, "the GuardTree, or None: always valid", NULL},
    {NULL},
};

static PyMemberDef entry_members[] = {
    {"target", T_OBJECT_EX, offsetof(Entry, target), READONLY, "what runs: takes all bound parameters positionally"},
    {"tails", T_BOOL, offsetof(Entry, tails), READONLY, "does the target return what to call next"},
    {"steady", T_BOOL, offsetof(Entry, steady), READONLY, "does what it does leave torch's state as the guards found it"},
    {"direct", T_BOOL, offsetof(Entry, direct), READONLY, "is the target's graph called without its function"},
    {"fetch", T_BOOL, offsetof(Entry, fetch), READONLY, "does the target take the tuple of the guards' outputs first"},
    {"hits", T_ULONGLONG, offsetof(Entry, hits), READONLY, "how often this entry was chosen"},
    {NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.Entry",
    .tp_doc = "One compiled variant of a function: the guards under which it is valid, and what runs.",
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)entry_dealloc,
    .tp_traverse = (traverseproc)entry_traverse,
    .tp_clear = (inquiry)entry_clear,
    .tp_repr = (reprfunc)entry_repr,
    .tp_getset = entry_getset,
    .tp_members = entry_members,
};

static Entry *
entry_new(PyCodeObject *code, PyObject *guards, PyObject *target, int fetch, int tails, int steady)
{
    if (guards != Py_None && !PyObject_TypeCheck(guards, &GuardTree_Type)) {
        PyErr_Format(PyExc_TypeError, "guards must be a GuardTree or None, not %.200s", Py_TYPE(guards)->tp_name);
        return NULL;
    }
    if (guards != Py_None && guard_tree_locals(guards) > parameter_count(code)) {
        PyErr_Format(PyExc_ValueError, "the guards read %zd parameters; %U has %zd", guard_tree_locals(guards),
                     code->co_qualname, parameter_count(code));
        return NULL;
    }
    if (!PyCallable_Check(target)) {
        PyErr_Format(PyExc_TypeError, "target must be callable, not %.200s", Py_TYPE(target)->tp_name);
        return NULL;
    }
    Entry *self = (Entry *)Entry_Type.tp_alloc(&Entry_Type, 0);
    if (self != NULL) {
        self->guards = guards == Py_None ? NULL : Py_NewRef(guards);
        self->target = Py_NewRef(target);
        self->fetch = (char)fetch;
        self->tails = (char)tails;
        self->steady = (char)steady;
        self->direct = Py_IS_TYPE(target, &DirectCall_Type)
            && direct_fits(target, self->guards, parameter_count(code), fetch, tails);
    }
    return self;
}

/* ---- running an entry ---- */

int
entry_fetch(Entry *entry, PyObject **fetched)
{
    *fetched = entry->guards == NULL ? PyTuple_New(0) : guard_tree_outputs(entry->guards);
    if (*fetched == NULL)
        PyErr_Clear();
    return *fetched != NULL;
}

PyObject *
entry_call(Entry *entry, PyObject *fetched, PyObject *const *values, size_t nvaluesf)
{
    return entry->direct ? direct_call(entry, values, nvaluesf)
                         : entry_call_function(entry, fetched, values, nvaluesf);
}

PyObject *
entry_call_function(Entry *entry, PyObject *fetched, PyObject *const *values, size_t nvaluesf)
{
    if (fetched == NULL)
        return call(entry->target, values, nvaluesf);
    Py_ssize_t n = PyVectorcall_NARGS(nvaluesf);
    PyObject *result = NULL;
    if (nvaluesf & PY_VECTORCALL_ARGUMENTS_OFFSET) { /* the element before is ours for the call */
        PyObject **with = (PyObject **)values - 1;
        PyObject *before = with[0];
        with[0] = fetched;
        result = call(entry->target, with, n + 1);
        with[0] = before;
    }
    else {
        PyObject *small[BINDING_SMALL], **with = small;
        if (n + 1 > BINDING_SMALL)
            with = PyMem_Malloc((n + 1) * sizeof *with);
        if (with == NULL)
            PyErr_NoMemory();
        else {
            with[0] = fetched;
            memcpy(with + 1, values, n * sizeof *with);
            result = call(entry->target, with, n + 1);
        }
        if (with != small)
            PyMem_Free(with);
    }
    Py_DECREF(fetched);
    return result;
}

void
entry_invalid(Entry *entry, PyObject *bound, PyObject *function)
{
    PyObject *why = entry->guards == NULL
        ? PyErr_NoMemory() /* then it always holds */
        : PyObject_CallMethod(entry->guards, "explain", "OO", bound, function);
    if (why == NULL)
        return;
    PyErr_Format(PyExc_SystemError,
                 "stator: what was compiled for a call of %U is not valid for that call: %S. "
                 "This is a bug; please report it.",
                 ((PyFunctionObject *)function)->func_qualname, why);
    Py_DECREF(why);
}

/* ---- changing a bucket ---- */

Bucket *
bucket_new(PyCodeObject *code)
{
    PyObject *none = PyTuple_New(0);
    if (none == NULL)
        return NULL;
    Bucket *self = (Bucket *)Bucket_Type.tp_alloc(&Bucket_Type, 0);
    if (self == NULL) {
        Py_DECREF(none);
        return NULL;
    }
    self->code = (PyCodeObject *)Py_NewRef((PyObject *)code);
    self->entries = none;
    return self;
}

static Py_ssize_t
entry_index(PyObject *entries, PyObject *entry)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++)
        if (PyTuple_GET_ITEM(entries, i) == entry)
            return i;
    return -1;
}

/* A tuple with room for the bucket's entries and `more`. When it is returned
 * nothing has run since the bucket's size was read. */
static PyObject *
successor(Bucket *self, Py_ssize_t more)
{
    for (;;) {
        Py_ssize_t n = PyTuple_GET_SIZE(self->entries);
        PyObject *next = PyTuple_New(n + more < 0 ? 0 : n + more);
        if (next == NULL || PyTuple_GET_SIZE(self->entries) == n)
            return next;
        Py_DECREF(next); /* the collector ran something that changed the bucket */
    }
}

/* next = entries[:skip] + entries[skip + 1:], written from index `at` on */
static void
copy_without(PyObject *next, Py_ssize_t at, PyObject *entries, Py_ssize_t skip)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entries); i++)
        if (i != skip)
            PyTuple_SET_ITEM(next, at++, Py_NewRef(PyTuple_GET_ITEM(entries, i)));
}

/* Steals the tuple. Dropping the old one may run any code: it comes last. */
static void
replace_entries(Bucket *self, PyObject *entries)
{
    PyObject *old_entries = self->entries;
    Index *old_index = self->index;
    self->entries = entries;
    self->index = index_of(entries, parameter_count(self->code));
    index_release(old_index);
    Py_XDECREF(old_entries);
}

/* The new entry is tried first: the call that asked for it comes next. */
PyObject *
bucket_add(Bucket *self, PyObject *guards, PyObject *target, int fetch, int tails, int steady)
{
    Entry *entry = entry_new(self->code, guards, target, fetch, tails, steady);
    if (entry == NULL)
        return NULL;
    PyObject *next = successor(self, 1);
    if (next == NULL) {
        Py_DECREF(entry);
        return NULL;
    }
    PyTuple_SET_ITEM(next, 0, Py_NewRef((PyObject *)entry));
    copy_without(next, 1, self->entries, -1);
    replace_entries(self, next);
    return (PyObject *)entry;
}

/* 1 when it was there, 0 when not, -1 on error. */
int
bucket_remove(Bucket *self, PyObject *entry)
{
    if (entry_index(self->entries, entry) < 0)
        return 0;
    PyObject *next = successor(self, -1);
    if (next == NULL)
        return -1;
    Py_ssize_t i = entry_index(self->entries, entry);
    if (i < 0) {
        Py_DECREF(next);
        return 0;
    }
    copy_without(next, 0, self->entries, i);
    replace_entries(self, next);
    return 1;
}

void
bucket_clear(Bucket *self)
{
    replace_entries(self, PyTuple_New(0)); /* a singleton: can't fail */
}

/* Entry i of `snapshot` was hit: let it be tried first from now on. Only an
 * order is lost when the bucket has changed meanwhile, or memory is short. */
static void
bucket_promote(Bucket *self, PyObject *snapshot, Py_ssize_t i)
{
    if (self->entries != snapshot)
        return;
    PyObject *next = PyTuple_New(PyTuple_GET_SIZE(snapshot));
    if (next == NULL) {
        PyErr_Clear();
        return;
    }
    if (self->entries != snapshot) {
        Py_DECREF(next);
        return;
    }
    PyTuple_SET_ITEM(next, 0, Py_NewRef(PyTuple_GET_ITEM(snapshot, i)));
    copy_without(next, 1, snapshot, i);
    Py_SETREF(self->entries, next);
}

Entry *
bucket_search(Bucket *self, Entry *tried, int promote, PyObject *const *values, PyObject *function,
              PyObject **fetched)
{
    if (self->index != NULL)
        return index_search(self->index, values, function, fetched);
    Py_INCREF(self); /* a guard may give the function another code, and this bucket goes */
    PyObject *entries = Py_NewRef(self->entries);
    Entry *found = NULL;
    for (Py_ssize_t i = 0; found == NULL && i < PyTuple_GET_SIZE(entries); i++) {
        Entry *entry = (Entry *)PyTuple_GET_ITEM(entries, i);
        if (entry == tried || !entry_holds(entry, values, function, 0, fetched))
            continue;
        found = (Entry *)Py_NewRef((PyObject *)entry);
        if (promote && i > 0)
            bucket_promote(self, entries, i);
    }
    Py_DECREF(entries);
    Py_DECREF(self);
    return found;
}

/* ---- Bucket ---- */

static int
bucket_traverse(Bucket *self, visitproc visit, void *arg)
{
    if (self->index != NULL) {
        int status = index_traverse(self->index, visit, arg);
        if (status != 0)
            return status;
    }
    Py_VISIT(self->code);
    Py_VISIT(self->entries);
    return 0;
}

static int
bucket_gc_clear(Bucket *self)
{
    bucket_clear(self); /* never NULL: a finalizer may still call through it */
    return 0;
}

static void
bucket_dealloc(Bucket *self)
{
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    index_release(self->index);
    self->index = NULL;
    Py_CLEAR(self->entries);
    Py_CLEAR(self->code);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
bucket_repr(Bucket *self)
{
    return PyUnicode_FromFormat("<Bucket of %zd entries for %U at %p>", PyTuple_GET_SIZE(self->entries),
                                self->code->co_qualname, self);
}

static PyObject *
bucket_type_new(PyTypeObject *Py_UNUSED(type), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", NULL};
    PyObject *code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!:Bucket", names, &PyCode_Type, &code))
        return NULL;
    return (PyObject *)bucket_new((PyCodeObject *)code);
}

static PyObject *
bucket_add_method(Bucket *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "", "fetch", "tails", "steady", NULL};
    PyObject *guards, *target;
    int fetch = 0, tails = 0, steady = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|ppp:add", names, &guards, &target, &fetch, &tails,
                                     &steady))
        return NULL;
    return bucket_add(self, guards, target, fetch, tails, steady);
}

static PyObject *
bucket_remove_method(Bucket *self, PyObject *entry)
{
    int removed = bucket_remove(self, entry);
    return removed < 0 ? NULL : PyBool_FromLong(removed);
}

static PyObject *
bucket_clear_method(Bucket *self, PyObject *Py_UNUSED(ignored))
{
    bucket_clear(self);
    Py_RETURN_NONE;
}

static PyObject *
bucket_entries_method(Bucket *self, PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(self->entries);
}

static PyMethodDef bucket_methods[] = {
    {"add", (PyCFunction)(void (*)(void))bucket_add_method, METH_VARARGS | METH_KEYWORDS,
     "add(guards, target, fetch=False, tails=False, steady=False) -> Entry, tried first"},
    {"remove", (PyCFunction)bucket_remove_method, METH_O, "remove(entry) -> was it there"},
    {"clear", (PyCFunction)bucket_clear_method, METH_NOARGS, "clear(): remove all entries"},
    {"entries", (PyCFunction)bucket_entries_method, METH_NOARGS, "entries() -> tuple in the order they are tried"},
    {NULL},
};

static PyMemberDef bucket_members[] = {
    {"code", T_OBJECT_EX, offsetof(Bucket, code), READONLY, "the code object the entries are for"},
    {NULL},
};

PyTypeObject Bucket_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.Bucket",
    .tp_doc = "Bucket(code): the entries for one code object.",
    .tp_basicsize = sizeof(Bucket),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = bucket_type_new,
    .tp_dealloc = (destructor)bucket_dealloc,
    .tp_traverse = (traverseproc)bucket_traverse,
    .tp_clear = (inquiry)bucket_gc_clear,
    .tp_repr = (reprfunc)bucket_repr,
    .tp_methods = bucket_methods,
    .tp_members = bucket_members,
    .tp_weaklistoffset = offsetof(Bucket, weakrefs),
};

/* ---- by code object ----
 *
 * Code objects don't take part in garbage collection, and a compiled function
 * keeps its function's code alive: what a code object knows of them must be
 * weak references, or none of them would ever be freed.
 */

typedef struct {
    PyObject *compiled; /* weak reference to a CompiledFunction, or NULL */
    PyObject *shared;   /* weak reference to a Bucket, or NULL */
} CodeRecord;

static Py_ssize_t record_index = -1;

static void
record_free(void *p)
{
    CodeRecord *record = p;
    if (record != NULL) {
        Py_XDECREF(record->compiled);
        Py_XDECREF(record->shared);
        PyMem_Free(record);
    }
}

static CodeRecord *
code_record(PyObject *code, int create)
{
    void *p = NULL;
    if (CODE_GET_EXTRA(code, record_index, &p) < 0)
        return NULL;
    if (p == NULL && create) {
        p = PyMem_Calloc(1, sizeof(CodeRecord));
        if (p == NULL)
            return (CodeRecord *)PyErr_NoMemory();
        if (CODE_SET_EXTRA(code, record_index, p) < 0) {
            PyMem_Free(p);
            return NULL;
        }
    }
    return p;
}

/* What a weak reference refers to: a new reference, or NULL. */
static PyObject *
referent(PyObject *ref)
{
    PyObject *object = NULL;
    if (ref != NULL && PyWeakref_GetRef(ref, &object) < 0)
        PyErr_Clear(); /* only for what is not a weak reference */
    return object;
}

PyObject *
dispatch_lookup(PyCodeObject *code)
{
    CodeRecord *record = code_record((PyObject *)code, 0);
    return record == NULL ? NULL : referent(record->compiled);
}

static PyObject *
attach(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *compiled, *ref = NULL;
    if (!PyArg_ParseTuple(args, "O!O:attach", &PyCode_Type, &code, &compiled))
        return NULL;
    if (compiled != Py_None) {
        if (!Py_IS_TYPE(compiled, &CompiledFunction_Type)) {
            PyErr_Format(PyExc_TypeError, "attach() needs a CompiledFunction or None, not %.200s",
                         Py_TYPE(compiled)->tp_name);
            return NULL;
        }
        ref = PyWeakref_NewRef(compiled, NULL);
        if (ref == NULL)
            return NULL;
    }
    CodeRecord *record = code_record(code, 1);
    if (record == NULL) {
        Py_XDECREF(ref);
        return NULL;
    }
    Py_XSETREF(record->compiled, ref);
    Py_RETURN_NONE;
}

static PyObject *
lookup(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "lookup() needs a code object, not %.200s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    PyObject *compiled = dispatch_lookup((PyCodeObject *)code);
    if (compiled == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return compiled;
}

static PyObject *
shared_bucket(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "shared_bucket() needs a code object, not %.200s", Py_TYPE(code)->tp_name);
        return NULL;
    }
    CodeRecord *record = code_record(code, 1);
    if (record == NULL)
        return NULL;
    PyObject *bucket = referent(record->shared);
    if (bucket != NULL)
        return bucket;
    Bucket *fresh = bucket_new((PyCodeObject *)code);
    PyObject *ref = fresh == NULL ? NULL : PyWeakref_NewRef((PyObject *)fresh, NULL);
    if (ref == NULL) {
        Py_XDECREF(fresh);
        return NULL;
    }
    bucket = referent(record->shared); /* made by what a collection in here ran */
    if (bucket != NULL) {
        Py_DECREF(ref);
        Py_DECREF(fresh);
        return bucket;
    }
    Py_XSETREF(record->shared, ref);
    return (PyObject *)fresh;
}

PyMethodDef entries_functions[] = {
    {"attach", attach, METH_VARARGS,
     "attach(code, compiled or None): what frames of this code find; does not keep it alive"},
    {"lookup", lookup, METH_O, "lookup(code) -> the CompiledFunction attached to it, or None"},
    {"shared_bucket", shared_bucket, METH_O,
     "shared_bucket(code) -> the Bucket all users of this code share; lives as long as they do"},
    {NULL},
};

int
entries_init(PyObject *module)
{
    if (direct_init(module) < 0 || PyType_Ready(&Entry_Type) < 0 || PyType_Ready(&Bucket_Type) < 0)
        return -1;
    record_index = CODE_EXTRA_INDEX(record_free);
    if (record_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no code-extra slot is left in this interpreter");
        return -1;
    }
    if (PyModule_AddObjectRef(module, "Entry", (PyObject *)&Entry_Type) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Bucket", (PyObject *)&Bucket_Type);
}

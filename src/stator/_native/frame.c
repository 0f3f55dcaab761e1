/* Frame: one activation of a Python function under evaluation.
 *
 * A Frame carries a genuine interpreter frame, so that C code called on its
 * behalf sees the user's frames and none of the evaluator's. The evaluator
 * reads and writes fast locals straight in that frame (`frame[i]`): there is
 * one storage, so introspection is never stale.
 */
#include "native.h"

PyObject *null_object;
unsigned long long frames_evaluated;

static PyObject *prepare_code; /* prepare(code) -> info, called once per code object */
static Py_ssize_t extra_index = -1;

/* ---- what we keep per code object ---- */

typedef struct {
    PyObject *info;
    CodeKind kind;
} CodeExtra;

static void
code_extra_free(void *p)
{
    CodeExtra *extra = p;
    if (extra != NULL) {
        Py_XDECREF(extra->info);
        PyMem_Free(extra);
    }
}

static CodeExtra *
code_extra(PyCodeObject *code, int create)
{
    void *p = NULL;
    if (CODE_GET_EXTRA((PyObject *)code, extra_index, &p) < 0)
        return NULL;
    if (p == NULL && create) {
        p = PyMem_Calloc(1, sizeof(CodeExtra));
        if (p == NULL)
            return (CodeExtra *)PyErr_NoMemory();
        if (CODE_SET_EXTRA((PyObject *)code, extra_index, p) < 0) {
            PyMem_Free(p);
            return NULL;
        }
    }
    return p;
}

CodeKind
code_kind(PyCodeObject *code)
{
    CodeExtra *extra = code_extra(code, 0);
    return extra == NULL ? CODE_EVALUATED : extra->kind;
}

/* Fill frame->info, calling prepare(code) for a code object not seen before.
 * Runs Python code: no window may be open. */
int
frame_prepare(Frame *fr)
{
    PyCodeObject *code = IFRAME_CODE(fr->iframe);
    CodeExtra *extra = code_extra(code, 1);
    if (extra == NULL)
        return -1;
    if (extra->info == NULL) {
        PyObject *info = PyObject_CallOneArg(prepare_code, (PyObject *)code);
        if (info == NULL)
            return -1;
        Py_XSETREF(extra->info, info);
    }
    Py_XSETREF(fr->info, Py_NewRef(extra->info));
    frames_evaluated++;
    return 0;
}

/* ---- numbers of the interpreter's own ----
 *
 * On the value stack of a frame, CPython keeps numbers of its own: where an
 * exception was raised, and since 3.15 how far a loop is. In a Frame they are
 * ints of a class, so that they are known when the stack is written back.
 */

static PyTypeObject Number_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.Number",
    .tp_doc = "A number that CPython itself keeps on the value stack of a frame.",
    .tp_base = &PyLong_Type,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

int
is_number_object(PyObject *value)
{
    return Py_IS_TYPE(value, &Number_Type);
}

static PyObject *
number_object(Py_ssize_t number)
{
    return PyObject_CallFunction((PyObject *)&Number_Type, "n", number);
}

/* ---- making frames ---- */

static Frame *
frame_alloc(Py_ssize_t nlocalsplus, PyObject *ops)
{
    Frame *fr = (Frame *)Frame_Type.tp_alloc(&Frame_Type, nlocalsplus);
    if (fr == NULL)
        return NULL;
    fr->stack = PyList_New(0);
    fr->ip = PyLong_FromLong(0);
    fr->info = Py_NewRef(Py_None);
    fr->caller = Py_NewRef(Py_None);
    fr->ops = Py_NewRef(ops);
    fr->result = Py_NewRef(Py_None);
    fr->thrown = Py_NewRef(Py_None);
    fr->suspended = Py_NewRef(Py_None);
    fr->iframe = NULL;
    if (fr->stack == NULL || fr->ip == NULL) {
        Py_DECREF(fr);
        return NULL;
    }
    return fr;
}

/* Take over the references of a thread's frame that has not started. The husk
 * is left without locals for its owner to clear. */
Frame *
frame_adopt(IFrame *f, PyObject *ops)
{
    PyCodeObject *code = IFRAME_CODE(f);
    Py_ssize_t n = code->co_nlocalsplus;
    Frame *fr = frame_alloc(n, ops);
    if (fr == NULL)
        return NULL;
    IFrame *own = &fr->own;
    memcpy(own, f, offsetof(IFrame, localsplus));
    *IFRAME_FUNC_SLOT(own) = slot_holding(Py_NewRef(IFRAME_FUNC(f)));
    *IFRAME_CODE_SLOT(own) = slot_holding(Py_NewRef((PyObject *)code));
    Py_XINCREF(own->f_locals);
    own->frame_obj = NULL;
    own->previous = NULL;
    IFRAME_SET_TOP(own, n);
    own->owner = FRAME_OWNED_BY_THREAD;
    for (Py_ssize_t i = 0; i < n; i++)
        own->localsplus[i] = slot_holding(slot_take(&f->localsplus[i]));
    fr->iframe = own;
    return fr;
}

/* A frame of a function that has not begun, without any locals. */
Frame *
frame_blank(PyFunctionObject *func, PyObject *ops)
{
    PyCodeObject *code = (PyCodeObject *)func->func_code;
    Py_ssize_t n = code->co_nlocalsplus;
    Frame *fr = frame_alloc(n, ops);
    if (fr == NULL)
        return NULL;
    IFrame *own = &fr->own;
    *IFRAME_FUNC_SLOT(own) = slot_holding(Py_NewRef((PyObject *)func));
    *IFRAME_CODE_SLOT(own) = slot_holding(Py_NewRef((PyObject *)code));
    own->f_globals = func->func_globals;
    own->f_builtins = func->func_builtins;
    own->f_locals = NULL;
    own->frame_obj = NULL;
    own->previous = NULL;
    IFRAME_SET_TOP(own, n);
    own->owner = FRAME_OWNED_BY_THREAD;
    iframe_begin(own);
    IFRAME_SUSPEND_AT(own, 0);
    for (Py_ssize_t i = 0; i < n; i++)
        own->localsplus[i] = SLOT_EMPTY;
    fr->iframe = own;
    return fr;
}

/* The frame of a call whose arguments map one to one onto parameters; missing
 * trailing ones come from the defaults. The caller has checked that. */
Frame *
frame_from_function(PyFunctionObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *ops)
{
    PyCodeObject *code = (PyCodeObject *)func->func_code;
    Frame *fr = frame_blank(func, ops);
    if (fr == NULL)
        return NULL;
    IFrame *own = &fr->own;
    for (Py_ssize_t i = 0; i < nargs; i++)
        own->localsplus[i] = slot_holding(Py_NewRef(args[i]));
    if (nargs < code->co_argcount) {
        Py_ssize_t first = code->co_argcount - PyTuple_GET_SIZE(func->func_defaults);
        for (Py_ssize_t i = nargs; i < code->co_argcount; i++)
            own->localsplus[i] = slot_holding(Py_NewRef(PyTuple_GET_ITEM(func->func_defaults, i - first)));
    }
    return fr;
}

/* A Frame over the frame of a suspended generator: locals stay in place, the
 * value stack moves to the list. */
Frame *
frame_view(PyObject *gen, IFrame *f, PyObject *ops)
{
    Frame *fr = frame_alloc(0, ops);
    if (fr == NULL)
        return NULL;
    Py_ssize_t n = IFRAME_CODE(f)->co_nlocalsplus;
    PyObject *next = PyLong_FromSsize_t(IFRAME_NEXT(f));
    if (next == NULL)
        goto error;
    Py_SETREF(fr->ip, next);
    for (Py_ssize_t i = n; i < IFRAME_TOP(f); i++) {
        FrameSlot *slot = &f->localsplus[i];
        PyObject *value = slot_is_number(*slot) ? number_object(slot_number(*slot)) : Py_XNewRef(slot_object(*slot));
        if (PyErr_Occurred() || PyList_Append(fr->stack, value == NULL ? null_object : value) < 0) {
            Py_XDECREF(value);
            goto error;
        }
        Py_XDECREF(slot_take(slot));
        Py_XDECREF(value);
    }
    IFRAME_SET_TOP(f, n);
    fr->gen = Py_NewRef(gen);
    fr->iframe = f;
    return fr;
error:
    Py_DECREF(fr);
    return NULL;
}

/* ---- the life of a frame ---- */

/* Tell the interpreter frame where it is: at the instruction before `ip`. */
void
frame_set_ip(Frame *fr)
{
    IFRAME_RUNNING_AT(fr->iframe, PyLong_AsSsize_t(fr->ip));
}

/* As take_ownership() in CPython's Python/frame.c: somebody still holds the
 * frame object, so the frame's contents move into it. */
static void
iframe_hand_over(IFrame *f)
{
    PyFrameObject *object = f->frame_obj;
    PyFrameObject *back = PyFrame_GetBack(object);
    Py_ssize_t top = IFRAME_TOP(f);
    IFrame *kept = (IFrame *)object->_f_frame_data;
    f->frame_obj = NULL;
    memcpy(kept, f, offsetof(IFrame, localsplus));
    IFRAME_SET_TOP(kept, top);
    for (Py_ssize_t i = 0; i < top; i++)
        kept->localsplus[i] = slot_is_number(f->localsplus[i]) ? f->localsplus[i]
                                                               : slot_holding(slot_take(&f->localsplus[i]));
    object->f_frame = kept;
    kept->owner = FRAME_OWNED_BY_FRAME_OBJECT;
    kept->previous = NULL;
    *IFRAME_CODE_SLOT(kept) = slot_holding(Py_NewRef((PyObject *)IFRAME_CODE(f)));
    Py_XSETREF(object->f_back, back);
    if (!PyObject_GC_IsTracked((PyObject *)object))
        PyObject_GC_Track(object);
    Py_DECREF(object);
}

/* As _PyFrame_ClearExceptCode(): drop what the frame refers to, or leave it to
 * the frame object that a traceback or the user holds. */
void
iframe_clear_except_code(IFrame *f)
{
    if (f->frame_obj != NULL) {
        if (Py_REFCNT(f->frame_obj) > 1) {
            iframe_hand_over(f);
            return;
        }
        Py_CLEAR(f->frame_obj);
    }
    iframe_clear_slots(f);
    Py_CLEAR(f->f_locals);
    Py_XDECREF(slot_take(IFRAME_FUNC_SLOT(f)));
}

/* The activation is over. A generator's frame stays its owner's. */
void
frame_finish(Frame *fr)
{
    if (fr->iframe == &fr->own) {
        frame_set_ip(fr);
        iframe_clear_except_code(&fr->own);
        Py_XDECREF(slot_take(IFRAME_CODE_SLOT(&fr->own)));
    }
    fr->iframe = NULL;
}

static void
frame_dealloc(Frame *fr)
{
    if (fr->iframe != NULL) { /* lost: an exception came between the call and the loop */
        if (fr->caller != NULL && fr->caller != Py_None)
            window.remaining++;
        frame_finish(fr);
    }
    Py_XDECREF(fr->stack);
    Py_XDECREF(fr->ip);
    Py_XDECREF(fr->info);
    Py_XDECREF(fr->ops);
    Py_XDECREF(fr->result);
    Py_XDECREF(fr->thrown);
    Py_XDECREF(fr->suspended);
    Py_XDECREF(fr->gen);
    PyObject *caller = fr->caller;
    Py_TYPE(fr)->tp_free((PyObject *)fr);
    /* Callers that nobody else holds, one by one: the chain may be as long as
     * the user's recursion was deep. */
    while (caller != NULL && Py_IS_TYPE(caller, &Frame_Type) && Py_REFCNT(caller) == 1) {
        PyObject *next = ((Frame *)caller)->caller;
        ((Frame *)caller)->caller = NULL;
        Py_DECREF(caller);
        caller = next;
    }
    Py_XDECREF(caller);
}

static int
frame_alive(Frame *fr)
{
    if (fr->iframe == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this frame has finished");
        return 0;
    }
    return 1;
}

/* Drop a reference that the program drops: should the object die of it, its
 * finalizer shall see the user's frame. Finalizers are not evaluated. */
static void
frame_drop(Frame *fr, PyObject *value)
{
    if (value == NULL || Py_REFCNT(value) > 1) {
        Py_XDECREF(value);
        return;
    }
    if (dies_suspended(value))
        close_generator(fr, value);
    PyThreadState *ts = PyThreadState_Get();
    IFrame *current = CURRENT_FRAME(ts);
    frame_set_ip(fr);
    CURRENT_FRAME(ts) = fr->iframe;
    Py_DECREF(value);
    CURRENT_FRAME(ts) = current;
}

/* ---- fast locals: frame[i] ---- */

static Py_ssize_t
local_index(Frame *fr, PyObject *key)
{
    if (!frame_alive(fr))
        return -1;
    Py_ssize_t i = PyLong_AsSsize_t(key);
    if (i == -1 && PyErr_Occurred())
        return -1;
    if (i < 0 || i >= IFRAME_CODE(fr->iframe)->co_nlocalsplus) {
        PyErr_Format(PyExc_IndexError, "no local with index %zd", i);
        return -1;
    }
    return i;
}

static PyObject *
frame_subscript(Frame *fr, PyObject *key)
{
    Py_ssize_t i = local_index(fr, key);
    if (i < 0)
        return NULL;
    PyObject *value = slot_object(fr->iframe->localsplus[i]);
    return Py_NewRef(value == NULL ? null_object : value);
}

static int
frame_ass_subscript(Frame *fr, PyObject *key, PyObject *value)
{
    Py_ssize_t i = local_index(fr, key);
    if (i < 0)
        return -1;
    PyObject *old = slot_take(&fr->iframe->localsplus[i]);
    fr->iframe->localsplus[i] = slot_holding(value == NULL || value == null_object ? NULL : Py_NewRef(value));
    frame_drop(fr, old);
    return 0;
}

/* ---- errors that name a variable ---- */

static PyObject *
localsplus_name(PyCodeObject *code, Py_ssize_t i)
{
    return PyTuple_GET_ITEM(code->co_localsplusnames, i);
}

/* The error for reading an unbound local, cell or free variable; the texts are
 * those of format_exc_check_arg()/format_exc_unbound() in Python/ceval.c. */
int
frame_unbound(Frame *fr, Py_ssize_t i)
{
    PyCodeObject *code = IFRAME_CODE(fr->iframe);
    PyObject *name = localsplus_name(code, i);
    if (i < code->co_nlocalsplus - code->co_nfreevars) {
        PyErr_Format(PyExc_UnboundLocalError,
                     "cannot access local variable '%.200U' where it is not associated with a value",
                     name);
        return -1;
    }
    PyErr_Format(PyExc_NameError,
                 "cannot access free variable '%.200U' where it is not associated with a value in "
                 "enclosing scope",
                 name);
    PyObject *exc = take_exception();
    if (PyErr_GivenExceptionMatches(exc, PyExc_NameError))
        if (PyObject_SetAttrString(exc, "name", name) < 0)
            PyErr_Clear();
    give_exception(exc);
    return -1;
}

static PyObject *
frame_unbound_method(Frame *fr, PyObject *index)
{
    Py_ssize_t i = local_index(fr, index);
    if (i >= 0)
        frame_unbound(fr, i);
    return window_failed();
}

/* ---- tracebacks ---- */

/* frame.here(exc, unit): the exception passes through this frame, which is at
 * that instruction. Remove the evaluator's frames from the head of its
 * traceback and put this one there. */
static PyObject *
frame_here(Frame *fr, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyExceptionInstance_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "here(exc, unit)");
        return NULL;
    }
    if (!frame_alive(fr))
        return NULL;
    PyObject *exc = args[0];
    PyTracebackObject *tb = exception_traceback(exc), *clean = tb;
    while (clean != NULL && is_own_code(clean))
        clean = clean->tb_next;
    if (clean != tb) {
        PyObject *rest = Py_NewRef(clean == NULL ? Py_None : (PyObject *)clean);
        if (PyException_SetTraceback(exc, rest) < 0)
            PyErr_Clear();
        Py_DECREF(rest);
    }
    IFRAME_RUNNING_AT(fr->iframe, PyLong_AsSsize_t(args[1]) + 1);
    if (!_PyFrame_IsIncomplete(fr->iframe)) {
        PyThreadState *ts = PyThreadState_Get();
        IFrame *current = CURRENT_FRAME(ts);
        CURRENT_FRAME(ts) = fr->iframe;
        PyFrameObject *object = PyEval_GetFrame();
        CURRENT_FRAME(ts) = current;
        if (object == NULL)
            return NULL;
        give_exception(Py_NewRef(exc));
        int failed = PyTraceBack_Here(object) < 0;
        PyObject *same = take_exception();
        Py_XDECREF(same);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* frame.drop(): POP_TOP. */
static PyObject *
frame_drop_method(Frame *fr, PyObject *Py_UNUSED(ignored))
{
    Py_ssize_t n = PyList_GET_SIZE(fr->stack);
    if (!frame_alive(fr))
        return NULL;
    if (n == 0) {
        PyErr_SetString(PyExc_IndexError, "the value stack is empty");
        return NULL;
    }
    PyObject *value = Py_NewRef(PyList_GET_ITEM(fr->stack, n - 1));
    if (PyList_SetSlice(fr->stack, n - 1, n, NULL) < 0) {
        Py_DECREF(value);
        return NULL;
    }
    frame_drop(fr, value);
    Py_RETURN_NONE;
}

/* frame.truncate(depth): drop what is above, from the top. */
static PyObject *
frame_truncate(Frame *fr, PyObject *depth)
{
    Py_ssize_t n = PyLong_AsSsize_t(depth);
    if (n < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a stack depth is not negative");
        return NULL;
    }
    while (PyList_GET_SIZE(fr->stack) > n) {
        PyObject *done = frame_drop_method(fr, NULL);
        if (done == NULL)
            return NULL;
        Py_DECREF(done);
    }
    Py_RETURN_NONE;
}

static PyObject *
frame_finish_method(Frame *fr, PyObject *Py_UNUSED(ignored))
{
    if (!frame_alive(fr))
        return NULL;
    if (fr->iframe == &fr->own && fr->own.frame_obj == NULL)
        for (Py_ssize_t i = 0; i < IFRAME_TOP(&fr->own); i++) {
            PyObject *value = slot_object(fr->own.localsplus[i]);
            if (dies_suspended(value))
                close_generator(fr, value);
        }
    PyThreadState *ts = PyThreadState_Get();
    IFrame *current = CURRENT_FRAME(ts);
    CURRENT_FRAME(ts) = fr->iframe->previous; /* for the finalizers of what dies here */
    frame_finish(fr);
    CURRENT_FRAME(ts) = current;
    if (fr->caller != Py_None)
        window.remaining++;
    Py_RETURN_NONE;
}

/* ---- attributes ---- */

static PyObject *
frame_get_code(Frame *fr, void *Py_UNUSED(closure))
{
    return frame_alive(fr) ? Py_NewRef((PyObject *)IFRAME_CODE(fr->iframe)) : NULL;
}

static PyObject *
frame_get_globals(Frame *fr, void *Py_UNUSED(closure))
{
    return frame_alive(fr) ? Py_NewRef(fr->iframe->f_globals) : NULL;
}

static PyObject *
frame_get_builtins(Frame *fr, void *Py_UNUSED(closure))
{
    return frame_alive(fr) ? Py_NewRef(fr->iframe->f_builtins) : NULL;
}

static PyObject *
frame_get_function(Frame *fr, void *Py_UNUSED(closure))
{
    return frame_alive(fr) ? Py_NewRef(IFRAME_FUNC(fr->iframe)) : NULL;
}

static PyObject *
frame_get_namespace(Frame *fr, void *Py_UNUSED(closure))
{
    if (!frame_alive(fr))
        return NULL;
    PyObject *ns = fr->iframe->f_locals;
    return Py_NewRef(ns == NULL ? Py_None : ns);
}

static PyObject *
frame_get_finished(Frame *fr, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(fr->iframe == NULL);
}

static PyObject *
frame_copy_free_vars(Frame *fr, PyObject *Py_UNUSED(ignored))
{
    if (!frame_alive(fr))
        return NULL;
    PyCodeObject *code = IFRAME_CODE(fr->iframe);
    PyObject *closure = ((PyFunctionObject *)IFRAME_FUNC(fr->iframe))->func_closure;
    Py_ssize_t first = code->co_nlocalsplus - code->co_nfreevars;
    for (Py_ssize_t i = 0; i < code->co_nfreevars; i++) {
        PyObject *old = slot_take(&fr->iframe->localsplus[first + i]);
        fr->iframe->localsplus[first + i] = slot_holding(Py_NewRef(PyTuple_GET_ITEM(closure, i)));
        Py_XDECREF(old);
    }
    Py_RETURN_NONE;
}

static PyGetSetDef frame_getset[] = {
    {"finished", (getter)frame_get_finished, NULL, "is the activation over?", NULL},
    {"code", (getter)frame_get_code, NULL, "the code object", NULL},
    {"globals", (getter)frame_get_globals, NULL, "the globals dict", NULL},
    {"builtins", (getter)frame_get_builtins, NULL, "the builtins mapping", NULL},
    {"function", (getter)frame_get_function, NULL, "the function object", NULL},
    {"namespace", (getter)frame_get_namespace, NULL, "the local mapping of a class body or module, or None", NULL},
    {NULL},
};

static PyMemberDef frame_members[] = {
    {"stack", T_OBJECT_EX, offsetof(Frame, stack), 0, "the value stack"},
    {"ip", T_OBJECT_EX, offsetof(Frame, ip), 0, "code unit of the next instruction"},
    {"info", T_OBJECT_EX, offsetof(Frame, info), 0, "what prepare(code) returned"},
    {"caller", T_OBJECT_EX, offsetof(Frame, caller), READONLY, "the calling Frame, or None"},
    {"ops", T_OBJECT_EX, offsetof(Frame, ops), 0, "the operations this frame runs on"},
    {"result", T_OBJECT_EX, offsetof(Frame, result), 0, "what a base frame ends with"},
    {"thrown", T_OBJECT_EX, offsetof(Frame, thrown), 0, "exception to raise on entry, or None"},
    {"suspended", T_OBJECT_EX, offsetof(Frame, suspended), 0, "argument of the suspending YIELD_VALUE, or None"},
    {NULL},
};

static PyMethodDef frame_methods[] = {
    {"here", (PyCFunction)(void (*)(void))frame_here, METH_FASTCALL,
     "here(exc, unit): put this frame at the head of exc's traceback"},
    {"drop", (PyCFunction)frame_drop_method, METH_NOARGS, "drop(): pop the top of the stack and let it go"},
    {"truncate", (PyCFunction)frame_truncate, METH_O, "truncate(depth): drop what is above on the stack"},
    {"finish", (PyCFunction)frame_finish_method, METH_NOARGS, "finish(): the activation is over"},
    {"unbound", (PyCFunction)frame_unbound_method, METH_O, "unbound(i): raise the error for reading unbound variable i"},
    {"copy_free_vars", (PyCFunction)frame_copy_free_vars, METH_NOARGS, "copy_free_vars(): place the closure's cells"},
    {NULL},
};

static PyMappingMethods frame_mapping = {
    .mp_subscript = (binaryfunc)frame_subscript,
    .mp_ass_subscript = (objobjargproc)frame_ass_subscript,
};

PyTypeObject Frame_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.Frame",
    .tp_doc = "One activation of a Python function under evaluation; frame[i] is fast local i.",
    .tp_basicsize = sizeof(Frame),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = (destructor)frame_dealloc,
    .tp_as_mapping = &frame_mapping,
    .tp_methods = frame_methods,
    .tp_members = frame_members,
    .tp_getset = frame_getset,
};

/* ---- module functions ---- */

static PyObject *
mark_code(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code;
    int kind;
    if (!PyArg_ParseTuple(args, "O!i:mark_code", &PyCode_Type, &code, &kind))
        return NULL;
    CodeExtra *extra = code_extra((PyCodeObject *)code, 1);
    if (extra == NULL)
        return NULL;
    extra->kind = (CodeKind)kind;
    Py_RETURN_NONE;
}

static PyObject *
frame_statistics(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(frames_evaluated);
}

PyMethodDef frame_functions[] = {
    {"mark_code", mark_code, METH_VARARGS, "mark_code(code, kind): how frames of this code run inside a window"},
    {"frames_evaluated", frame_statistics, METH_NOARGS, "frames_evaluated() -> int"},
    {NULL},
};

void
frames_configure(PyObject *prepare, PyObject *prefix)
{
    Py_XSETREF(prepare_code, Py_NewRef(prepare));
    exceptions_configure(prefix);
}

static PyObject *
null_repr(PyObject *Py_UNUSED(self))
{
    return PyUnicode_FromString("<NULL>");
}

static PyTypeObject Null_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.Null",
    .tp_doc = "Stands for C's NULL on the value stack and in fast locals.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_repr = null_repr,
};

int
frames_init(PyObject *module)
{
    if (PyType_Ready(&Frame_Type) < 0 || PyType_Ready(&Null_Type) < 0 || PyModule_AddType(module, &Number_Type) < 0)
        return -1;
    null_object = PyObject_New(PyObject, &Null_Type);
    if (null_object == NULL)
        return -1;
    extra_index = CODE_EXTRA_INDEX(code_extra_free);
    if (extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no code-extra slot is left in this interpreter");
        return -1;
    }
    if (PyModule_AddObjectRef(module, "NULL", null_object) < 0
        || PyModule_AddIntConstant(module, "CODE_EVALUATED", CODE_EVALUATED) < 0
        || PyModule_AddIntConstant(module, "CODE_NATIVE", CODE_NATIVE) < 0
        || PyModule_AddIntConstant(module, "CODE_TRANSPARENT", CODE_TRANSPARENT) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "Frame", (PyObject *)&Frame_Type);
}

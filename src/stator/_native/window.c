/* Windows: stretches of C code during which every Python frame that starts on
 * this thread is evaluated instead of run.
 *
 * A window is opened by each operation that may call back into Python (ops.c)
 * and closed when it returns; the PEP 523 hook is installed only while some
 * thread has a window open. Within a window the thread's current frame is the
 * evaluated frame, so C code and callbacks see the user's frames. When the hook
 * takes a frame it closes the window, calls the evaluator (ordinary Python
 * code, running with the hook off) and opens the window again.
 */
#include "dispatch.h"

__thread ThreadWindow window;

/* Frames the evaluator itself needs; never counted against the user's limit. */
#define EVALUATOR_HEADROOM 60
#define EVALUATOR_C_HEADROOM 40

/* How often an exception that escaped the loop is given back to it. */
#define SIGNAL_RETRIES 3

static PyObject *evaluate_name; /* "evaluate" */
static PyObject *default_ops;  /* operations of frames started by run() */
static int open_windows;       /* on all threads */
static _PyFrameEvalFunction previous_hook;

static PyObject *hook(PyThreadState *ts, IFrame *f, int throwflag);

/* ---- the hook's installation: counted over all threads, under the GIL ---- */

static void
hook_acquire(PyThreadState *ts)
{
    if (open_windows++ == 0) {
        previous_hook = _PyInterpreterState_GetEvalFrameFunc(ts->interp);
        _PyInterpreterState_SetEvalFrameFunc(ts->interp, hook);
    }
}

static void
hook_release(PyThreadState *ts)
{
    /* Somebody may have installed a hook while ours was there: it stays. */
    if (--open_windows == 0 && _PyInterpreterState_GetEvalFrameFunc(ts->interp) == hook)
        _PyInterpreterState_SetEvalFrameFunc(ts->interp, previous_hook);
}

/* ---- sys.settrace and sys.setprofile ----
 *
 * A tracer that the program sets while it is evaluated shall see what it sees
 * under CPython: frames that start while it is set run natively, and the
 * evaluator's own frames are kept from it. One that was set before (a debugger,
 * a profiler) sees what there is to see, and is no part of what is evaluated.
 */

int
window_traced(PyThreadState *ts)
{
    return (ts->c_tracefunc != NULL || ts->c_profilefunc != NULL) && !window.traced;
}

/* Whether a tracer that was set before runs now. */
static int
in_tracer(PyThreadState *ts)
{
    return window.traced && ts->tracing > window.tracing;
}

static void
hide_from_tracer(PyThreadState *ts)
{
    if (!window.hidden && window_traced(ts)) {
        PyThreadState_EnterTracing(ts);
        window.hidden = 1;
    }
}

static void
show_to_tracer(PyThreadState *ts)
{
    if (window.hidden) {
        PyThreadState_LeaveTracing(ts);
        window.hidden = 0;
    }
}

/* ---- windows ---- */

/* What a signal handler raised in this window, to be compared and nothing else. */
static __thread PyObject *from_handler;

void
window_open(Window *w, Frame *fr)
{
    from_handler = NULL;
    PyThreadState *ts = PyThreadState_Get();
    w->ts = ts;
    w->current = CURRENT_FRAME(ts);
    w->frame = window.frame;
    w->remaining = RECURSION_REMAINING(ts);
    frame_set_ip(fr);
    CURRENT_FRAME(ts) = fr->iframe;
    RECURSION_REMAINING(ts) = window.remaining;
    C_RECURSION_ADD(ts, -EVALUATOR_C_HEADROOM);
    window.frame = fr;
    window.active = WINDOW_EVALUATE;
    show_to_tracer(ts);
    collecting_watch(0);
    hook_acquire(ts);
}

/* An operation raised: remember that the exception is the user's. On 3.11,
 * making the exception object may call the user's code, so it is done here. */
PyObject *
window_failed(void)
{
    PyObject *exc = take_exception();
    window.raised = exc == from_handler ? NULL : exc;
    give_exception(exc);
    return NULL;
}

void
window_close(Window *w)
{
    PyThreadState *ts = w->ts;
    if (PyErr_Occurred())
        window_failed();
    hook_release(ts);
    hide_from_tracer(ts);
    window.active = WINDOW_CLOSED;
    window.frame = w->frame;
    CURRENT_FRAME(ts) = w->current;
    int changed = RECURSION_REMAINING(ts) - window.remaining; /* sys.setrecursionlimit */
    window.remaining += changed;
    RECURSION_REMAINING(ts) = w->remaining + changed;
    C_RECURSION_ADD(ts, EVALUATOR_C_HEADROOM);
}

/* A frame whose contents were taken. */
static void
pop_husk(PyThreadState *ts, IFrame *f)
{
    pop_frame(ts, f, iframe_clear_except_code);
}

/* ---- generators ---- */

/* Write a suspended evaluation back into the generator's frame. */
static int
generator_suspend(PyThreadState *ts, Frame *fr, IFrame *f)
{
    PyGenObject *gen = (PyGenObject *)fr->gen;
    PyCodeObject *code = IFRAME_CODE(f);
    Py_ssize_t base = code->co_nlocalsplus, n = PyList_GET_SIZE(fr->stack);
    if (n > code->co_stacksize) {
        PyErr_Format(PyExc_SystemError, "stator: value stack of %U overflows at a yield", code->co_qualname);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = PyList_GET_ITEM(fr->stack, i);
        f->localsplus[base + i] = value == null_object ? SLOT_EMPTY
            : is_number_object(value)                  ? slot_holding_number(PyLong_AsSsize_t(value))
                                                       : slot_holding(Py_NewRef(value));
    }
    IFRAME_SET_TOP(f, base + n);
    IFRAME_SUSPEND_AT(f, PyLong_AsSsize_t(fr->ip));
    f->previous = NULL;
    gen->gi_frame_state = SUSPENDED_STATE(PyLong_AsLong(fr->suspended));
    generator_leaves(ts, 1);
#if HAS_CALLEE_CLEARS
    ts->exc_info = gen->gi_exc_state.previous_item;
    gen->gi_exc_state.previous_item = NULL;
#endif
    return 0;
}

/* The generator returned or raised. */
static void
generator_end(PyThreadState *ts, Frame *fr, IFrame *f)
{
    IFRAME_RUNNING_AT(f, PyLong_AsSsize_t(fr->ip));
#if HAS_CALLEE_CLEARS
    /* As clear_gen_frame() in Python/ceval.c; on 3.11 the caller does it. */
    PyGenObject *gen = (PyGenObject *)fr->gen;
    PyObject *exc = take_exception();
    gen->gi_frame_state = FRAME_CLEARED;
    ts->exc_info = gen->gi_exc_state.previous_item;
    gen->gi_exc_state.previous_item = NULL;
    iframe_clear_except_code(f);
    Py_CLEAR(gen->gi_exc_state.exc_value);
    if (exc != NULL)
        give_exception(exc);
#else
    (void)ts;
#endif
    f->previous = NULL;
    generator_leaves(ts, 0);
}

/* ---- the hook ---- */

/* Let ops.evaluate(frame) run; returns its value, or NULL with its exception. */
static PyObject *
call_evaluator(PyThreadState *ts, Frame *fr)
{
    if (RECURSION_REMAINING(ts) <= 0 && !ts->recursion_headroom) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
        return NULL;
    }
    int entry = RECURSION_REMAINING(ts);
    window.remaining = entry - 1;
    RECURSION_REMAINING(ts) = entry + EVALUATOR_HEADROOM;
    C_RECURSION_ADD(ts, EVALUATOR_C_HEADROOM);
    PyObject *outcome = PyObject_CallMethodOneArg(fr->ops, evaluate_name, (PyObject *)fr);
    for (int i = 0; outcome == NULL && fr->iframe != NULL && i < SIGNAL_RETRIES; i++) {
        /* A signal handler raised before the loop could catch it: the exception
         * belongs into the frame. */
        Py_SETREF(fr->thrown, take_exception());
        outcome = PyObject_CallMethodOneArg(fr->ops, evaluate_name, (PyObject *)fr);
    }
    show_to_tracer(ts);
    C_RECURSION_ADD(ts, -EVALUATOR_C_HEADROOM);
    RECURSION_REMAINING(ts) = window.remaining + 1;
    if (outcome == NULL)
        return NULL;
    Py_DECREF(outcome);
    PyObject *result = fr->result;
    fr->result = Py_NewRef(Py_None);
    if (outcome == Py_True)
        return result;
    give_exception(result);
    return NULL;
}

static PyObject *
evaluate_frame(PyThreadState *ts, IFrame *f, int throwflag)
{
    ThreadWindow outer = window;
    PyObject *ops = outer.frame != NULL ? outer.frame->ops : outer.ops;
    PyObject *result = NULL, *thrown = NULL;
    Frame *fr;
    hook_release(ts);
    window = (ThreadWindow){.ops = ops, .traced = outer.traced, .tracing = outer.tracing};
    if (f->owner == FRAME_OWNED_BY_GENERATOR) {
        PyObject *gen = (PyObject *)IFRAME_GENERATOR(f);
        if (throwflag)
            thrown = take_exception();
        fr = frame_view(gen, f, ops);
    }
    else {
        fr = frame_adopt(f, ops);
        pop_husk(ts, f);
    }
    if (fr == NULL)
        goto done;
    if (thrown != NULL)
        Py_SETREF(fr->thrown, Py_NewRef(thrown));
    fr->iframe->previous = CURRENT_FRAME(ts);
    if (frame_prepare(fr) == 0)
        result = call_evaluator(ts, fr);
    if (fr->gen != NULL) {
        if (result == NULL || fr->suspended == Py_None)
            generator_end(ts, fr, f);
        else if (generator_suspend(ts, fr, f) < 0) {
            Py_CLEAR(result);
            generator_end(ts, fr, f);
        }
        fr->iframe = NULL;
    }
done:
    Py_XDECREF(thrown);
    Py_XDECREF(fr);
    window = outer;
    hook_acquire(ts);
    return result;
}

static PyObject *
run_natively(PyThreadState *ts, IFrame *f, int throwflag)
{
    ThreadWindow outer = window;
    hook_release(ts);
    window.active = WINDOW_CLOSED;
    PyObject *result = _PyEval_EvalFrameDefault(ts, f, throwflag);
    window = outer;
    hook_acquire(ts);
    return result;
}

/* A signal handler: it may come in any window, and is no part of what is evaluated.
 * CPython calls it with a number and the frame that it interrupts. */
static int
is_signal_handler(IFrame *f)
{
    PyCodeObject *code = IFRAME_CODE(f);
    Py_ssize_t n = code->co_argcount;
    PyObject *number = n < 2 ? NULL : slot_object(f->localsplus[n - 2]);
    PyObject *frame = n < 2 ? NULL : slot_object(f->localsplus[n - 1]);
    if (code->co_flags & CO_VARARGS) {
        PyObject *more = slot_object(f->localsplus[n + code->co_kwonlyargcount]);
        if (more != NULL && PyTuple_CheckExact(more) && (n = PyTuple_GET_SIZE(more)) >= 2) {
            number = PyTuple_GET_ITEM(more, n - 2);
            frame = PyTuple_GET_ITEM(more, n - 1);
        }
    }
    return f->owner == FRAME_OWNED_BY_THREAD && frame != NULL && PyFrame_Check(frame) && number != NULL
        && PyLong_CheckExact(number);
}

static PyObject *
run_handler(PyThreadState *ts, IFrame *f, int throwflag)
{
    PyObject *result = run_natively(ts, f, throwflag);
    if (result == NULL) {
        from_handler = take_exception();
        give_exception(from_handler);
    }
    return result;
}

/* A frame called back from C in a compiled region: its code may have entries.
 * They are found by code object because C code holds the original function. */
static PyObject *
dispatch_frame(PyThreadState *ts, IFrame *f, int throwflag)
{
    PyObject *compiled = f->owner == FRAME_OWNED_BY_THREAD ? dispatch_lookup(IFRAME_CODE(f)) : NULL;
    if (compiled == NULL)
        return _PyEval_EvalFrameDefault(ts, f, throwflag);
    PyObject *fetched;
    Py_ssize_t n = parameter_count(IFRAME_CODE(f));
    PyObject *room[n + 1];
    PyObject *const *values = iframe_values(f, n, room);
    Entry *entry = dispatch_find(compiled, values, IFRAME_FUNC(f), &fetched);
    Py_DECREF(compiled);
    if (entry == NULL)
        return _PyEval_EvalFrameDefault(ts, f, throwflag);
    PyObject *result = entry_call(entry, fetched, values, n);
    Left left = left_by(entry);
    Py_DECREF(entry);
    PyObject *report;
    if (result == NULL && dispatch_is_run_original(&report)) {
        result = _PyEval_EvalFrameDefault(ts, f, throwflag);
        dispatch_report(report, result);
        return result;
    }
    pop_husk(ts, f);
    return left.tails ? dispatch_finish(result, left) : result;
}

static PyObject *
hook(PyThreadState *ts, IFrame *f, int throwflag)
{
    if (window.active == WINDOW_CLOSED)
        return previous_hook(ts, f, throwflag);
    if (window.active == WINDOW_DISPATCH)
        return dispatch_frame(ts, f, throwflag);
    if (window.capture != NULL && window.capture == IFRAME_FUNC(f)) {
        window.capture = NULL;
        window.captured = frame_adopt(f, window.frame->ops);
        pop_husk(ts, f);
        return window.captured == NULL ? NULL : Py_NewRef(Py_None);
    }
    if (window_traced(ts) || in_tracer(ts) || collecting_here(ts, IFRAME_FUNC(f))) /* a finalizer */
        return run_natively(ts, f, throwflag);
    if (is_signal_handler(f))
        return run_handler(ts, f, throwflag);
    PyCodeObject *code = IFRAME_CODE(f);
    switch (code_kind(code)) {
    case CODE_TRANSPARENT:
        return _PyEval_EvalFrameDefault(ts, f, throwflag);
    case CODE_NATIVE:
        return run_natively(ts, f, throwflag);
    case CODE_EVALUATED:
        break;
    }
    /* The call of a generator function only makes the generator. */
    if (f->owner != FRAME_OWNED_BY_GENERATOR && (code->co_flags & GENERATOR_FLAGS))
        return _PyEval_EvalFrameDefault(ts, f, throwflag);
    return evaluate_frame(ts, f, throwflag);
}

/* Bind arguments as CPython does (defaults, keywords, its error messages) by
 * starting the call and taking the frame before it runs. */
Frame *
window_capture(Frame *fr, PyObject *func, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    Window w;
    window_open(&w, fr);
    window.capture = func;
    window.captured = NULL;
    PyObject *result = PyObject_Vectorcall(func, args, nargs, kwnames);
    window.capture = NULL;
    Frame *captured = window.captured;
    window.captured = NULL;
    window_close(&w);
    if (result == NULL) {
        Py_CLEAR(captured);
        return NULL;
    }
    Py_DECREF(result);
    return captured;
}

/* Link a new activation behind its caller on the evaluator's frame stack. */
int
window_push(Frame *caller, Frame *callee)
{
    if (window.remaining <= 0 && !PyThreadState_Get()->recursion_headroom) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
        return -1;
    }
    if (frame_prepare(callee) < 0)
        return -1;
    frame_set_ip(caller);
    callee->iframe->previous = caller->iframe;
    Py_SETREF(callee->caller, Py_NewRef((PyObject *)caller));
    window.remaining--;
    return 0;
}

/* ---- generators that die ---- */

/* A generator that has begun, is suspended and dies now: CPython closes it. */
int
dies_suspended(PyObject *value)
{
    return value != NULL && Py_REFCNT(value) == 1 && PyGen_CheckExact(value)
        && ((PyGenObject *)value)->gi_frame_state < FRAME_EXECUTING;
}

/* Close a generator before it dies, so that its `finally` blocks are evaluated. */
void
close_generator(Frame *fr, PyObject *generator)
{
    Window w;
    window_open(&w, fr);
    PyObject *result = PyObject_CallMethod(generator, "close", NULL);
    window_close(&w);
    if (result == NULL) {
        /* What ends the evaluation is noted by whoever raised it. */
        if (PyErr_ExceptionMatches(PyExc_Exception))
            generator_unraisable(generator);
        else
            PyErr_Clear();
    }
    Py_XDECREF(result);
}

/* ---- generator expressions ---- */

/* Let an expression's generator, which has not begun, go through an iterator. */
static PyObject *
begin_with(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 3 || !(PyGen_CheckExact(args[0]) || PyAsyncGen_CheckExact(args[0]))) {
        PyErr_SetString(PyExc_TypeError, "begin_with(generator, iterable, iterator)");
        return NULL;
    }
    PyGenObject *gen = (PyGenObject *)args[0];
    IFrame *f = (IFrame *)&gen->gi_iframe;
    Py_ssize_t base = IFRAME_CODE(f)->co_nlocalsplus;
    if (gen->gi_frame_state != FRAME_CREATED || IFRAME_TOP(f) != base + 2) {
        PyErr_SetString(PyExc_ValueError, "begin_with(): no new generator of an expression");
        return NULL;
    }
    PyObject *variable = slot_take(&f->localsplus[0]), *iterator = slot_take(&f->localsplus[base]);
    f->localsplus[0] = slot_holding(Py_NewRef(args[1]));
    f->localsplus[base] = slot_holding(Py_NewRef(args[2]));
    f->localsplus[base + 1] = SLOT_EMPTY; /* was no object: how far a list had come */
    Py_XDECREF(variable);
    Py_XDECREF(iterator);
    Py_RETURN_NONE;
}

/* ---- module functions ---- */

static PyObject *
checked_function(PyObject *callable)
{
    PyObject *func = callable;
    if (PyMethod_Check(func))
        func = PyMethod_GET_FUNCTION(func);
    if (PyFunction_Check(func))
        return func;
    const char *kind = PyCFunction_Check(func) || Py_IS_TYPE(func, &PyMethodDescr_Type)
            || Py_IS_TYPE(func, &PyWrapperDescr_Type)
        ? "is implemented in C and has no bytecode"
        : PyType_Check(func) ? "is a class" : "is not a Python function";
    PyErr_Format(PyExc_TypeError,
                 "stator evaluates Python functions and methods; %.200R %s "
                 "(wrap the call in a function: lambda: ...)",
                 callable, kind);
    return NULL;
}

static PyObject *
run_on(PyObject *ops, PyObject *callable, PyObject *const *args, size_t nargs, PyObject *kwnames)
{
    if (checked_function(callable) == NULL)
        return NULL;
    if (ops == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the evaluator has not been configured");
        return NULL;
    }
    PyThreadState *ts = PyThreadState_Get();
    ThreadWindow outer = window;
    int traced = ts->c_tracefunc != NULL || ts->c_profilefunc != NULL;
    window = (ThreadWindow){
        .active = WINDOW_EVALUATE, .ops = ops, .traced = traced, .tracing = ts->tracing
    };
    collecting_watch(1); /* gc.freeze() moves it unseen */
    hook_acquire(ts);
    PyObject *result = PyObject_Vectorcall(callable, args, nargs, kwnames);
    hook_release(ts);
    window = outer;
    return result;
}

static PyObject *
core_run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "run() needs the function to evaluate as its first argument");
        return NULL;
    }
    return run_on(default_ops, args[0], args + 1, nargs - 1, kwnames);
}

/* call_dispatching(callable, *args, **kwargs): call it; Python functions that C
 * code calls back meanwhile are dispatched to what is attached to their code. */
static PyObject *
call_dispatching(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 1) {
        PyErr_SetString(PyExc_TypeError, "call_dispatching() needs what to call");
        return NULL;
    }
    PyThreadState *ts = PyThreadState_Get();
    ThreadWindow outer = window;
    window = (ThreadWindow){.active = WINDOW_DISPATCH};
    hook_acquire(ts);
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, nargs - 1, kwnames);
    hook_release(ts);
    window = outer;
    return result;
}

static PyObject *
core_run_with(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs < 2) {
        PyErr_SetString(PyExc_TypeError, "run_with() needs the operations and the function to evaluate");
        return NULL;
    }
    return run_on(args[0], args[1], args + 2, nargs - 2, kwnames);
}

static PyObject *
configure(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"prepare", "ops", "own_prefix", NULL};
    PyObject *prepare, *ops, *prefix;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOU:configure", names, &prepare, &ops, &prefix))
        return NULL;
    Py_XSETREF(default_ops, Py_NewRef(ops));
    frames_configure(prepare, prefix);
    Py_RETURN_NONE;
}

static PyObject *
hook_installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(_PyInterpreterState_GetEvalFrameFunc(PyThreadState_Get()->interp) == hook);
}

PyMethodDef window_functions[] = {
    {"run", (PyCFunction)(void (*)(void))core_run, METH_FASTCALL | METH_KEYWORDS,
     "run(fn, /, *args, **kwargs)\n--\n\nEvaluate a Python function and everything it calls."},
    {"run_with", (PyCFunction)(void (*)(void))core_run_with, METH_FASTCALL | METH_KEYWORDS,
     "run_with(ops, fn, /, *args, **kwargs)\n--\n\nrun() on other operations."},
    {"call_dispatching", (PyCFunction)(void (*)(void))call_dispatching, METH_FASTCALL | METH_KEYWORDS,
     "call_dispatching(callable, /, *args, **kwargs)\n--\n\n"
     "Call it; Python functions called back from C run the entries attached to their code."},
    {"configure", (PyCFunction)(void (*)(void))configure, METH_VARARGS | METH_KEYWORDS,
     "configure(*, prepare, ops, own_prefix)"},
    {"begin_with", (PyCFunction)(void (*)(void))begin_with, METH_FASTCALL,
     "begin_with(generator, iterable, iterator): 3.15+, what the generator of an expression iterates over"},
    {"hook_installed", hook_installed, METH_NOARGS, "hook_installed() -> bool"},
    {NULL},
};

int
windows_init(PyObject *Py_UNUSED(module))
{
    evaluate_name = PyUnicode_InternFromString("evaluate");
    return evaluate_name == NULL ? -1 : 0;
}

/* The native core's own types and the functions its files share. */
#ifndef STATOR_NATIVE_H
#define STATOR_NATIVE_H

#include "compat.h"

/* One activation of a Python function under evaluation.
 *
 * `iframe` is a genuine interpreter frame: what CPython's own introspection
 * (sys._getframe, locals, super, warnings, tracebacks ...) sees while C code
 * runs on behalf of this activation. It is `own` for functions, and the
 * generator's frame for generators and coroutines. The value stack lives in
 * the Python list `stack` and is written to the frame only when a generator
 * suspends.
 */
typedef struct {
    PyObject_VAR_HEAD
    PyObject *stack;   /* list: the value stack */
    PyObject *ip;      /* int: code unit of the next instruction */
    PyObject *info;    /* what prepare(code) returned */
    PyObject *caller;  /* Frame that called this one, or None for a base frame */
    PyObject *ops;     /* the operations this activation runs on */
    PyObject *result;  /* value or exception a base frame ends with */
    PyObject *thrown;  /* exception to raise on entry (generator.throw), or None */
    PyObject *suspended; /* None, or the argument of the YIELD_VALUE that suspends */
    PyObject *gen;     /* the generator that owns iframe, or NULL */
    IFrame *iframe;    /* NULL once finished */
    IFrame own;        /* must be last: localsplus extends behind it */
} Frame;

extern PyTypeObject Frame_Type;

/* The value that stands for C's NULL on the value stack and in locals. */
extern PyObject *null_object;

/* Calling such a function only makes the generator, coroutine or the like. */
#define GENERATOR_FLAGS (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)

/* How a frame of some code object runs when it is started inside a window. */
typedef enum {
    CODE_EVALUATED = 0,   /* by the evaluator */
    CODE_NATIVE = 1,      /* by CPython, with everything it calls */
    CODE_TRANSPARENT = 2, /* by CPython; what it calls is evaluated */
} CodeKind;

/* Per thread: is a window open, and for whom.
 *
 * `remaining` is how many frames the user's program may still push; the
 * evaluator's own frames are not counted against the user's recursion limit.
 */
typedef struct {
    enum {
        WINDOW_CLOSED = 0,   /* frames started now are run by CPython */
        WINDOW_EVALUATE = 1, /* by the evaluator */
        WINDOW_DISPATCH = 2, /* by the entry attached to their code whose guards hold, else by CPython */
    } active;
    int remaining;
    int traced;          /* a trace or profile function was set before run() */
    int tracing;         /* of the thread then: inside of that function, it is more */
    int hidden;          /* the evaluator's own frames are being kept from a tracer */
    Frame *frame;        /* borrowed; the frame the window was opened for */
    PyObject *ops;       /* borrowed; operations for frames started by no frame */
    PyObject *raised;    /* the last exception an operation raised; never dereferenced */
    PyObject *capture;   /* function whose frame is to be taken, not run */
    Frame *captured;     /* that frame */
} ThreadWindow;

extern __thread ThreadWindow window;

typedef struct {
    PyThreadState *ts;
    IFrame *current;
    Frame *frame;
    int remaining;
} Window;

/* frame.c */
Frame *frame_adopt(IFrame *f, PyObject *ops);
Frame *frame_blank(PyFunctionObject *func, PyObject *ops);
Frame *frame_from_function(PyFunctionObject *func, PyObject *const *args, Py_ssize_t nargs, PyObject *ops);
Frame *frame_view(PyObject *gen, IFrame *f, PyObject *ops);
int frame_prepare(Frame *fr);
void frame_finish(Frame *fr);
void frame_set_ip(Frame *fr);
int frame_unbound(Frame *fr, Py_ssize_t index);
void iframe_clear_except_code(IFrame *f);
int is_number_object(PyObject *value);
CodeKind code_kind(PyCodeObject *code);
void frames_configure(PyObject *prepare, PyObject *prefix);
int frames_init(PyObject *module);
extern PyMethodDef frame_functions[];

/* exceptions.c */
PyTracebackObject *exception_traceback(PyObject *exc);
int is_own_code(PyTracebackObject *tb);
void exceptions_configure(PyObject *prefix);
extern PyMethodDef exceptions_functions[];

/* window.c */
void window_open(Window *w, Frame *fr);
void window_close(Window *w);
PyObject *window_failed(void);
int window_traced(PyThreadState *ts);
Frame *window_capture(Frame *fr, PyObject *func, PyObject *const *args, size_t nargs, PyObject *kwnames);
int window_push(Frame *caller, Frame *callee);
int dies_suspended(PyObject *value);
void close_generator(Frame *fr, PyObject *generator);
int windows_init(PyObject *module);
extern PyMethodDef window_functions[];

/* collecting.c */
void collecting_watch(int anyway);
int collecting_here(PyThreadState *ts, PyObject *function);
int collecting_init(PyObject *module);

/* repeating.c */
extern PyMethodDef repeating_functions[];

/* types.c */
int types_init(PyObject *module);
extern PyMethodDef types_functions[];

/* ---- arguments.c ---- */

extern PyMethodDef addresses_functions[];
extern PyMethodDef arguments_functions[];

/* ---- sets.c ---- */

extern PyMethodDef sets_functions[];

/* ops.c */
extern PyMethodDef ops_functions[];

/* The number of frames evaluated so far (statistics). */
extern unsigned long long frames_evaluated;

#endif

/* Calls that stay within the C stack, however deep a program recurses.
 *
 * A recursive program uses no C stack under CPython, but does when each call
 * passes through C code of ours. CPython's own protection is rough: 3.11
 * counts C calls against the user's recursion limit, however high that is;
 * 3.12 and 3.13 stop at a fixed number of them, 1,500 on 3.12, however much
 * stack is left; since 3.14 the stack's size decides. So where the stack is deep
 * its size decides for us, too: a call is refused when three quarters are used,
 * and is otherwise not counted as a C call.
 */
#ifndef STATOR_CALLING_H
#define STATOR_CALLING_H

#include "compat.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* Addresses from high to low, as the stack grows. */
typedef struct {
    char *top;
    char *shallow; /* above it no call needs a closer look */
    char *full;
    char *low;     /* NULL: not measured yet */
} Stack;

extern HIDDEN __thread Stack thread_stack;
extern HIDDEN Stack main_stack; /* the main thread's, reached without thread-local storage */

static inline int
stack_is_shallow(void)
{
    char *here = __builtin_frame_address(0);
    return (here >= main_stack.shallow && here < main_stack.top) || here >= thread_stack.shallow;
}

/* What every function has that nobody gave another one: _PyFunction_Vectorcall. */
extern HIDDEN vectorcallfunc ordinary_vectorcall;

#if HAS_CALLEE_CLEARS

/* The frame of a call whose arguments are the parameters as they are, or NULL:
 * what the CALL_PY_EXACT_ARGS instruction does. From here on it is the eval
 * loop's to clear; on 3.11 it would be ours, and nothing gained. */
static Py_ALWAYS_INLINE inline IFrame *
exact_frame(PyThreadState *ts, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs)
{
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    if ((code->co_flags & (CO_OPTIMIZED | CO_VARARGS | CO_VARKEYWORDS)) != CO_OPTIMIZED
        || code->co_kwonlyargcount > 0 || code->co_argcount != nargs || function->vectorcall != ordinary_vectorcall
        || !_PyThreadState_HasStackSpace(ts, code->co_framesize)
        || _PyInterpreterState_GetEvalFrameFunc(ts->interp) != _PyEval_EvalFrameDefault)
        return NULL;
    return iframe_push(ts, function, args, nargs);
}

#endif

/* Call a Python function; its frame counts the call. */
static inline PyObject *
call_function(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
#if HAS_CALLEE_CLEARS
    if (kwnames == NULL) {
        PyThreadState *ts = PyThreadState_GetUnchecked();
        IFrame *frame = exact_frame(ts, (PyFunctionObject *)function, args, PyVectorcall_NARGS(nargsf));
        if (frame != NULL)
            return _PyEval_EvalFrameDefault(ts, frame, 0);
    }
#endif
    return ((PyFunctionObject *)function)->vectorcall(function, args, nargsf, kwnames);
}

PyObject *call_function_deep(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames) HIDDEN;
PyObject *call_other(PyObject *callable, PyObject *const *args, size_t nargsf) HIDDEN;

/* Call a Python function, if the stack allows. */
static inline PyObject *
call_python(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    return stack_is_shallow() ? call_function(function, args, nargsf, kwnames)
                              : call_function_deep(function, args, nargsf, kwnames);
}

/* Call anything. */
static inline PyObject *
call(PyObject *callable, PyObject *const *args, size_t nargsf)
{
    return PyFunction_Check(callable) ? call_python(callable, args, nargsf, NULL)
                                      : call_other(callable, args, nargsf);
}

int calling_init(void);

#endif

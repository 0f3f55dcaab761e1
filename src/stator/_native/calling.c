/* The slow cases of calling.h: a deep stack, and callables without a frame. */
#include "calling.h"

#ifdef __GLIBC__
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Too little for CPython's count of C calls to end. */
#define SHALLOW_STACK (128 * 1024)

vectorcallfunc ordinary_vectorcall;
__thread Stack thread_stack = {.shallow = (char *)UINTPTR_MAX};
Stack main_stack;

static void
measure_stack(void)
{
    static char nowhere;
    thread_stack = (Stack){&nowhere, &nowhere, &nowhere, &nowhere};
#ifdef __GLIBC__
    pthread_attr_t attr;
    void *low;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &size) == 0 && size > 2 * SHALLOW_STACK) {
        char *end = low, *top = end + size;
        thread_stack = (Stack){top, top - SHALLOW_STACK, end + size / 4, end};
        if (syscall(SYS_gettid) == getpid())
            main_stack = thread_stack;
    }
    pthread_attr_destroy(&attr);
#endif
}

typedef enum { STACK_ENOUGH, STACK_FULL, STACK_UNKNOWN } StackState;

static StackState
stack_state(void)
{
    char *here = __builtin_frame_address(0);
    if (thread_stack.low == NULL)
        measure_stack();
    if (here < thread_stack.low || here >= thread_stack.top)
        return STACK_UNKNOWN; /* small, or a fiber's */
    if (here >= thread_stack.full)
        return STACK_ENOUGH;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is nearly full");
    return STACK_FULL;
}

PyObject *
call_function_deep(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    StackState state = stack_state();
    if (state == STACK_FULL)
        return NULL;
    if (state == STACK_UNKNOWN)
        return call_function(function, args, nargsf, kwnames);
    PyThreadState *ts = PyThreadState_Get();
    C_RECURSION_ADD(ts, EVAL_C_CALLS);
    PyObject *result = call_function(function, args, nargsf, kwnames);
    C_RECURSION_ADD(ts, -EVAL_C_CALLS);
    return result;
}

/* No frame of its own counts this call. */
PyObject *
call_other(PyObject *callable, PyObject *const *args, size_t nargsf)
{
    if (!stack_is_shallow() && stack_state() == STACK_FULL)
        return NULL;
    if (Py_EnterRecursiveCall(" while calling a compiled function"))
        return NULL;
    PyObject *result = PyObject_Vectorcall(callable, args, nargsf, NULL);
    Py_LeaveRecursiveCall();
    return result;
}

int
calling_init(void)
{
    PyObject *globals = PyDict_New();
    PyObject *code = (PyObject *)PyCode_NewEmpty("<stator>", "ordinary", 1);
    PyObject *function = globals == NULL || code == NULL ? NULL : PyFunction_New(code, globals);
    if (function != NULL)
        ordinary_vectorcall = ((PyFunctionObject *)function)->vectorcall;
    Py_XDECREF(function);
    Py_XDECREF(code);
    Py_XDECREF(globals);
    return ordinary_vectorcall == NULL ? -1 : 0;
}

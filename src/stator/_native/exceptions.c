/* Exceptions: the one that is being handled, whose they are, and their tracebacks. */
#include "native.h"

static PyObject *own_prefix; /* directory of the evaluator's own code */

void
exceptions_configure(PyObject *prefix)
{
    Py_XSETREF(own_prefix, Py_NewRef(prefix));
}

/* The traceback of an exception, borrowed; NULL if there is none (an exception
 * may hold None for it). */
PyTracebackObject *
exception_traceback(PyObject *exc)
{
    PyObject *tb = PyException_GetTraceback(exc);
    Py_XDECREF(tb); /* the exception keeps it */
    return tb != NULL && PyTraceBack_Check(tb) ? (PyTracebackObject *)tb : NULL;
}

int
is_own_code(PyTracebackObject *tb)
{
    PyCodeObject *code = PyFrame_GetCode(tb->tb_frame);
    Py_ssize_t match = PyUnicode_Tailmatch(code->co_filename, own_prefix, 0, PY_SSIZE_T_MAX, -1);
    Py_DECREF(code);
    return match == 1;
}

static PyObject *
set_handled_exception(PyObject *Py_UNUSED(module), PyObject *exc)
{
    PyErr_SetHandledException(exc == Py_None ? NULL : exc);
    Py_RETURN_NONE;
}

/* The value to put back later: the innermost level's own, not an outer one's. */
static PyObject *
swap_handled_exception(PyObject *Py_UNUSED(module), PyObject *exc)
{
    PyObject *old = PyThreadState_Get()->exc_info->exc_value;
    old = Py_NewRef(old == NULL ? Py_None : old);
    PyErr_SetHandledException(exc);
    return old;
}

static PyObject *
get_handled_exception(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *exc = PyErr_GetHandledException();
    if (exc == NULL)
        Py_RETURN_NONE;
    return exc;
}

static PyObject *
exception_matches(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "exception_matches(exc, cls)");
        return NULL;
    }
    return PyBool_FromLong(PyErr_GivenExceptionMatches(args[0], args[1]));
}

/* raise_user(exc): raise an exception of the evaluated program. */
static PyObject *
raise_user(PyObject *Py_UNUSED(module), PyObject *exc)
{
    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    return window_failed();
}

/* is_user_error(exc): did an operation raise it, or user code, a signal handler
 * or the interpreter itself? Otherwise it is a bug of the evaluator. A class
 * that the user wrote is none of its own: PyThreadState_SetAsyncExc raises such
 * exceptions anywhere. */
static PyObject *
is_user_error(PyObject *Py_UNUSED(module), PyObject *exc)
{
    if (exc == window.raised || !PyErr_GivenExceptionMatches(exc, PyExc_Exception)
        || PyErr_GivenExceptionMatches(exc, PyExc_RecursionError)
        || PyErr_GivenExceptionMatches(exc, PyExc_MemoryError)
        || (Py_TYPE(exc)->tp_flags & Py_TPFLAGS_HEAPTYPE))
        Py_RETURN_TRUE;
    int own = 0;
    for (PyTracebackObject *tb = exception_traceback(exc); tb != NULL; tb = tb->tb_next)
        own = is_own_code(tb);
    return PyBool_FromLong(!own);
}

static PyObject *
was_raised(PyObject *Py_UNUSED(module), PyObject *exc)
{
    return PyBool_FromLong(exc == window.raised);
}

static PyObject *
traceback_of(PyObject *Py_UNUSED(module), PyObject *exc)
{
    PyTracebackObject *tb = exception_traceback(exc);
    return Py_NewRef(tb == NULL ? Py_None : (PyObject *)tb);
}

PyMethodDef exceptions_functions[] = {
    {"set_handled_exception", set_handled_exception, METH_O, "set_handled_exception(exc or None)"},
    {"swap_handled_exception", swap_handled_exception, METH_O, "swap_handled_exception(exc) -> previous one of this level"},
    {"get_handled_exception", get_handled_exception, METH_NOARGS, "get_handled_exception() -> exc or None"},
    {"exception_matches", (PyCFunction)(void (*)(void))exception_matches, METH_FASTCALL,
     "exception_matches(exc, cls) -> bool, as an except clause does"},
    {"raise_user", raise_user, METH_O, "raise_user(exc): raise an exception of the evaluated program"},
    {"is_user_error", is_user_error, METH_O, "is_user_error(exc) -> bool; else it is a bug of the evaluator"},
    {"was_raised", was_raised, METH_O, "was_raised(exc) -> did what the program did last raise it"},
    {"traceback_of", traceback_of, METH_O, "traceback_of(exc) -> its traceback or None"},
    {NULL},
};

/* What differs between CPython 3.11, 3.12 and 3.13, and nothing else.
 *
 * The rest of the native core is written against these names; a new Python
 * version is a new column here.
 */
#ifndef STATOR_COMPAT_H
#define STATOR_COMPAT_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1 /* the internal headers below */
#include <Python.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "stator's native core knows CPython 3.11, 3.12 and 3.13"
#endif
#ifdef Py_GIL_DISABLED
#error "stator's native core does not support free-threaded builds of CPython"
#endif

#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#if PY_VERSION_HEX >= 0x030D0000
#include "internal/pycore_ceval.h"
#endif

typedef _PyInterpreterFrame IFrame;

/* ---- fields of an interpreter frame ---- */

#if PY_VERSION_HEX < 0x030C0000
#define IFRAME_FUNC(f) (*(PyObject **)&(f)->f_func)
#else
#define IFRAME_FUNC(f) ((f)->f_funcobj)
#endif

#if PY_VERSION_HEX < 0x030D0000
#define IFRAME_CODE(f) ((f)->f_code)
#define IFRAME_SET_CODE(f, c) ((f)->f_code = (c))
#define IFRAME_IP(f) ((f)->prev_instr)
/* Units from the start of the code to the instruction that runs next. */
#define IFRAME_NEXT(f) ((f)->prev_instr + 1 - _PyCode_CODE((f)->f_code))
/* `next` is the unit behind the running (or suspended) instruction. */
#define IFRAME_RUNNING_AT(f, next) ((f)->prev_instr = _PyCode_CODE((f)->f_code) + (next) - 1)
#define IFRAME_SUSPEND_AT(f, next) IFRAME_RUNNING_AT(f, next)
#else
#define IFRAME_CODE(f) ((PyCodeObject *)(f)->f_executable)
#define IFRAME_SET_CODE(f, c) ((f)->f_executable = (PyObject *)(c))
#define IFRAME_IP(f) ((f)->instr_ptr)
#define IFRAME_NEXT(f) ((f)->instr_ptr - _PyCode_CODE(IFRAME_CODE(f)))
#define IFRAME_RUNNING_AT(f, next) ((f)->instr_ptr = _PyCode_CODE(IFRAME_CODE(f)) + (next) - 1)
#define IFRAME_SUSPEND_AT(f, next) ((f)->instr_ptr = _PyCode_CODE(IFRAME_CODE(f)) + (next))
#endif

/* ---- the thread state ---- */

#if PY_VERSION_HEX < 0x030D0000
#define CURRENT_FRAME(ts) ((ts)->cframe->current_frame)
#else
#define CURRENT_FRAME(ts) ((ts)->current_frame)
#endif

#if PY_VERSION_HEX < 0x030C0000
#define RECURSION_REMAINING(ts) ((ts)->recursion_remaining)
#else
#define RECURSION_REMAINING(ts) ((ts)->py_recursion_remaining)
#endif

/* Depth of C calls, counted apart since 3.12. */
#if PY_VERSION_HEX < 0x030C0000
#define C_RECURSION_ADD(ts, n) ((void)(ts))
#else
#define C_RECURSION_ADD(ts, n) ((ts)->c_recursion_remaining += (n))
#endif

/* What the eval loop counts itself as: PY_EVAL_C_STACK_UNITS in Python/ceval.c. */
#define EVAL_C_CALLS 2

/* Is the cyclic collector running, on whatever thread? */
#define GC_COLLECTING(ts) ((ts)->interp->gc.collecting)

/* ---- code extra data ---- */

#if PY_VERSION_HEX < 0x030C0000
#define CODE_GET_EXTRA _PyCode_GetExtra
#define CODE_SET_EXTRA _PyCode_SetExtra
#define CODE_EXTRA_INDEX _PyEval_RequestCodeExtraIndex
#else
#define CODE_GET_EXTRA PyUnstable_Code_GetExtra
#define CODE_SET_EXTRA PyUnstable_Code_SetExtra
#define CODE_EXTRA_INDEX PyUnstable_Eval_RequestCodeExtraIndex
#endif

/* ---- exceptions as one object ---- */

#if PY_VERSION_HEX < 0x030C0000
static inline PyObject *
take_exception(void)
{
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    if (type == NULL)
        return NULL;
    PyErr_NormalizeException(&type, &value, &tb);
    PyException_SetTraceback(value, tb == NULL ? Py_None : tb);
    Py_DECREF(type);
    Py_XDECREF(tb);
    return value;
}

static inline void
give_exception(PyObject *exc) /* steals exc */
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exc)), exc, PyException_GetTraceback(exc));
}
#else
#define take_exception PyErr_GetRaisedException
#define give_exception PyErr_SetRaisedException
#endif

#endif

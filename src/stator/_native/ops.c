/* Operations: what instructions do to the user's objects, each as CPython's C
 * API does it, inside a window. These are the plain implementation of the
 * evaluator's operations interface (stator/evaluator/operations.py); each takes
 * the frame it works for as its first argument.
 */
#include "native.h"
#include "calling.h"
#include <opcode.h>

#define ARITY(name, n)                                                                             \
    if (nargs != (n)) {                                                                            \
        PyErr_Format(PyExc_TypeError, name "() takes " #n " arguments, got %zd", nargs);           \
        return NULL;                                                                               \
    }
#define FRAME(i) ((Frame *)args[i])

static int
check_frame(PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 1 || !Py_IS_TYPE(args[0], &Frame_Type) || ((Frame *)args[0])->iframe == NULL) {
        PyErr_SetString(PyExc_TypeError, "an operation needs a running frame as its first argument");
        return -1;
    }
    return 0;
}

/* An operation `NAME(frame, ...)` of N arguments: EXPR computed in a window. */
#define WINDOWED(NAME, N, EXPR)                                                                    \
    static PyObject *op_##NAME(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)    \
    {                                                                                              \
        ARITY(#NAME, N)                                                                            \
        if (check_frame(args, nargs) < 0)                                                          \
            return NULL;                                                                           \
        Window w;                                                                                  \
        window_open(&w, FRAME(0));                                                                 \
        PyObject *result = EXPR;                                                                   \
        window_close(&w);                                                                          \
        return result;                                                                             \
    }

static inline PyObject *
none_or_null(int status)
{
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

static inline PyObject *
bool_or_null(int status)
{
    return status < 0 ? NULL : Py_NewRef(status ? Py_True : Py_False);
}

/* ---- operators ---- */

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *inplace_power(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }

static const binaryfunc binary_functions[] = {
    [NB_ADD] = PyNumber_Add,
    [NB_AND] = PyNumber_And,
    [NB_FLOOR_DIVIDE] = PyNumber_FloorDivide,
    [NB_LSHIFT] = PyNumber_Lshift,
    [NB_MATRIX_MULTIPLY] = PyNumber_MatrixMultiply,
    [NB_MULTIPLY] = PyNumber_Multiply,
    [NB_REMAINDER] = PyNumber_Remainder,
    [NB_OR] = PyNumber_Or,
    [NB_POWER] = power,
    [NB_RSHIFT] = PyNumber_Rshift,
    [NB_SUBTRACT] = PyNumber_Subtract,
    [NB_TRUE_DIVIDE] = PyNumber_TrueDivide,
    [NB_XOR] = PyNumber_Xor,
    [NB_INPLACE_ADD] = PyNumber_InPlaceAdd,
    [NB_INPLACE_AND] = PyNumber_InPlaceAnd,
    [NB_INPLACE_FLOOR_DIVIDE] = PyNumber_InPlaceFloorDivide,
    [NB_INPLACE_LSHIFT] = PyNumber_InPlaceLshift,
    [NB_INPLACE_MATRIX_MULTIPLY] = PyNumber_InPlaceMatrixMultiply,
    [NB_INPLACE_MULTIPLY] = PyNumber_InPlaceMultiply,
    [NB_INPLACE_REMAINDER] = PyNumber_InPlaceRemainder,
    [NB_INPLACE_OR] = PyNumber_InPlaceOr,
    [NB_INPLACE_POWER] = inplace_power,
    [NB_INPLACE_RSHIFT] = PyNumber_InPlaceRshift,
    [NB_INPLACE_SUBTRACT] = PyNumber_InPlaceSubtract,
    [NB_INPLACE_TRUE_DIVIDE] = PyNumber_InPlaceTrueDivide,
    [NB_INPLACE_XOR] = PyNumber_InPlaceXor,
};

static inline int
is_number(PyObject *o)
{
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o);
}

static PyObject *
op_binary(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("binary", 4)
    if (check_frame(args, nargs) < 0)
        return NULL;
    Py_ssize_t index = PyLong_AsSsize_t(args[1]);
    if (index < 0 || index >= (Py_ssize_t)Py_ARRAY_LENGTH(binary_functions)) {
        PyErr_Format(PyExc_ValueError, "no binary operator %R", args[1]);
        return NULL;
    }
    binaryfunc function = binary_functions[index];
    if (is_number(args[2]) && is_number(args[3])) {
        PyObject *number = function(args[2], args[3]);
        return number == NULL ? window_failed() : number;
    }
    Window w;
    window_open(&w, FRAME(0));
    PyObject *result = function(args[2], args[3]);
    window_close(&w);
    return result;
}

static PyObject *
op_compare(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("compare", 4)
    if (check_frame(args, nargs) < 0)
        return NULL;
    int op = (int)PyLong_AsLong(args[1]);
    if (is_number(args[2]) && is_number(args[3]))
        return PyObject_RichCompare(args[2], args[3], op);
    Window w;
    window_open(&w, FRAME(0));
    PyObject *result = PyObject_RichCompare(args[2], args[3], op);
    window_close(&w);
    return result;
}

static PyObject *
op_truth(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("truth", 2)
    PyObject *value = args[1];
    if (PyBool_Check(value))
        return Py_NewRef(value);
    if (value == Py_None || PyUnicode_CheckExact(value) || PyLong_CheckExact(value)
        || PyList_CheckExact(value) || PyDict_CheckExact(value) || PyTuple_CheckExact(value))
        return bool_or_null(PyObject_IsTrue(value));
    if (check_frame(args, nargs) < 0)
        return NULL;
    Window w;
    window_open(&w, FRAME(0));
    PyObject *result = bool_or_null(PyObject_IsTrue(value));
    window_close(&w);
    return result;
}

WINDOWED(negative, 2, PyNumber_Negative(args[1]))
WINDOWED(positive, 2, PyNumber_Positive(args[1]))
WINDOWED(invert, 2, PyNumber_Invert(args[1]))
WINDOWED(contains, 3, bool_or_null(PySequence_Contains(args[1], args[2])))

/* IS_OP on two objects that are not one: asked so that a tracer can tell. */
static PyObject *
op_identical(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("identical", 3)
    return bool_or_null(args[1] == args[2]);
}

/* ---- attributes and items ---- */

WINDOWED(getattr, 3, PyObject_GetAttr(args[1], args[2]))
WINDOWED(setattr, 4, none_or_null(PyObject_SetAttr(args[1], args[2], args[3])))
WINDOWED(delattr, 3, none_or_null(PyObject_SetAttr(args[1], args[2], NULL)))
WINDOWED(getitem, 3, PyObject_GetItem(args[1], args[2]))
WINDOWED(setitem, 4, none_or_null(PyObject_SetItem(args[1], args[2], args[3])))
WINDOWED(delitem, 3, none_or_null(PyObject_DelItem(args[1], args[2])))

/* ---- iteration ---- */

WINDOWED(iter, 2, PyObject_GetIter(args[1]))

/* The next item, or NULL's stand-in when the iterator is exhausted. */
static PyObject *
iterate(PyObject *it)
{
    PyObject *item = Py_TYPE(it)->tp_iternext(it);
    if (item != NULL)
        return item;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration))
            return NULL;
        PyErr_Clear();
    }
    return Py_NewRef(null_object);
}

WINDOWED(next, 2, iterate(args[1]))

/* (True, return value) or (False, yielded value). */
static PyObject *
send(PyObject *receiver, PyObject *value)
{
    PyObject *result;
    PySendResult status = PyIter_Send(receiver, value, &result);
    if (status == PYGEN_ERROR)
        return NULL;
    return Py_BuildValue("(ON)", status == PYGEN_RETURN ? Py_True : Py_False, result);
}

WINDOWED(send, 3, send(args[1], args[2]))

/* ---- names ---- */

static PyObject *
name_error(PyObject *name)
{
    PyErr_Format(PyExc_NameError, "name '%.200U' is not defined", name);
    PyObject *exc = take_exception();
    if (Py_IS_TYPE(exc, (PyTypeObject *)PyExc_NameError) && PyObject_SetAttrString(exc, "name", name) < 0)
        PyErr_Clear();
    give_exception(exc);
    return NULL;
}

/* mapping[name] as ceval does it: NULL without error if it is not there. */
static PyObject *
lookup_name(PyObject *mapping, PyObject *name)
{
    if (PyDict_CheckExact(mapping))
        return Py_XNewRef(PyDict_GetItemWithError(mapping, name));
    PyObject *value = PyObject_GetItem(mapping, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Clear();
    return value;
}

#if HAS_LAZY_IMPORTS

/* A global that stands for a module that has not been imported: import it, by CPython, as
 * _PyEval_LoadGlobalStackRef() does. Steals `value`. */
static PyObject *
loaded(Frame *fr, PyObject *name, PyObject *value)
{
    if (value == NULL || !PyLazyImport_CheckExact(value))
        return value;
    PyThreadState *ts = PyThreadState_Get();
    IFrame *current = CURRENT_FRAME(ts);
    frame_set_ip(fr);
    CURRENT_FRAME(ts) = fr->iframe;
    PyObject *module = _PyImport_LoadLazyImportTstate(ts, value);
    CURRENT_FRAME(ts) = current;
    Py_DECREF(value);
    if (module != NULL && PyDict_SetItem(fr->iframe->f_globals, name, module) < 0)
        Py_CLEAR(module);
    return module;
}

static PyObject *
import_lazily(Frame *fr, PyObject *const *args)
{
    IFrame *f = fr->iframe;
    return _PyEval_LazyImportName(PyThreadState_Get(), f->f_builtins, f->f_globals,
                                  f->f_locals == NULL ? Py_None : f->f_locals, args[0], args[1], args[2],
                                  args[3] == Py_True);
}

#else

#define loaded(fr, name, value) (value)

static PyObject *
import_lazily(Frame *Py_UNUSED(fr), PyObject *const *Py_UNUSED(args))
{
    PyErr_SetString(PyExc_SystemError, "stator: this Python has no lazy imports");
    return NULL;
}

#endif

WINDOWED(import_lazily, 5, import_lazily(FRAME(0), args + 1))

static PyObject *
load_global(Frame *fr, PyObject *name)
{
    PyObject *value = loaded(fr, name, lookup_name(fr->iframe->f_globals, name));
    if (value == NULL && !PyErr_Occurred())
        value = lookup_name(fr->iframe->f_builtins, name);
    if (value == NULL && !PyErr_Occurred())
        name_error(name);
    return value;
}

static PyObject *
op_load_global(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("load_global", 2)
    if (check_frame(args, nargs) < 0)
        return NULL;
    IFrame *f = FRAME(0)->iframe;
    if (PyDict_CheckExact(f->f_globals) && PyDict_CheckExact(f->f_builtins))
    {
        PyObject *value = load_global(FRAME(0), args[1]);
        return value == NULL ? window_failed() : value;
    }
    Window w;
    window_open(&w, FRAME(0));
    PyObject *result = load_global(FRAME(0), args[1]);
    window_close(&w);
    return result;
}

static PyObject *
no_namespace(const char *what, PyObject *name)
{
    PyErr_Format(PyExc_SystemError, "no locals when %s %R", what, name);
    return NULL;
}

static PyObject *
load_name(Frame *fr, PyObject *ns, PyObject *name)
{
    PyObject *value = loaded(fr, name, lookup_name(ns, name));
    if (value != NULL || PyErr_Occurred())
        return value;
    return load_global(fr, name);
}

static PyObject *
store_name(Frame *fr, PyObject *name, PyObject *value)
{
    PyObject *ns = fr->iframe->f_locals;
    if (ns == NULL)
        return no_namespace("storing", name);
    return none_or_null(PyDict_CheckExact(ns) ? PyDict_SetItem(ns, name, value)
                                              : PyObject_SetItem(ns, name, value));
}

static PyObject *
delete_name(Frame *fr, PyObject *name)
{
    PyObject *ns = fr->iframe->f_locals;
    if (ns == NULL)
        return no_namespace("deleting", name);
    return PyObject_DelItem(ns, name) < 0 ? name_error(name) : Py_NewRef(Py_None);
}

static PyObject *
delete_global(Frame *fr, PyObject *name)
{
    if (PyDict_DelItem(fr->iframe->f_globals, name) < 0) {
        if (PyErr_ExceptionMatches(PyExc_KeyError))
            name_error(name);
        return NULL;
    }
    return Py_NewRef(Py_None);
}

static PyObject *
lookup_or_null(PyObject *mapping, PyObject *name)
{
    PyObject *value = lookup_name(mapping, name);
    return value != NULL || PyErr_Occurred() ? value : Py_NewRef(null_object);
}

WINDOWED(load_name, 3, load_name(FRAME(0), args[1], args[2]))
WINDOWED(store_name, 3, store_name(FRAME(0), args[1], args[2]))
WINDOWED(delete_name, 2, delete_name(FRAME(0), args[1]))
WINDOWED(store_global, 3, none_or_null(PyDict_SetItem(FRAME(0)->iframe->f_globals, args[1], args[2])))
WINDOWED(delete_global, 2, delete_global(FRAME(0), args[1]))
WINDOWED(lookup_name, 3, lookup_or_null(args[1], args[2]))

/* ---- cells ---- */

static int
check_cell(PyObject *cell)
{
    if (PyCell_Check(cell))
        return 0;
    PyErr_Format(PyExc_SystemError, "stator: expected a cell, found %.100s", Py_TYPE(cell)->tp_name);
    return -1;
}

static PyObject *
op_load_cell(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("load_cell", 2)
    if (check_cell(args[1]) < 0)
        return NULL;
    PyObject *value = PyCell_GET(args[1]);
    return Py_NewRef(value == NULL ? null_object : value);
}

static PyObject *
op_store_cell(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("store_cell", 3)
    if (check_cell(args[1]) < 0)
        return NULL;
    return none_or_null(PyCell_Set(args[1], args[2] == null_object ? NULL : args[2]));
}

/* ---- calls ---- */

/* Can every argument be placed without looking at names? */
static int
binds_directly(PyFunctionObject *func, Py_ssize_t nargs)
{
    PyCodeObject *code = (PyCodeObject *)func->func_code;
    if ((code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_OPTIMIZED)) != CO_OPTIMIZED
        || code->co_kwonlyargcount != 0 || nargs > code->co_argcount)
        return 0;
    if (nargs == code->co_argcount)
        return 1;
    return func->func_defaults != NULL
        && nargs + PyTuple_GET_SIZE(func->func_defaults) >= code->co_argcount;
}

/* The function whose call becomes a frame on the evaluator's stack, if there is
 * one behind the bound methods around it. Calls of anything else stay calls. */
static PyFunctionObject *
evaluated_function(PyObject *callable)
{
    while (PyMethod_Check(callable))
        callable = PyMethod_GET_FUNCTION(callable);
    if (!PyFunction_Check(callable) || ((PyFunctionObject *)callable)->vectorcall != ordinary_vectorcall)
        return NULL;
    PyCodeObject *code = (PyCodeObject *)((PyFunctionObject *)callable)->func_code;
    if ((code->co_flags & GENERATOR_FLAGS) || code_kind(code) != CODE_EVALUATED
        || window_traced(PyThreadState_Get()))
        return NULL;
    return (PyFunctionObject *)callable;
}

/* Push an activation of `func`, which evaluated_function() found in `callable`;
 * `list` holds the arguments, those of keywords last, and may be changed. */
static PyObject *
push_call(Frame *fr, PyFunctionObject *func, PyObject *callable, PyObject *list, PyObject *kwnames)
{
    for (; PyMethod_Check(callable); callable = PyMethod_GET_FUNCTION(callable))
        if (PyList_Insert(list, 0, PyMethod_GET_SELF(callable)) < 0)
            return NULL;
    PyObject *const *items = ((PyListObject *)list)->ob_item;
    Py_ssize_t n = PyList_GET_SIZE(list) - (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    Frame *callee = kwnames == NULL && binds_directly(func, n)
        ? frame_from_function(func, items, n, fr->ops)
        : window_capture(fr, (PyObject *)func, items, n, kwnames);
    if (callee != NULL && window_push(fr, callee) < 0) {
        window_failed();
        Py_CLEAR(callee);
    }
    return (PyObject *)callee;
}

/* call(frame, callable, args: list, kwnames: tuple or None) -> value or Frame;
 * `args` holds positional arguments, then the values of the keywords. */
static PyObject *
op_call(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("call", 4)
    if (check_frame(args, nargs) < 0)
        return NULL;
    PyObject *callable = args[1], *list = args[2], *kwnames = args[3] == Py_None ? NULL : args[3];
    if (!PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, "call() takes the arguments as a list");
        return NULL;
    }
    PyFunctionObject *func = evaluated_function(callable);
    if (func != NULL)
        return push_call(FRAME(0), func, callable, list, kwnames);
    Py_ssize_t n = PyList_GET_SIZE(list) - (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    Window w;
    window_open(&w, FRAME(0));
    PyObject *result = PyObject_Vectorcall(callable, ((PyListObject *)list)->ob_item, n, kwnames);
    window_close(&w);
    return result;
}

/* push(frame, function) -> a frame behind `frame` that has not begun and has no
 * locals, to be put into the middle of a call. */
static PyObject *
op_push(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("push", 2)
    if (check_frame(args, nargs) < 0)
        return NULL;
    if (!PyFunction_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "push() takes a Python function");
        return NULL;
    }
    Frame *callee = frame_blank((PyFunctionObject *)args[1], FRAME(0)->ops);
    if (callee != NULL && window_push(FRAME(0), callee) < 0) {
        window_failed();
        Py_CLEAR(callee);
    }
    return (PyObject *)callee;
}

/* As _PyStack_UnpackDict(): append the values to `list`, answer the names. */
static PyObject *
unpack_keywords(PyObject *kwargs, PyObject *list)
{
    PyObject *key, *value, *names = PyTuple_New(PyDict_GET_SIZE(kwargs));
    Py_ssize_t position = 0, i = 0;
    while (names != NULL && PyDict_Next(kwargs, &position, &key, &value)) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "keywords must be strings");
            Py_CLEAR(names);
        }
        else if (PyList_Append(list, value) < 0)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, i++, Py_NewRef(key));
    }
    return names;
}

/* call_ex(frame, callable, args, kwargs: dict or None): CALL_FUNCTION_EX.
 * Answers NULL's stand-in if args is not iterable. */
static PyObject *
op_call_ex(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("call_ex", 4)
    if (check_frame(args, nargs) < 0)
        return NULL;
    PyObject *callable = args[1], *starred = args[2], *kwargs = args[3] == Py_None ? NULL : args[3];
    if (!PyTuple_CheckExact(starred) && Py_TYPE(starred)->tp_iter == NULL && !PySequence_Check(starred))
        return Py_NewRef(null_object);
    PyObject *result = NULL, *kwnames = NULL;
    PyFunctionObject *func = evaluated_function(callable);
    Window w;
    window_open(&w, FRAME(0));
    starred = PySequence_Tuple(starred);
    if (func == NULL && starred != NULL)
        result = PyObject_Call(callable, starred, kwargs);
    window_close(&w);
    if (func == NULL || starred == NULL) {
        Py_XDECREF(starred);
        return result;
    }
    PyObject *list = PySequence_List(starred);
    Py_DECREF(starred);
    if (list == NULL)
        return NULL;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        kwnames = unpack_keywords(kwargs, list);
        if (kwnames == NULL) {
            window_failed();
            goto done;
        }
    }
    result = push_call(FRAME(0), func, callable, list, kwnames);
done:
    Py_XDECREF(kwnames);
    Py_DECREF(list);
    return result;
}

/* call_native(frame, callable, *args): call it with everything it calls run by
 * CPython; the callee still sees the user's frames. */
static PyObject *
op_call_native(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    if (check_frame(args, nargs) < 0)
        return NULL;
    PyThreadState *ts = PyThreadState_Get();
    IFrame *current = CURRENT_FRAME(ts);
    frame_set_ip(FRAME(0));
    CURRENT_FRAME(ts) = FRAME(0)->iframe;
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, nargs - 2, NULL);
    CURRENT_FRAME(ts) = current;
    return result == NULL ? window_failed() : result;
}

/* instruction(frame, thunk, *operands): see stator/evaluator/thunks.py. The
 * thunk's frame is not the user's and does not count against the limits. */
static PyObject *
op_instruction(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    if (check_frame(args, nargs) < 0)
        return NULL;
    Window w;
    window_open(&w, FRAME(0));
    RECURSION_REMAINING(w.ts) += 1;
    C_RECURSION_ADD(w.ts, EVAL_C_CALLS);
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, nargs - 2, NULL);
    C_RECURSION_ADD(w.ts, -EVAL_C_CALLS);
    RECURSION_REMAINING(w.ts) -= 1;
    window_close(&w);
    return result;
}

/* ---- functions ---- */

static PyObject *
op_make_function(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("make_function", 2)
    if (check_frame(args, nargs) < 0)
        return NULL;
    return PyFunction_New(args[1], FRAME(0)->iframe->f_globals);
}

/* set_function_attribute(function, flag, value), flags as MAKE_FUNCTION's. */
static PyObject *
op_set_function_attribute(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    ARITY("set_function_attribute", 3)
    PyFunctionObject *func = (PyFunctionObject *)args[0];
    PyObject *value = Py_NewRef(args[2]);
    switch (PyLong_AsLong(args[1])) {
    case 0x01:
        Py_XSETREF(func->func_defaults, value);
        break;
    case 0x02:
        Py_XSETREF(func->func_kwdefaults, value);
        break;
    case 0x04:
        Py_XSETREF(func->func_annotations, value);
        break;
    case 0x08:
        Py_XSETREF(func->func_closure, value);
        break;
#if HAS_ANNOTATE
    case 0x10:
        Py_XSETREF(func->func_annotate, value);
        break;
#endif
    default:
        Py_DECREF(value);
        PyErr_Format(PyExc_ValueError, "no function attribute %R", args[1]);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* method_and_self(method) -> (method, NULL); method_and_self(self, method) -> (method, self):
 * what LOAD_SPECIAL leaves, as a tuple. */
static PyObject *
op_method_and_self(PyObject *Py_UNUSED(m), PyObject *const *args, Py_ssize_t nargs)
{
    return PyTuple_Pack(2, args[nargs - 1], nargs > 1 ? args[0] : null_object);
}

#define OPERATION(NAME, DOC) {#NAME, (PyCFunction)(void (*)(void))op_##NAME, METH_FASTCALL, DOC}

PyMethodDef ops_functions[] = {
    OPERATION(binary, "binary(frame, op, a, b): BINARY_OP"),
    OPERATION(compare, "compare(frame, op, a, b): COMPARE_OP"),
    OPERATION(truth, "truth(frame, value) -> bool"),
    OPERATION(negative, "negative(frame, value)"),
    OPERATION(positive, "positive(frame, value)"),
    OPERATION(invert, "invert(frame, value)"),
    OPERATION(contains, "contains(frame, container, item) -> bool"),
    OPERATION(identical, "identical(frame, a, b) -> bool"),
    OPERATION(getattr, "getattr(frame, obj, name)"),
    OPERATION(setattr, "setattr(frame, obj, name, value)"),
    OPERATION(delattr, "delattr(frame, obj, name)"),
    OPERATION(getitem, "getitem(frame, obj, key)"),
    OPERATION(setitem, "setitem(frame, obj, key, value)"),
    OPERATION(delitem, "delitem(frame, obj, key)"),
    OPERATION(iter, "iter(frame, obj)"),
    OPERATION(next, "next(frame, iterator) -> item or NULL"),
    OPERATION(send, "send(frame, receiver, value) -> (returned, value)"),
    OPERATION(load_global, "load_global(frame, name)"),
    OPERATION(store_global, "store_global(frame, name, value)"),
    OPERATION(delete_global, "delete_global(frame, name)"),
    OPERATION(load_name, "load_name(frame, namespace, name): namespace, then globals, then builtins"),
    OPERATION(store_name, "store_name(frame, name, value)"),
    OPERATION(delete_name, "delete_name(frame, name)"),
    OPERATION(lookup_name, "lookup_name(frame, mapping, name) -> value or NULL"),
    OPERATION(load_cell, "load_cell(frame, cell) -> value or NULL"),
    OPERATION(store_cell, "store_cell(frame, cell, value or NULL)"),
    OPERATION(call, "call(frame, callable, args, kwnames) -> value or Frame"),
    OPERATION(call_ex, "call_ex(frame, callable, args, kwargs) -> value or Frame, or NULL if args is not iterable"),
    OPERATION(push, "push(frame, function) -> a new frame behind it, without locals"),
    OPERATION(call_native, "call_native(frame, callable, *args)"),
    OPERATION(instruction, "instruction(frame, thunk, *operands)"),
    OPERATION(make_function, "make_function(frame, code)"),
    OPERATION(import_lazily, "import_lazily(frame, name, fromlist, level, lazy)"),
    OPERATION(method_and_self, "method_and_self([self,] method) -> (method, self or NULL)"),
    OPERATION(set_function_attribute, "set_function_attribute(function, flag, value)"),
    {NULL},
};

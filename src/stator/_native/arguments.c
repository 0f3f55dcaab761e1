/* The arguments of a frame of CPython's: to ask for its `f_locals` keeps all its
 * variables alive, also when the frame is cleared. */
#include "native.h"

static PyObject *
frame_arguments(PyObject *Py_UNUSED(m), PyObject *arg)
{
    if (!PyFrame_Check(arg)) {
        PyErr_SetString(PyExc_TypeError, "a frame is needed");
        return NULL;
    }
    IFrame *f = ((PyFrameObject *)arg)->f_frame;
    PyCodeObject *code = IFRAME_CODE(f);
    Py_ssize_t n = code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS)
        + !!(code->co_flags & CO_VARKEYWORDS);
    PyObject *found = PyTuple_New(n);
    for (Py_ssize_t i = 0; found != NULL && i < n; i++) {
        PyObject *value = slot_object(f->localsplus[i]);
        if (value != NULL && PyCell_Check(value))
            value = PyCell_GET(value);
        PyTuple_SET_ITEM(found, i, Py_NewRef(value == NULL ? Py_None : value));
    }
    return found;
}

PyMethodDef arguments_functions[] = {
    {"frame_arguments", frame_arguments, METH_O, "frame_arguments(frame) -> the values its parameters have now"},
    {NULL},
};

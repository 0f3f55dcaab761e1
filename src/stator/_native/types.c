/* Facts about types that only their C slots tell; see stator/objects. */
#include "native.h"

static PyTypeObject *sample_class; /* made by type(): its slots are those of class statements */

/* is_python_class(cls): was it made by a class statement (or a call of type)? */
static PyObject *
is_python_class(PyObject *Py_UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "is_python_class() needs a type");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    return PyBool_FromLong((type->tp_flags & Py_TPFLAGS_HEAPTYPE)
                           && type->tp_dealloc == sample_class->tp_dealloc);
}

/* has_generic_getattr(cls): does attribute access go by PyObject_GenericGetAttr,
 * or by type's or a module's variant of it? */
static PyObject *
has_generic_getattr(PyObject *Py_UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "has_generic_getattr() needs a type");
        return NULL;
    }
    getattrofunc getattro = ((PyTypeObject *)cls)->tp_getattro;
    return PyBool_FromLong(getattro == PyObject_GenericGetAttr || getattro == PyType_Type.tp_getattro
                           || getattro == PyModule_Type.tp_getattro);
}

PyMethodDef types_functions[] = {
    {"is_python_class", is_python_class, METH_O, "is_python_class(cls) -> bool"},
    {"has_generic_getattr", has_generic_getattr, METH_O, "has_generic_getattr(cls) -> bool"},
    {NULL},
};

int
types_init(PyObject *Py_UNUSED(module))
{
    sample_class = (PyTypeObject *)PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Sample");
    return sample_class == NULL ? -1 : 0;
}

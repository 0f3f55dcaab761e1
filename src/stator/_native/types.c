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

/* is_subtype(cls, ancestor): by the order of bases alone, no code of a metaclass. */
static PyObject *
is_subtype(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyType_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "is_subtype() needs a type and its ancestor");
        return NULL;
    }
    return PyBool_FromLong(PyType_Check(args[1])
                           && PyType_IsSubtype((PyTypeObject *)args[0], (PyTypeObject *)args[1]));
}

/* find_attribute(cls, name): the first of its bases that has it, and its value; None if none has. */
static PyObject *
find_attribute(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyType_Check(args[0]) || !PyUnicode_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "find_attribute() needs a type and a name");
        return NULL;
    }
    PyObject *order = ((PyTypeObject *)args[0])->tp_mro;
    if (order == NULL)
        Py_RETURN_NONE; /* the metaclass is making it up */
    Py_INCREF(order); /* to compare keys may run code */
    PyObject *found = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order) && found == NULL; i++) {
        PyObject *owner = PyTuple_GET_ITEM(order, i);
        PyObject *attributes = type_attributes((PyTypeObject *)owner);
        PyObject *value = attributes == NULL ? NULL : PyDict_GetItemWithError(attributes, args[1]);
        if (value != NULL)
            found = PyTuple_Pack(2, owner, value);
        Py_XDECREF(attributes);
        if (PyErr_Occurred())
            break;
    }
    Py_DECREF(order);
    if (found == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return found;
}

/* A set of types that are told apart by identity alone; small, and asked all the time. */
typedef struct {
    PyObject_HEAD
    PyObject *members; /* a tuple: what keeps them alive */
    size_t mask;
    PyObject **table; /* by address, free places are NULL */
} TypeSet;

static inline size_t
place_of(TypeSet *self, PyObject *type)
{
    size_t i = ((size_t)type >> 4) & self->mask;
    while (self->table[i] != NULL && self->table[i] != type)
        i = (i + 1) & self->mask;
    return i;
}

static PyObject *
typeset_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "TypeSet() takes no keywords");
        return NULL;
    }
    TypeSet *self = (TypeSet *)cls->tp_alloc(cls, 0);
    if (self == NULL)
        return NULL;
    size_t size = 8;
    while (size < 3 * (size_t)PyTuple_GET_SIZE(args))
        size *= 2;
    self->members = Py_NewRef(args);
    self->mask = size - 1;
    self->table = PyMem_Calloc(size, sizeof(PyObject *));
    if (self->table == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
        PyObject *member = PyTuple_GET_ITEM(args, i);
        self->table[place_of(self, member)] = member;
    }
    return (PyObject *)self;
}

static void
typeset_dealloc(TypeSet *self)
{
    PyMem_Free(self->table);
    Py_XDECREF(self->members);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *
typeset_holds(TypeSet *self, PyObject *type)
{
    return PyBool_FromLong(self->table[place_of(self, type)] != NULL);
}

static PyMethodDef typeset_methods[] = {
    {"holds", (PyCFunction)typeset_holds, METH_O, "holds(cls) -> bool"},
    {NULL},
};

static PyTypeObject TypeSet_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.TypeSet",
    .tp_doc = "A set of types compared by identity.",
    .tp_basicsize = sizeof(TypeSet),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = typeset_new,
    .tp_dealloc = (destructor)typeset_dealloc,
    .tp_methods = typeset_methods,
};

PyMethodDef types_functions[] = {
    {"is_python_class", is_python_class, METH_O, "is_python_class(cls) -> bool"},
    {"has_generic_getattr", has_generic_getattr, METH_O, "has_generic_getattr(cls) -> bool"},
    {"is_subtype", (PyCFunction)(void (*)(void))is_subtype, METH_FASTCALL, "is_subtype(cls, ancestor) -> bool"},
    {"find_attribute", (PyCFunction)(void (*)(void))find_attribute, METH_FASTCALL,
     "find_attribute(cls, name) -> (owner, value), or None"},
    {NULL},
};

int
types_init(PyObject *module)
{
    if (PyModule_AddType(module, &TypeSet_Type) < 0)
        return -1;
    sample_class = (PyTypeObject *)PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Sample");
    return sample_class == NULL ? -1 : 0;
}

/* Are tensors where they were? A CUDA graph reads its inputs at the addresses it was
 * recorded with. */
#include "guards_tensor.h"
#include "native.h"

static int
address_of(PyObject *tensor, int64_t *out)
{
    if (torch_api.base != NULL && torch_api.storage && PyObject_TypeCheck(tensor, torch_api.base)) {
        void *data;
        if (tensor_is_native(tensor) && torch_api.data(handle_of(tensor), &data) == 0) {
            *out = (int64_t)(uintptr_t)data;
            return 0;
        }
    }
    PyObject *told = PyObject_CallMethod(tensor, "data_ptr", NULL);
    if (told == NULL)
        return -1;
    *out = (int64_t)PyLong_AsUnsignedLongLongMask(told);
    Py_DECREF(told);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
as_list_or_tuple(PyObject *tensors)
{
    if (PyList_Check(tensors) || PyTuple_Check(tensors))
        return tensors;
    PyErr_Format(PyExc_TypeError, "tensors must be a list or a tuple, not %.200s", Py_TYPE(tensors)->tp_name);
    return NULL;
}

/* Pairs of 64 bits: an index, and the address that the tensor there should have. */
static PyObject *
addresses_hold(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 2 || !PyBytes_Check(args[1]) || PyBytes_GET_SIZE(args[1]) % (2 * sizeof(int64_t))) {
        PyErr_SetString(PyExc_TypeError, "addresses_hold takes tensors and pairs of numbers of 64 bits");
        return NULL;
    }
    PyObject *tensors = as_list_or_tuple(args[0]);
    if (tensors == NULL)
        return NULL;
    const int64_t *pair = (const int64_t *)PyBytes_AS_STRING(args[1]);
    const int64_t *end = pair + PyBytes_GET_SIZE(args[1]) / (Py_ssize_t)sizeof(int64_t);
    for (; pair < end; pair += 2) {
        if (pair[0] < 0 || pair[0] >= PySequence_Fast_GET_SIZE(tensors)) {
            PyErr_SetString(PyExc_IndexError, "no tensor has this index");
            return NULL;
        }
        PyObject *tensor = Py_NewRef(PySequence_Fast_GET_ITEM(tensors, pair[0]));
        int64_t address;
        int status = address_of(tensor, &address);
        Py_DECREF(tensor);
        if (status < 0)
            return NULL;
        if (address != pair[1])
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

PyMethodDef addresses_functions[] = {
    {"addresses_hold", (PyCFunction)(void (*)(void))addresses_hold, METH_FASTCALL,
     "addresses_hold(tensors, pairs) -> whether each tensor with an index in the pairs is at its address"},
    {NULL},
};

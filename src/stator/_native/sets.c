/* The order of sets: where elements lie in the table decides on it.
 *
 * A set that is filled with the elements of another one, in the order of that one,
 * may come out in a third order: tables have other sizes, elements whose hashes
 * collide meet in another sequence, those that were removed leave gaps. So a set
 * that stands for another is made as a copy of its table.
 */
#include "native.h"

#define IS_GAP(entry) ((entry)->key != NULL && (entry)->hash == -1) /* an element was removed there */

static int
are_sets(PyObject *a, PyObject *b)
{
    if (PyAnySet_Check(a) && PyAnySet_Check(b))
        return 1;
    PyErr_SetString(PyExc_TypeError, "two sets are needed");
    return 0;
}

/* set_take_over(target, source): the target has the elements of the source, as they lie there. */
static PyObject *
set_take_over(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *target, *source;
    if (!PyArg_ParseTuple(args, "OO:set_take_over", &target, &source) || !are_sets(target, source))
        return NULL;
    if (target == source)
        Py_RETURN_NONE;
    PySetObject *to = (PySetObject *)target, *from = (PySetObject *)source;
    size_t size = (size_t)from->mask + 1, old_size = (size_t)to->mask + 1;
    setentry small[PySet_MINSIZE], *old = to->table, *table = to->smalltable;
    if (from->table != from->smalltable && (table = PyMem_New(setentry, size)) == NULL)
        return PyErr_NoMemory();
    if (old == to->smalltable)
        old = memcpy(small, old, sizeof small);
    memcpy(table, from->table, size * sizeof *table);
    for (size_t i = 0; i < size; i++)
        if (!IS_GAP(&table[i]))
            Py_XINCREF(table[i].key);
    to->table = table;
    to->mask = from->mask;
    to->fill = from->fill;
    to->used = from->used;
    to->finger = from->finger;
    to->hash = -1;
    for (size_t i = 0; i < old_size; i++)
        if (!IS_GAP(&old[i]))
            Py_XDECREF(old[i].key);
    if (old != small)
        PyMem_Free(old);
    Py_RETURN_NONE;
}

/* set_lies_as(a, b): two sets of equal elements have them at the same places. */
static PyObject *
set_lies_as(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "OO:set_lies_as", &a, &b) || !are_sets(a, b))
        return NULL;
    PySetObject *left = (PySetObject *)a, *right = (PySetObject *)b;
    if (left->mask != right->mask || left->fill != right->fill || left->used != right->used)
        Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i <= left->mask; i++) {
        const setentry *l = &left->table[i], *r = &right->table[i];
        if ((l->key == NULL) != (r->key == NULL) || (l->key != NULL && l->hash != r->hash))
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

PyMethodDef sets_functions[] = {
    {"set_take_over", set_take_over, METH_VARARGS, "set_take_over(target, source): with its elements as they lie"},
    {"set_lies_as", set_lies_as, METH_VARARGS, "set_lies_as(a, b) -> are the elements, if they are equal, at the same places?"},
    {NULL},
};

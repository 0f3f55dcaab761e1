/* Which thread is collecting garbage.
 *
 * CPython says that a collection is under way, not whose it is; and while a
 * finalizer or a callback runs in it, any other thread may run, too. The
 * collector visits the objects of the youngest generation before it calls
 * anything, on its own thread: one of them, the witness, notes which one that
 * is. Having been visited it is no longer young; it is made so again before
 * the next window opens.
 */
#include "native.h"

static PyObject *witness;
static PyThreadState *collector; /* of the collection number `collection`; compared, never read */
static Py_ssize_t collection;
static int visited; /* since it was made young */

/* Others visit objects, too (`gc.get_referrers`): they are no collectors. */
static int
witness_traverse(PyObject *Py_UNUSED(self), visitproc Py_UNUSED(visit), void *Py_UNUSED(arg))
{
    PyThreadState *ts = PyThreadState_Get();
    Py_ssize_t ended = collections_ended(ts);
    if (GC_COLLECTING(ts) && (collector == NULL || collection != ended)) {
        collector = ts;
        collection = ended;
    }
    visited = 1;
    return 0;
}

static PyTypeObject Witness_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._native._core.Witness",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = witness_traverse,
    .tp_dealloc = (destructor)PyObject_GC_Del, /* never */
};

void
collecting_watch(int anyway)
{
    if (!visited && !anyway)
        return;
    PyObject_GC_UnTrack(witness);
    PyObject_GC_Track(witness);
    visited = 0;
}

/* Is it one of `gc.callbacks`? They are called before anything is visited, too. */
static int
is_callback(PyThreadState *ts, PyObject *function)
{
    PyObject *callbacks = ts->interp->gc.callbacks;
    for (Py_ssize_t i = 0; callbacks != NULL && i < PyList_GET_SIZE(callbacks); i++) {
        PyObject *each = PyList_GET_ITEM(callbacks, i);
        if (each == function || (PyMethod_Check(each) && PyMethod_GET_FUNCTION(each) == function))
            return 1;
    }
    return 0;
}

/* Does a collection on this thread call the function? The last callbacks come when
 * the collection has been counted. */
int
collecting_here(PyThreadState *ts, PyObject *function)
{
    return GC_COLLECTING(ts)
        && ((collector == ts && collections_ended(ts) - collection <= 1) || is_callback(ts, function));
}

int
collecting_init(PyObject *Py_UNUSED(module))
{
    if (PyType_Ready(&Witness_Type) < 0)
        return -1;
    witness = (PyObject *)PyObject_GC_New(PyObject, &Witness_Type);
    if (witness == NULL)
        return -1;
    PyObject_GC_Track(witness);
    return 0;
}

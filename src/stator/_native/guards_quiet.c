/* Quiet trees: what must still be looked at when nothing is known to have changed.
 *
 * A walk over all levels looks at two or three words of each. Most of them can be
 * spared while two counts stand still: of assignments to `__dict__` and
 * `__class__` (rebinding.c), and of changes of watched dicts. Then an object in a
 * dict that is recorded is the object it was, of the class it was, with the dict
 * it had; where there are watchers that dict is unchanged too, and otherwise its
 * version tells. So after a walk that passed, the tree makes a list of what is
 * left to look at:
 *
 * - Levels that are evaluated anyway, and their children, which nothing holds in
 *   between: another object may come to the same address.
 * - Levels whose dict may be replaced without being counted.
 * - Of all others the version of the dict, where there are no watchers. Versions
 *   come from one clock: a dict is unchanged if its version is not younger than
 *   the youngest that was there when the list was made.
 *
 * A level *holds* its children if its record says that they are the same objects
 * as before. The list is void once a holding level is evaluated again.
 *
 * What tensors are like must be looked at each time, in their impls. But a tensor
 * that a level holds has the impl it had, if the count tells of swaps, too; then
 * its object is not looked at.
 */
#include "guards.h"

static Py_ssize_t least_levels = 16; /* of a tree for which a list is worth it */

#define LONG_LIVED 16   /* checks */
#define LONGEST 255     /* checks until the next list is made */

/* Did this walk go as the last one, with nothing new to rely on? */
static int
is_steady(GuardTree *t)
{
    Quiet *q = &t->quiet;
    unsigned long long walk = t->evaluated - q->evaluated;
    int steady = !q->fresh && walk == q->walk;
    q->evaluated = t->evaluated;
    q->walk = walk;
    q->fresh = 0;
    return steady;
}

static int
is_worth_it(GuardTree *t)
{
    if (!rebindings.counted || rebindings.under_way != 0 || !t->shortcuts || t->n_levels < least_levels)
        return 0;
    return patience_ends(&t->quiet.patience, t->calls, LONG_LIVED, LONGEST);
}

typedef struct {
    int32_t level, depth;
    const uint64_t *tag;
} Place;

static int
by_depth_and_address(const void *a, const void *b)
{
    const Place *p = a, *q = b;
    if (p->depth != q->depth)
        return p->depth < q->depth ? -1 : 1;
    if (p->tag != q->tag)
        return p->tag < q->tag ? -1 : 1;
    return p->level < q->level ? -1 : 1;
}

/* The levels in the order in which they are looked at: a level after the one above
 * it, which keeps it alive, and else as their dicts lie in memory. The order is made
 * once: where dicts are later is of no consequence but for speed. */
static int
put_in_order(GuardTree *t)
{
    Place *places = PyMem_Malloc(t->n_levels * sizeof *places);
    int32_t *order = PyMem_Malloc(t->n_levels * sizeof *order);
    if (places == NULL || order == NULL) {
        PyMem_Free(places);
        PyMem_Free(order);
        return -1;
    }
    places[0] = (Place){0, 0, NULL};
    for (Py_ssize_t i = 1; i < t->n_levels; i++) {
        int32_t above = t->nodes[t->nodes[t->levels[i].node].parent].level;
        places[i] = (Place){(int32_t)i, places[above].depth + 1, t->levels[i].tag};
    }
    qsort(places, t->n_levels, sizeof *places, by_depth_and_address);
    for (Py_ssize_t i = 0; i < t->n_levels; i++)
        order[i] = places[i].level;
    PyMem_Free(places);
    t->quiet.order = order;
    return 0;
}

/* All levels hold or have just been evaluated. */
void
tree_settle(GuardTree *t)
{
    Quiet *q = &t->quiet;
    if (q->on) {
        q->rebindings = rebindings.count;
        q->events = t->events;
        return;
    }
    if (!is_steady(t) || !is_worth_it(t))
        return;
    if (q->looks == NULL && (q->looks = PyMem_Malloc((t->n_levels + 1) * sizeof *q->looks)) == NULL)
        return;
    if (q->order == NULL && put_in_order(t) < 0)
        return;
    uintptr_t *look = q->looks;
    q->stamp = 0;
    for (Py_ssize_t n = 1; n < t->n_levels; n++) {
        int32_t i = q->order[n];
        Level *level = &t->levels[i];
        const Level *above = &t->levels[t->nodes[t->nodes[level->node].parent].level];
        level->holding = level->recorded && (above->holding || !level->pinned);
        if (!level->recorded || !above->holding || !level->counted)
            *look++ = LOOK_AT_LEVEL(i);
        else if (level->tag != NULL) {
            *look++ = (uintptr_t)level->tag;
            if (*level->tag > q->stamp)
                q->stamp = *level->tag;
        }
    }
    *look = LOOK_NO_FURTHER;
    q->rebindings = rebindings.count;
    q->events = t->events;
    patience_begins(&q->patience, t->calls);
    q->on = 1;
}

/* ---- tensors ---- */

int
quiet_tensors_hold(GuardTree *t)
{
    Quiet *q = &t->quiet;
    if (!q->listed)
        return 0;
    const KnownTensor *end = q->known + q->n_known;
    if (tensors_changed(q->known, end) != end) {
        q->listed = 0;
        return 0;
    }
    for (Py_ssize_t i = 0; i < q->n_others; i++) {
        TensorTest *test = &t->tests[q->others[i]];
        if (tensors_failing(test, test + 1, t->values) == test)
            return 0;
    }
    return 1;
}

void
quiet_tensors_list(GuardTree *t)
{
    Quiet *q = &t->quiet;
    if (!rebindings.swaps)
        return;
    if (q->known == NULL) {
        q->known = PyMem_Malloc(t->n_tests * (sizeof *q->known + sizeof *q->images + sizeof *q->others));
        if (q->known == NULL)
            return;
        q->images = (Image *)(q->known + t->n_tests);
        q->others = (int32_t *)(q->images + t->n_tests);
    }
    Py_ssize_t n_images = q->n_known = q->n_others = 0;
    for (Py_ssize_t i = 0; i < t->n_tests; i++)
        if (t->levels[t->tests[i].level].holding
            && tensor_is_known(&t->tests[i], q->images, &n_images, &q->known[q->n_known]))
            q->n_known++;
        else
            q->others[q->n_others++] = (int32_t)i;
    q->listed = 1;
}

/* ---- module ---- */

/* For tests: make lists for smaller trees, or for none. */
static PyObject *
guard_quiet_from(PyObject *Py_UNUSED(m), PyObject *arg)
{
    Py_ssize_t levels = PyLong_AsSsize_t(arg), before = least_levels;
    if (levels == -1 && PyErr_Occurred())
        return NULL;
    least_levels = levels;
    return PyLong_FromSsize_t(before);
}

/* How often a __dict__ or __class__ was assigned, None where that is not counted. */
static PyObject *
guard_rebindings(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(ignored))
{
    if (!rebindings.counted)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(rebindings.count);
}

static PyObject *
guard_count_calls(PyObject *Py_UNUSED(m), PyObject *function)
{
    return PyBool_FromLong(rebindings_count_calls(function));
}

PyMethodDef quiet_functions[] = {
    {"guard_count_calls", guard_count_calls, METH_O,
     "guard_count_calls(function) -> are calls of a function or method of C code counted with the rebindings, from now on?"},
    {"guard_quiet_from", guard_quiet_from, METH_O,
     "guard_quiet_from(levels) -> the least number of levels before this call"},
    {"guard_rebindings", guard_rebindings, METH_NOARGS,
     "a number that grows with each assignment of a __dict__ or __class__ and each call that is counted, or None"},
    {NULL},
};

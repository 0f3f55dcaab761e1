/* From guards to steps: what sources share is found, and put in order.
 *
 * In: guards, objects with a `source` (or None) and a `check`; a source has an
 * `op`, a `base` (a source or None) and an `argument`; a check an `op`, a `cost`
 * and an `argument`, in which other sources stand for themselves. `op` and
 * `cost` belong to the class. Out: one step per distinct prefix, in preorder,
 * and the checks in the order in which they are to run.
 *
 * Two sources mean the same when their steps do: same base, same operation, and
 * arguments that are the same object or equal constants. No user code decides.
 */
#include "guards.h"

static PyObject *name_source, *name_check, *name_op, *name_cost, *name_base, *name_argument;

static int
bad(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

/* Room for one more element in an array that doubles. */
static int
grow(void **array, Py_ssize_t n, Py_ssize_t *capacity, size_t size)
{
    if (n < *capacity)
        return 0;
    Py_ssize_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *larger = wanted > INT32_MAX ? NULL : PyMem_Realloc(*array, wanted * size);
    if (larger == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *array = larger;
    *capacity = wanted;
    return 0;
}

/* ---- what the classes say ---- */

static int
class_int(PyTypeObject *type, PyObject *name, int *out)
{
    PyObject *value = PyObject_GetAttr((PyObject *)type, name);
    if (value == NULL)
        return -1;
    *out = PyLong_Check(value) ? (int)PyLong_AsLong(value) : -1;
    Py_DECREF(value);
    if (PyErr_Occurred())
        return -1;
    return *out < 0 ? bad("a source's or check's operation is a number") : 0;
}

/* `op` and, of a check, `cost`; remembered per class. */
static const LoweredClass *
class_of(Lowering *l, PyObject *o, int is_check)
{
    PyTypeObject *type = Py_TYPE(o);
    LoweredClass *known = &l->classes[((uintptr_t)type >> 5) % LOWERED_CLASSES];
    if (known->type != type) {
        int op, cost = 0;
        if (class_int(type, name_op, &op) < 0 || (is_check && class_int(type, name_cost, &cost) < 0))
            return NULL;
        Py_XSETREF(known->type, (PyTypeObject *)Py_NewRef((PyObject *)type));
        known->op = op;
        known->cost = cost;
    }
    return known;
}

/* ---- steps ---- */

/* Types whose equality and hash are C code: as keys, equal means equal. */
static int
is_plain(PyObject *o)
{
    return PyUnicode_CheckExact(o) || PyLong_CheckExact(o) || o == Py_None || PyBool_Check(o) || PyFloat_CheckExact(o)
        || PyBytes_CheckExact(o);
}

static Py_hash_t
meaning_hash(PyObject *o)
{
    if (is_plain(o))
        return PyObject_Hash(o);
    if (!PyTuple_CheckExact(o))
        return (Py_hash_t)((uintptr_t)o >> 4);
    Py_uhash_t hash = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++)
        hash = hash * 1000003 + (Py_uhash_t)meaning_hash(PyTuple_GET_ITEM(o, i));
    return (Py_hash_t)hash;
}

static int
same_meaning(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (Py_TYPE(a) != Py_TYPE(b))
        return 0;
    if (is_plain(a))
        return PyObject_RichCompareBool(a, b, Py_EQ) > 0;
    if (!PyTuple_CheckExact(a) || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b))
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++)
        if (!same_meaning(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)))
            return 0;
    return 1;
}

static int
new_step(Lowering *l, int op, int32_t parent, PyObject *argument, size_t hash)
{
    if (grow((void **)&l->steps, l->n_steps, &l->steps_room, sizeof *l->steps) < 0)
        return -1;
    int32_t made = (int32_t)l->n_steps++;
    l->steps[made] = (Step){.op = op, .parent = parent, .argument = Py_NewRef(argument), .hash = hash,
                            .child = -1, .last = -1, .next = -1, .cost = INT_MAX};
    if (made > 0) {
        Step *above = &l->steps[parent];
        if (above->last < 0)
            above->child = made;
        else
            l->steps[above->last].next = made;
        above->last = made;
    }
    return made;
}

/* Both tables are kept at most half full. */
static int
grow_tables(Lowering *l)
{
    size_t size = l->mask == 0 ? 256 : (l->mask + 1) * 2, mask = size - 1;
    int32_t *by_meaning = PyMem_Malloc(size * sizeof *by_meaning);
    KnownSource *by_source = PyMem_Calloc(size, sizeof *by_source);
    if (by_meaning == NULL || by_source == NULL) {
        PyMem_Free(by_meaning);
        PyMem_Free(by_source);
        PyErr_NoMemory();
        return -1;
    }
    memset(by_meaning, -1, size * sizeof *by_meaning);
    for (int32_t i = 1; i < l->n_steps; i++) {
        size_t at = l->steps[i].hash & mask;
        while (by_meaning[at] >= 0)
            at = (at + 1) & mask;
        by_meaning[at] = i;
    }
    for (size_t i = 0; l->mask != 0 && i <= l->mask; i++) {
        if (l->by_source[i].source == NULL)
            continue;
        size_t at = ((uintptr_t)l->by_source[i].source >> 4) & mask;
        while (by_source[at].source != NULL)
            at = (at + 1) & mask;
        by_source[at] = l->by_source[i];
    }
    PyMem_Free(l->by_meaning);
    PyMem_Free(l->by_source);
    l->by_meaning = by_meaning;
    l->by_source = by_source;
    l->mask = mask;
    return 0;
}

static KnownSource *
source_slot(Lowering *l, PyObject *source)
{
    size_t at = ((uintptr_t)source >> 4) & l->mask;
    while (l->by_source[at].source != NULL && l->by_source[at].source != source)
        at = (at + 1) & l->mask;
    return &l->by_source[at];
}

/* The step of one source below its base's: found, or made. */
static int
step_below(Lowering *l, int32_t parent, PyObject *source)
{
    const LoweredClass *class = class_of(l, source, 0);
    PyObject *argument = class == NULL ? NULL : PyObject_GetAttr(source, name_argument);
    if (argument == NULL)
        return -1;
    size_t hash = ((size_t)meaning_hash(argument) * 31 + (size_t)class->op) * 1000003 + (size_t)parent * 2654435761u;
    hash ^= hash >> 29;
    int found = -1;
    size_t at = hash & l->mask;
    for (; found < 0 && l->by_meaning[at] >= 0; at = (at + 1) & l->mask) {
        const Step *step = &l->steps[l->by_meaning[at]];
        if (step->hash != hash || step->parent != parent || step->op != class->op)
            continue;
        /* What is fixed is one object: another that is equal is not the same. */
        if (class->op == SOURCE_FIXED ? step->argument == argument : same_meaning(step->argument, argument))
            found = l->by_meaning[at];
    }
    if (found < 0) {
        found = new_step(l, class->op, parent, argument, hash);
        if (found >= 0)
            l->by_meaning[at] = found;
    }
    Py_DECREF(argument);
    return found;
}

/* The step of a source, made with its prefixes where new; -1 on error. */
static int
step_of(Lowering *l, PyObject *source)
{
    Py_ssize_t n = 0;
    int32_t step = 0;
    Py_INCREF(source);
    for (;;) { /* up to a known prefix: path holds references */
        if (source == Py_None) {
            Py_DECREF(source);
            break;
        }
        KnownSource *known = source_slot(l, source);
        if (known->source != NULL) {
            step = known->step;
            Py_DECREF(source);
            break;
        }
        if (grow((void **)&l->path, n, &l->path_room, sizeof *l->path) < 0) {
            Py_DECREF(source);
            step = -1;
            break;
        }
        l->path[n++] = source;
        source = PyObject_GetAttr(source, name_base);
        if (source == NULL) {
            step = -1;
            break;
        }
    }
    while (n > 0) { /* and down again; the table takes the references */
        PyObject *next = l->path[--n];
        if (step >= 0 && 2 * (size_t)(l->n_sources + 1) > l->mask && grow_tables(l) < 0)
            step = -1;
        if (step >= 0)
            step = step_below(l, step, next);
        KnownSource *known = step < 0 ? NULL : source_slot(l, next);
        if (known == NULL || known->source != NULL) {
            Py_DECREF(next);
            continue;
        }
        *known = (KnownSource){next, step};
        l->n_sources++;
    }
    return step;
}

/* ---- checks ---- */

/* The steps that a relation reads: `first` if any, then those of the sources. */
static int
relation_steps(Lowering *l, LoweredCheck *c, int32_t first, PyObject *sources)
{
    if (!PyTuple_CheckExact(sources))
        return bad("a relation needs a tuple of sources");
    c->nodes = PyMem_Calloc(PyTuple_GET_SIZE(sources) + 1, sizeof *c->nodes);
    if (c->nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (first >= 0)
        c->nodes[c->n_nodes++] = first;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sources); i++) {
        int step = step_of(l, PyTuple_GET_ITEM(sources, i));
        if (step < 0)
            return -1;
        c->nodes[c->n_nodes++] = step;
    }
    return 0;
}

static int
lower_check(Lowering *l, LoweredCheck *c)
{
    switch (c->op) {
    case CHECK_ALIASED:
    case CHECK_DISTINCT:
        return relation_steps(l, c, c->node, c->argument);
    case CHECK_APART:
    case CHECK_RELATION:
        if (!PyTuple_CheckExact(c->argument) || PyTuple_GET_SIZE(c->argument) != 2)
            return bad("a relation needs (sources, how)");
        return relation_steps(l, c, c->op == CHECK_APART ? c->node : -1, PyTuple_GET_ITEM(c->argument, 0));
    case CHECK_SAME:
    case CHECK_CALLBACK: {
        PyObject *none = PyTuple_New(0);
        int status = none == NULL ? -1 : relation_steps(l, c, c->node, none);
        Py_XDECREF(none);
        return status;
    }
    default:
        return 0;
    }
}

/* From now on the guard has another check, which means the same. */
int
replace_check(PyObject *guard, PyObject *check)
{
    return PyObject_SetAttr(guard, name_check, check);
}

/* Do checks of this kind consist of their argument? */
static int
is_shared(int op)
{
    return op == CHECK_TYPE_IS || op == CHECK_IS || op == CHECK_EQUAL || op == CHECK_LENGTH || op == CHECK_NO_KEY
        || op == CHECK_NO_ATTR || op == CHECK_NO_CLASS_ATTR;
}

/* A model's guards say the same few things of many objects, and are kept to
 * explain failures: one check will do for all that have the same argument. */
static int
share_check(Lowering *l, PyObject *guard, PyObject *check, PyObject *argument)
{
    size_t at = (((uintptr_t)argument >> 4) * 31 + ((uintptr_t)Py_TYPE(check) >> 5)) & l->known_mask;
    for (int tries = 0; tries < 4; tries++, at = (at + 1) & l->known_mask) {
        KnownCheck *known = &l->known[at];
        if (known->check == NULL) {
            *known = (KnownCheck){Py_NewRef(check), Py_NewRef(argument)};
            return 0;
        }
        if (known->argument == argument && Py_TYPE(known->check) == Py_TYPE(check))
            return known->check == check ? 0 : replace_check(guard, known->check);
    }
    return 0;
}

static int
lower_guard(Lowering *l, PyObject *guard, Py_ssize_t index)
{
    LoweredCheck *c = &l->checks[index];
    PyObject *check = PyObject_GetAttr(guard, name_check);
    const LoweredClass *class = check == NULL ? NULL : class_of(l, check, 1);
    int status = -1;
    if (class != NULL) {
        c->op = class->op;
        c->cost = class->cost;
        c->guard = (int32_t)index;
        c->argument = PyObject_GetAttr(check, name_argument);
        if (c->argument != NULL) {
            l->n_checks = index + 1;
            status = is_shared(c->op) ? share_check(l, guard, check, c->argument) : 0;
        }
    }
    Py_XDECREF(check);
    if (status < 0)
        return -1;
    PyObject *source = PyObject_GetAttr(guard, name_source);
    c->node = source == NULL ? -1 : step_of(l, source);
    Py_XDECREF(source);
    if (c->node < 0 || lower_check(l, c) < 0)
        return -1;
    if (c->cost < l->steps[c->node].cost)
        l->steps[c->node].cost = c->cost;
    return 0;
}

/* ---- the order ---- */

/* Among siblings leaves come first, then cheap checks, then who was made first. */
static uint64_t
step_rank(const Lowering *l, int32_t i)
{
    const Step *step = &l->steps[i];
    uint64_t cost = step->cost == INT_MAX ? 0 : (uint64_t)(step->cost & 0xffff);
    return (uint64_t)(step->child >= 0) << 60 | cost << 40 | (uint64_t)i;
}

static int
compare_ranks(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y); /* descending: the last one is taken from a stack first */
}

static int
number_steps(Lowering *l)
{
    uint64_t *stack = PyMem_Malloc(l->n_steps * sizeof *stack);
    l->order = PyMem_Malloc(l->n_steps * sizeof *l->order);
    if (stack == NULL || l->order == NULL) {
        PyMem_Free(stack);
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t n = 0, numbered = 0;
    stack[n++] = 0;
    while (n > 0) {
        int32_t at = (int32_t)(stack[--n] & UINT32_MAX);
        l->steps[at].number = (int32_t)numbered;
        l->order[numbered++] = at;
        Py_ssize_t start = n;
        for (int32_t child = l->steps[at].child; child >= 0; child = l->steps[child].next)
            stack[n++] = step_rank(l, child);
        if (n - start > 1)
            qsort(stack + start, n - start, sizeof *stack, compare_ranks);
    }
    PyMem_Free(stack);
    return 0;
}

/* By part and node; a type check makes the others meaningful: it comes first. */
static int
compare_checks(const void *a, const void *b)
{
    const LoweredCheck *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->guard > y->guard) - (x->guard < y->guard);
}

static void
order_checks(Lowering *l)
{
    for (Py_ssize_t i = 0; i < l->n_checks; i++) {
        LoweredCheck *c = &l->checks[i];
        c->node = l->steps[c->node].number;
        for (Py_ssize_t j = 0; j < c->n_nodes; j++)
            c->nodes[j] = l->steps[c->nodes[j]].number;
        int part = check_part((CheckOp)c->op);
        c->key = (uint64_t)part << 56;
        if (part < BY_POSTS)
            c->key |= (uint64_t)c->node << 20 | (uint64_t)(c->op != CHECK_TYPE_IS) << 16 | (uint64_t)(c->cost & 0xffff);
    }
    qsort(l->checks, l->n_checks, sizeof *l->checks, compare_checks);
}

/* ---- all of it ---- */

int
lower(Lowering *l, PyObject *guards, PyObject *outputs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(guards), n_outputs = outputs == NULL ? 0 : PyTuple_GET_SIZE(outputs);
    if (n > INT32_MAX / 2)
        return bad("too many guards");
    l->checks = PyMem_Calloc(n + 1, sizeof *l->checks);
    l->outputs = PyMem_Calloc(n_outputs + 1, sizeof *l->outputs);
    for (l->known_mask = 63; l->known_mask < (size_t)n && l->known_mask < 4095;)
        l->known_mask = l->known_mask * 2 + 1;
    l->known = PyMem_Calloc(l->known_mask + 1, sizeof *l->known);
    if (l->checks == NULL || l->outputs == NULL || l->known == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (grow_tables(l) < 0 || new_step(l, SOURCE_ROOT, 0, Py_None, 0) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (lower_guard(l, PyTuple_GET_ITEM(guards, i), i) < 0)
            return -1;
    for (; l->n_outputs < n_outputs; l->n_outputs++) {
        int step = step_of(l, PyTuple_GET_ITEM(outputs, l->n_outputs));
        if (step < 0)
            return -1;
        l->outputs[l->n_outputs] = step;
    }
    if (number_steps(l) < 0)
        return -1;
    order_checks(l);
    for (Py_ssize_t i = 0; i < n_outputs; i++)
        l->outputs[i] = l->steps[l->outputs[i]].number;
    return 0;
}

void
lowering_free(Lowering *l)
{
    for (Py_ssize_t i = 0; i < l->n_steps; i++)
        Py_DECREF(l->steps[i].argument);
    for (size_t i = 0; l->by_source != NULL && i <= l->mask; i++)
        Py_XDECREF(l->by_source[i].source);
    for (Py_ssize_t i = 0; i < l->n_checks; i++) {
        Py_DECREF(l->checks[i].argument);
        PyMem_Free(l->checks[i].nodes);
    }
    for (int i = 0; i < LOWERED_CLASSES; i++)
        Py_XDECREF(l->classes[i].type);
    PyMem_Free(l->steps);
    PyMem_Free(l->by_meaning);
    PyMem_Free(l->by_source);
    PyMem_Free(l->path);
    PyMem_Free(l->checks);
    PyMem_Free(l->order);
    PyMem_Free(l->outputs);
    PyMem_Free(l->specs);
    for (size_t i = 0; l->known != NULL && i <= l->known_mask; i++) {
        Py_XDECREF(l->known[i].check);
        Py_XDECREF(l->known[i].argument);
    }
    PyMem_Free(l->known);
}

int
lowering_init(void)
{
    struct { PyObject **where; const char *text; } names[] = {
        {&name_source, "source"}, {&name_check, "check"}, {&name_op, "op"},
        {&name_cost, "cost"}, {&name_base, "base"}, {&name_argument, "argument"},
    };
    for (size_t i = 0; i < Py_ARRAY_LENGTH(names); i++)
        if (*names[i].where == NULL && (*names[i].where = PyUnicode_InternFromString(names[i].text)) == NULL)
            return -1;
    return 0;
}

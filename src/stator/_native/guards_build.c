/* From steps in order to a tree of nodes, checks and levels. The operations are
 * numbered as in GUARD_SOURCES, GUARD_CHECKS and GUARD_EXPRS.
 */
#include "guards.h"

/* ---- nodes ---- */

static int
bad(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

static int
is_slot(PyObject *descriptor)
{
    if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
        return 0;
    PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
    return (member->type == T_OBJECT_EX || member->type == T_OBJECT) && !(member->flags & ~READONLY);
}

static int
node_argument(Node *node, PyObject *arg)
{
    switch (node->op) {
    case SOURCE_LOCAL:
    case SOURCE_INDEX:
    case SOURCE_KEY_AT:
    case SOURCE_HELD:
    case SOURCE_AHEAD:
        node->index = PyLong_AsSsize_t(arg);
        if (node->index == -1 && PyErr_Occurred())
            return -1;
        if (node->op != SOURCE_INDEX && node->index < 0)
            return bad("a source's index must not be negative");
        return 0;
    case SOURCE_ATTR:
    case SOURCE_MODULE_ATTR:
    case SOURCE_CLASS_ATTR:
        if (!PyUnicode_CheckExact(arg))
            return bad("an attribute's name must be a str");
        node->key = Py_NewRef(arg);
        PyUnicode_InternInPlace(&node->key);
        node->hash = PyObject_Hash(node->key);
        return 0;
    case SOURCE_KEY:
        node->key = Py_NewRef(arg);
        node->hash = PyObject_Hash(arg);
        return node->hash == -1 ? -1 : 0;
    case SOURCE_SLOT:
        if (!is_slot(arg))
            return bad("a slot source needs the descriptor of a member that holds an object");
        node->key = Py_NewRef(arg);
        return 0;
    case SOURCE_FIELD:
        if (!Py_IS_TYPE(arg, &PyGetSetDescr_Type) || ((PyGetSetDescrObject *)arg)->d_getset->get == NULL)
            return bad("a field source needs the descriptor of a C type's field");
        node->key = Py_NewRef(arg);
        return 0;
    case SOURCE_CALL:
        if (!PyTuple_CheckExact(arg) || PyTuple_GET_SIZE(arg) != 3
            || !PyCFunction_Check(PyTuple_GET_ITEM(arg, 0)) || !PyTuple_CheckExact(PyTuple_GET_ITEM(arg, 1)))
            return bad("a state source needs (C function, argument tuple, probe)");
        if (node->parent != 0)
            return bad("a state source belongs to the root");
        node->state = PyMem_Calloc(1, sizeof *node->state);
        if (node->state == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        node->key = Py_NewRef(arg);
        if ((PyCFunction_GET_FLAGS(PyTuple_GET_ITEM(arg, 0)) & ~METH_STATIC) == METH_NOARGS
            && PyTuple_GET_SIZE(PyTuple_GET_ITEM(arg, 1)) == 0)
            node->state->function = PyCFunction_GET_FUNCTION(PyTuple_GET_ITEM(arg, 0));
        if (PyTuple_GET_ITEM(arg, 2) == Py_None)
            return 0;
        node->state->probe = probe_of(PyTuple_GET_ITEM(arg, 2));
        return node->state->probe == NULL ? -1 : 0;
    default:
        node->key = Py_NewRef(arg);
        return 0;
    }
}

static int
read_nodes(GuardTree *t, const Lowering *l)
{
    t->nodes = PyMem_Calloc(l->n_steps, sizeof *t->nodes);
    if (t->nodes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < l->n_steps; i++) {
        const Step *step = &l->steps[l->order[i]];
        Node *node = &t->nodes[i];
        int32_t parent = l->steps[step->parent].number;
        t->n_nodes = i + 1;
        if (step->op < 0 || step->op >= SOURCE_COUNT || (step->op == SOURCE_ROOT) != (i == 0))
            return bad("no such source");
        if (i > 0 && t->nodes[parent].op == SOURCE_CALL)
            return bad("nothing can be read from a state source");
        node->op = (SourceOp)step->op;
        node->parent = parent;
        node->level = -1;
        node->guard = INT32_MAX;
        int is_start = node->op == SOURCE_LOCAL || node->op == SOURCE_FUNCTION || node->op == SOURCE_FIXED
            || node->op == SOURCE_CALL;
        if (i > 0 && is_start != (parent == 0))
            return bad("locals, the function, fixed objects and state are where sources start, all else is not");
        if (node_argument(node, step->argument) < 0)
            return -1;
        if (node->op == SOURCE_LOCAL && node->index >= t->n_locals)
            t->n_locals = node->index + 1;
    }
    return 0;
}

/* ---- checks ---- */

/* The nodes that the check compares or passes on. */
static int
node_list(GuardTree *t, Check *c, LoweredCheck *from)
{
    if (from->n_nodes == 0)
        return bad("a relation needs sources");
    if (c->op == CHECK_RELATION && from->n_nodes > RELATION_NODES)
        return bad("a relation reads too many nodes");
    for (Py_ssize_t i = 0; i < from->n_nodes; i++)
        if (from->nodes[i] == 0 || t->nodes[from->nodes[i]].op == SOURCE_CALL)
            return bad("a relation's source is out of range");
    c->nodes = from->nodes;
    c->n_nodes = (int32_t)from->n_nodes;
    from->nodes = NULL;
    return 0;
}

static int
key_list(Check *c, PyObject *keys)
{
    if (!PyTuple_CheckExact(keys))
        return bad("keys must be a tuple");
    c->arg = Py_NewRef(keys);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++)
        if (PyObject_Hash(PyTuple_GET_ITEM(keys, i)) == -1)
            return -1;
    return 0;
}

/* A model has many tensors of few shapes: what they must be like is kept once. */
static int
spec_of(GuardTree *t, Check *c, Lowering *l, PyObject *guards, PyObject *arg)
{
    if (t->specs == NULL) {
        l->specs_mask = 15;
        while (l->specs_mask < 2 * (size_t)l->n_checks)
            l->specs_mask = l->specs_mask * 2 + 1;
        t->specs = PyMem_Malloc(l->n_checks * sizeof *t->specs);
        l->specs = PyMem_Calloc(l->specs_mask + 1, sizeof *l->specs);
        if (t->specs == NULL || l->specs == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    TensorSpec *spec = tensor_spec_new(arg);
    if (spec == NULL)
        return -1;
    size_t at = tensor_spec_hash(spec) & l->specs_mask;
    for (; l->specs[at] != NULL; at = (at + 1) & l->specs_mask)
        if (tensor_spec_same(l->specs[at], spec)) {
            tensor_spec_free(spec);
            c->spec = l->specs[at];
            return replace_check(PyTuple_GET_ITEM(guards, c->guard), tensor_spec_description(c->spec));
        }
    c->spec = l->specs[at] = t->specs[t->n_specs++] = spec;
    return 0;
}

static int
check_argument(GuardTree *t, Check *c, Lowering *l, PyObject *guards, LoweredCheck *from)
{
    PyObject *arg = from->argument;
    switch (c->op) {
    case CHECK_TYPE_IS:
    case CHECK_SUBTYPE:
        if (!PyType_Check(arg))
            return bad("a type check needs a class");
        break;
    case CHECK_IS_WEAK:
        c->arg = PyWeakref_NewRef(arg, NULL);
        return c->arg == NULL ? -1 : 0;
    case CHECK_EQUAL:
        if (!constant_supported(arg)) {
            PyErr_Format(PyExc_TypeError, "no constant to compare with: %.200s", Py_TYPE(arg)->tp_name);
            return -1;
        }
        break;
    case CHECK_LENGTH:
        c->n = PyLong_AsSsize_t(arg);
        return c->n == -1 && PyErr_Occurred() ? -1 : 0;
    case CHECK_KEYS:
        return key_list(c, arg);
    case CHECK_NO_ATTR:
    case CHECK_NO_CLASS_ATTR:
        if (!PyUnicode_CheckExact(arg))
            return bad("an attribute's name must be a str");
        c->arg = Py_NewRef(arg);
        PyUnicode_InternInPlace(&c->arg);
        c->hash = PyObject_Hash(c->arg);
        return 0;
    case CHECK_ATTR_KEYS:
        if (!PyTuple_CheckExact(arg))
            return bad("attributes' names must be a tuple");
        break;
    case CHECK_SLOT_EMPTY:
        if (!is_slot(arg))
            return bad("a slot check needs the descriptor of a member that holds an object");
        break;
    case CHECK_HAS_KEY:
    case CHECK_NO_KEY:
        c->hash = PyObject_Hash(arg);
        if (c->hash == -1)
            return -1;
        break;
    case CHECK_TENSOR:
        return spec_of(t, c, l, guards, arg);
    case CHECK_ALIASED:
    case CHECK_DISTINCT:
        return node_list(t, c, from);
    case CHECK_RELATION:
        if (node_list(t, c, from) < 0)
            return -1;
        c->program = program_new(PyTuple_GET_ITEM(arg, 1), c->n_nodes);
        return c->program == NULL ? -1 : 0;
    case CHECK_APART:
        if (node_list(t, c, from) < 0)
            return -1;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(arg, 1), "nO", &c->written, &c->arg))
            return -1;
        Py_INCREF(c->arg);
        return 0;
    case CHECK_SAME:
        if (!PyTuple_CheckExact(arg) || PyTuple_GET_SIZE(arg) != 2)
            return bad("a value needs (object, what compares it)");
        /* fall through */
    case CHECK_CALLBACK:
        if (node_list(t, c, from) < 0)
            return -1;
        break;
    default:
        break;
    }
    c->arg = Py_NewRef(arg);
    return 0;
}

int
check_part(CheckOp op)
{
    switch (op) {
    case CHECK_TYPE_IS:
    case CHECK_IS:
    case CHECK_IS_WEAK:
    case CHECK_IS_NOT:
    case CHECK_EQUAL:
    case CHECK_SUBTYPE:
        return BY_NODE;
    case CHECK_TENSOR:
        return BY_TENSORS;
    case CHECK_ALIASED:
    case CHECK_DISTINCT:
    case CHECK_APART:
    case CHECK_RELATION:
        return BY_POSTS;
    case CHECK_SAME:
    case CHECK_CALLBACK:
        return BY_CALLBACKS;
    default:
        return BY_LEVEL;
    }
}

static int
read_checks(GuardTree *t, Lowering *l, PyObject *guards)
{
    t->checks = PyMem_Calloc(l->n_checks + 1, sizeof *t->checks);
    if (t->checks == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < l->n_checks; i++) {
        LoweredCheck *from = &l->checks[i];
        Check *c = &t->checks[i];
        if (from->op >= CHECK_COUNT)
            return bad("no such check");
        t->n_checks = i + 1;
        c->op = (CheckOp)from->op;
        c->node = from->node;
        c->guard = from->guard;
        int part = check_part(c->op);
        if (t->nodes[c->node].op == SOURCE_CALL && part != BY_NODE)
            return bad("state can be compared, nothing else");
        if (c->node == 0 && part != BY_POSTS)
            return bad("only a relation has no source of its own");
        if (check_argument(t, c, l, guards, from) < 0)
            return -1;
    }
    return 0;
}

/* Hand each part its checks. */
static void
share_checks(GuardTree *t, Level *contents)
{
    for (Py_ssize_t i = 0; i < t->n_checks; i++) {
        Check *c = &t->checks[i];
        Node *node = &t->nodes[c->node];
        switch (check_part(c->op)) {
        case BY_NODE:
            if (node->n_checks++ == 0)
                node->checks = c;
            break;
        case BY_LEVEL:
            if (contents[c->node].n_checks++ == 0)
                contents[c->node].checks = c;
            contents[c->node].uses |= check_uses(c);
            break;
        case BY_TENSORS:
            if (t->n_tensors++ == 0)
                t->tensors = c;
            if (node->n_tensors++ == 0)
                node->tensors = c;
            break;
        default:
            if (t->n_posts++ == 0)
                t->posts = c;
        }
        if (c->guard < node->guard)
            node->guard = c->guard;
        for (Py_ssize_t j = 0; j < c->n_nodes; j++)
            if (c->guard < t->nodes[c->nodes[j]].guard)
                t->nodes[c->nodes[j]].guard = c->guard;
    }
    for (Py_ssize_t i = t->n_nodes - 1; i > 0; i--)
        if (t->nodes[i].guard < t->nodes[t->nodes[i].parent].guard)
            t->nodes[t->nodes[i].parent].guard = t->nodes[i].guard;
}

/* ---- levels ---- */

/* Can the outcome of the node's own checks change while its value stays the
 * same object? A class without IMMUTABLETYPE lets its instances change class. */
static unsigned
type_uses(Node *node, int *mutable, int *fixed)
{
    unsigned uses = 0;
    *mutable = *fixed = 0;
    for (int32_t i = 0; i < node->n_checks; i++) {
        Check *c = &node->checks[i];
        uses |= check_uses(c);
        if (c->op == CHECK_SUBTYPE)
            *mutable = 1;
        else if (c->op == CHECK_TYPE_IS) {
            PyTypeObject *type = (PyTypeObject *)c->arg;
            if (!(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) || PyType_IsSubtype(type, &PyModule_Type))
                *mutable = 1;
            else
                *fixed = 1;
        }
    }
    return uses;
}

/* Room for the records, all void. */
static int
make_words(GuardTree *t)
{
    Py_ssize_t n = 1;
    for (Py_ssize_t i = 1; i < t->n_levels; i++)
        n += t->levels[i].n_words = level_room(&t->levels[i], t->watchers);
    t->words = PyMem_Malloc(n * sizeof *t->words);
    t->word_levels = PyMem_Malloc(n * sizeof *t->word_levels);
    if (t->words == NULL || t->word_levels == NULL) {
        t->n_levels = 0;
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 1; i < t->n_levels; i++) {
        t->levels[i].words = t->words + at;
        for (int32_t j = 0; j < t->levels[i].n_words; j++, at++) {
            t->words[at] = word_never;
            t->word_levels[at] = (int32_t)i;
        }
    }
    t->words[at] = word_never;
    t->word_levels[at] = (int32_t)t->n_levels;
    return 0;
}

/* Of the level above a node. */
static unsigned
node_uses(const Node *node)
{
    if (node->op == SOURCE_CODE)
        for (int32_t i = 0; i < node->n_checks; i++)
            if (node->checks[i].op == CHECK_IS)
                return USES_CODE;
    return source_uses(node->op);
}

static int
make_levels(GuardTree *t)
{
    Py_ssize_t n = t->n_nodes;
    Level *contents = PyMem_Calloc(n, sizeof *contents); /* by node */
    t->children = PyMem_Calloc(n, sizeof *t->children);
    if (contents == NULL || t->children == NULL)
        goto no_memory;
    share_checks(t, contents);
    for (Py_ssize_t i = 1; i < n; i++) {
        contents[t->nodes[i].parent].n_children++;
        contents[t->nodes[i].parent].uses |= node_uses(&t->nodes[i]);
    }
    contents[0].uses = USES_RAW; /* locals are new each time */
    int32_t *next = t->children;
    for (Py_ssize_t i = 0; i < n; i++) {
        int mutable;
        unsigned uses = type_uses(&t->nodes[i], &mutable, &contents[i].fixed_type);
        int above_is_recorded = i > 0 && !(contents[t->nodes[i].parent].uses & USES_RAW);
        if (i == 0 || contents[i].n_children > 0 || contents[i].n_checks > 0 || (mutable && above_is_recorded))
            t->nodes[i].level = (int32_t)t->n_levels++;
        contents[i].uses |= uses;
        contents[i].children = next;
        next += contents[i].n_children;
        contents[i].n_children = 0;
        t->nodes[i].deferred = above_is_recorded;
    }
    /* State first: asking for it calls foreign C code, when nothing is borrowed yet. */
    for (int state = 1; state >= 0; state--)
        for (Py_ssize_t i = 1; i < n; i++)
            if ((t->nodes[i].op == SOURCE_CALL) == state) {
                Level *above = &contents[t->nodes[i].parent];
                above->children[above->n_children++] = (int32_t)i;
            }
    t->levels = PyMem_Calloc(t->n_levels, sizeof *t->levels);
    if (t->levels == NULL) {
        t->n_levels = 0;
        goto no_memory;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        int32_t index = t->nodes[i].level;
        if (index < 0)
            continue;
        t->levels[index] = contents[i];
        t->levels[index].node = (int32_t)i;
        watch_init(&t->levels[index], &t->events);
    }
    PyMem_Free(contents);
    return make_words(t);
no_memory:
    PyMem_Free(contents);
    PyErr_NoMemory();
    return -1;
}

/* Which tensors are tested after the levels. */
static int
make_tests(GuardTree *t)
{
    t->tests = PyMem_Malloc((t->n_tensors + 1) * sizeof *t->tests);
    if (t->tests == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < t->n_tensors; i++) {
        const Check *c = &t->tensors[i];
        if (!tensor_spec_may_be_native(c->spec))
            t->foreign_tensors = 1;
        else if (t->nodes[c->node].deferred)
            t->tests[t->n_tests++] = (TensorTest){
                .spec = c->spec,
                .value = c->node,
                .guard = c->guard,
                .level = t->nodes[t->nodes[c->node].parent].level,
            };
    }
    return 0;
}

/* Scratch space of the DISTINCT and ALIASED checks: a hash table, then values. */
static int
make_scratch(GuardTree *t)
{
    size_t most = 0;
    for (Py_ssize_t i = 0; i < t->n_posts; i++)
        if ((size_t)t->posts[i].n_nodes > most)
            most = t->posts[i].n_nodes;
    t->distinct_mask = 15;
    while (t->distinct_mask < 2 * most)
        t->distinct_mask = t->distinct_mask * 2 + 1;
    t->distinct = PyMem_Calloc(t->distinct_mask + 1 + most, sizeof *t->distinct);
    if (t->distinct == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static int
read_outputs(GuardTree *t, Lowering *l)
{
    t->outputs = l->outputs;
    t->n_outputs = l->n_outputs;
    l->outputs = NULL;
    for (Py_ssize_t i = 0; i < t->n_outputs; i++) {
        int32_t node = t->outputs[i];
        if (node == 0 || t->nodes[node].op == SOURCE_CALL)
            return bad("an output's source is out of range");
        for (; node > 0 && t->nodes[node].guard == INT32_MAX; node = t->nodes[node].parent)
            t->nodes[node].guard = ~(int32_t)i;
    }
    return 0;
}

static void
number_value(GuardTree *t, int32_t *node, int32_t *n)
{
    Node *read = &t->nodes[*node];
    if (read->value == 0)
        read->value = ++*n;
    *node = read->value;
}

/* Give the values that are read after the levels their places, side by side in the
 * order in which they are read: a model's parameters are thousands. */
static int
make_values(GuardTree *t)
{
    int32_t n = 0;
    for (Py_ssize_t i = 0; i < t->n_tests; i++)
        number_value(t, &t->tests[i].value, &n);
    for (Py_ssize_t i = 0; i < t->n_outputs; i++)
        number_value(t, &t->outputs[i], &n);
    for (Py_ssize_t i = 0; i < t->n_posts; i++)
        for (int32_t j = 0; j < t->posts[i].n_nodes; j++)
            number_value(t, &t->posts[i].nodes[j], &n);
    for (Py_ssize_t i = 0; i < t->n_tensors; i++) {
        int32_t node = t->tensors[i].node; /* asked for by eval_foreign() */
        number_value(t, &node, &n);
    }
    t->values = PyMem_Calloc(n + 1, sizeof *t->values);
    if (t->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Fill an empty tree; -1 with an exception when the guards are malformed. */
int
tree_fill(GuardTree *t, PyObject *guards, PyObject *outputs)
{
    Lowering *l = PyMem_Calloc(1, sizeof *l);
    if (l == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int status = lower(l, guards, outputs) < 0 || read_nodes(t, l) < 0 || read_checks(t, l, guards) < 0 || make_levels(t) < 0
            || make_tests(t) < 0 || make_scratch(t) < 0 || read_outputs(t, l) < 0
            || make_values(t) < 0 || state_number(t) < 0
        ? -1
        : 0;
    lowering_free(l);
    PyMem_Free(l);
    return status;
}

/* Evaluation.
 *
 * A tree is a list of levels in preorder, the contents of one node each. A
 * check walks the list once: a level whose record still holds is skipped, any
 * other one is evaluated, which fetches and checks its children and hands their
 * values to the levels below. So a change re-evaluates the changed level and
 * nothing else, and the first evaluation is the case in which all changed.
 *
 * Invariant: when the walk reaches a level, its value is what the sources give
 * now, because the level above was verified or evaluated in this
 * walk. Values are borrowed; no Python code runs before the last phase.
 *
 * After the levels come the checks that no version can settle: tensor metadata,
 * relations between nodes, and last what runs Python code (tensors that cannot
 * be read natively, callbacks), on values held for the purpose.
 */
#include "guards.h"
#include "guards_layout.h"

static int
fail(GuardTree *t, int32_t guard, PyObject *value)
{
    t->failed_guard = guard;
    if (t->explaining)
        Py_XSETREF(t->failed_value, Py_XNewRef(value));
    return 0;
}

/* ---- levels ---- */

/* The state of something outside the object graph, asked of a C function. */
static int
eval_call(GuardTree *t, Node *node)
{
    StateCall *state = node->state;
    uint64_t answer = 0;
    if (state->probe != NULL) {
        answer = probe_ask(state->probe);
        if (state->settled && state->answer == answer)
            return 1;
    }
    PyObject *function = PyTuple_GET_ITEM(node->key, 0), *args = PyTuple_GET_ITEM(node->key, 1);
    PyObject *value = state->function != NULL
        ? state->function(PyCFunction_GET_SELF(function), NULL)
        : PyObject_Vectorcall(function, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args), NULL);
    int pass = 1;
    if (value == NULL) {
        PyErr_Clear();
        return fail(t, node->guard, NULL);
    }
    for (int32_t i = 0; pass && i < node->n_checks; i++) {
        const Check *c = &node->checks[i];
        if (!((c->op == CHECK_EQUAL && c->arg == value) || check_value(c, value)))
            pass = fail(t, c->guard, value);
    }
    Py_DECREF(value);
    /* Asked again: the function may have run code that changes the state. */
    if (pass && state->probe != NULL && probe_settles(state->probe, answer) && probe_ask(state->probe) == answer) {
        state->settled = 1;
        state->answer = answer;
    }
    return pass;
}

/* The commonest check and source are in line here: a call of a small function
 * takes about as long as the rest of its dispatch. */
static inline int
eval_check(const Check *c, PyObject *value)
{
    return c->op == CHECK_TYPE_IS ? (PyObject *)Py_TYPE(value) == c->arg : check_value(c, value);
}

static inline PyObject *
eval_source(Node *node, PyObject *base, PyObject *const *locals, PyObject *function)
{
    return node->op == SOURCE_LOCAL && locals != NULL ? locals[node->index]
                                                      : fetch(node, base, locals, function);
}

static inline int
eval_checks(GuardTree *t, Node *node, PyObject *value)
{
    for (int32_t i = 0; i < node->n_checks; i++)
        if (!eval_check(&node->checks[i], value))
            return fail(t, node->checks[i].guard, value);
    return 1;
}

static int
eval_level(GuardTree *t, Py_ssize_t index, PyObject *const *locals, PyObject *function)
{
    Level *level = &t->levels[index];
    Node *owner = &t->nodes[level->node];
    PyObject *base = level->value;
    t->evaluated++;
    if (level->recorded)
        level_forget(level);
    if (level->holding)
        t->quiet.on = 0;
    if (!eval_checks(t, owner, base)) /* the type may have changed */
        return 0;
    for (int32_t i = 0; i < level->n_checks; i++)
        if (!check_contents(&level->checks[i], base))
            return fail(t, level->checks[i].guard, base);
    for (int32_t i = index == 0 ? t->first_child : 0; i < level->n_children; i++) {
        Node *node = &t->nodes[level->children[i]];
        if (node->op == SOURCE_CALL) {
            if (!eval_call(t, node))
                return 0;
            continue;
        }
        PyObject *value = eval_source(node, base, locals, function);
        if (value == NULL)
            return fail(t, node->guard, NULL);
        t->values[node->value] = value;
        if (node->level >= 0) {
            Level *below = &t->levels[node->level];
            if (below->value != value || below->pinned) {
                below->value = value;
                level_forget(below);
            }
        }
        if (!eval_checks(t, node, value))
            return 0;
        if (!node->deferred)
            for (int32_t j = 0; j < node->n_tensors; j++)
                if (tensor_spec_is_native(node->tensors[j].spec) && !tensor_matches(node->tensors[j].spec, value))
                    return fail(t, node->tensors[j].guard, value);
    }
    if (t->shortcuts && !(level->uses & USES_RAW))
        level_arm(t, level);
    return 1;
}

/* All levels below the root's. What a word points to is looked at only when
 * those before it hold, or their levels were evaluated: only then it is there. */
static int
eval_levels(GuardTree *t, PyObject *const *locals, PyObject *function)
{
    const Word *word = t->words;
    for (;;) {
        while (*word->at == word->expected)
            word++;
        int32_t index = t->word_levels[word - t->words];
        if (index == t->n_levels)
            return 1;
        if (!eval_level(t, index, locals, function))
            return 0;
        word = t->levels[index].words + t->levels[index].n_words;
    }
}

static inline int
words_hold(const Level *level)
{
    for (int32_t i = 0; i < level->n_words; i++)
        if (*level->words[i].at != level->words[i].expected)
            return 0;
    return 1;
}

/* The same for a quiet tree: 1 and 0 as above, -1 when all levels must be walked. */
static int
eval_quietly(GuardTree *t, PyObject *const *locals, PyObject *function)
{
    const Quiet *q = &t->quiet;
    if (q->rebindings != rebindings.count || rebindings.under_way != 0 || q->events != t->events)
        return -1;
    const uint64_t stamp = q->stamp;
    for (const uintptr_t *look = q->looks;; look++) {
        if (!(*look & 1)) {
            if (*(const uint64_t *)*look > stamp)
                return -1;
            continue;
        }
        if (*look == LOOK_NO_FURTHER)
            return 1;
        Py_ssize_t index = *look >> 1;
        if (words_hold(&t->levels[index]))
            continue;
        if (!eval_level(t, index, locals, function))
            return 0;
        if (!q->on)
            return -1;
    }
}

/* ---- relations between nodes ---- */

static int
all_distinct(GuardTree *t, PyObject *const *values, Py_ssize_t n)
{
    if (n <= 4) {
        for (Py_ssize_t i = 0; i < n; i++)
            for (Py_ssize_t j = 0; j < i; j++)
                if (values[i] == values[j])
                    return 0;
        return 1;
    }
    size_t mask = t->distinct_mask;
    memset(t->distinct, 0, (mask + 1) * sizeof *t->distinct);
    for (Py_ssize_t i = 0; i < n; i++) {
        size_t at = ((uintptr_t)values[i] >> 4) & mask;
        for (; t->distinct[at] != NULL; at = (at + 1) & mask)
            if (t->distinct[at] == values[i])
                return 0;
        t->distinct[at] = values[i];
    }
    return 1;
}

static int
eval_related(GuardTree *t, const Check *c, PyObject *const *values)
{
    switch (c->op) {
    case CHECK_ALIASED:
        for (Py_ssize_t i = 1; i < c->n_nodes; i++)
            if (values[i] != values[0])
                return 0;
        return 1;
    case CHECK_DISTINCT:
        return all_distinct(t, values, c->n_nodes);
    case CHECK_APART:
        return tensors_apart(values, c->n_nodes, c->written, (uintptr_t *)t->distinct, t->distinct_mask);
    case CHECK_RELATION:
        return program_holds(c->program, values);
    case CHECK_SAME:
        return values[0] == PyTuple_GET_ITEM(c->arg, 0);
    default:
        return 0;
    }
}

/* May the check run Python code, given the values now? */
static int
is_foreign(GuardTree *t, const Check *c)
{
    if (c->op == CHECK_TENSOR)
        return !tensor_spec_is_native(c->spec);
    if (c->op == CHECK_RELATION && program_reads_tensors(c->program)) {
        for (Py_ssize_t i = 0; i < c->n_nodes; i++)
            if (!tensor_is_native(t->values[c->nodes[i]]))
                return 1;
        return 0;
    }
    if (c->op == CHECK_APART) {
        for (Py_ssize_t i = 0; i < c->n_nodes; i++)
            if (!tensor_has_storage(t->values[c->nodes[i]]))
                return 1;
        return 0;
    }
    if (c->op == CHECK_SAME) /* another object may be equal, which only Python can tell */
        return t->values[c->nodes[0]] != PyTuple_GET_ITEM(c->arg, 0);
    return c->op == CHECK_CALLBACK;
}

static int
eval_posts(GuardTree *t, int *foreign)
{
    PyObject *small[RELATION_NODES];
    for (Py_ssize_t i = 0; i < t->n_posts; i++) {
        const Check *c = &t->posts[i];
        if (is_foreign(t, c)) {
            *foreign = 1;
            continue;
        }
        PyObject **values = c->n_nodes <= RELATION_NODES ? small : t->distinct + t->distinct_mask + 1;
        for (Py_ssize_t j = 0; j < c->n_nodes; j++)
            values[j] = t->values[c->nodes[j]];
        if (!eval_related(t, c, values))
            return fail(t, c->guard, c->n_nodes > 0 ? values[0] : NULL);
    }
    return 1;
}

/* ---- what runs Python code ---- */

static int
call_back(GuardTree *t, const Check *c, PyObject *const *values)
{
    t->callbacks_run++;
    PyObject *function = c->op == CHECK_SAME ? PyTuple_GET_ITEM(c->arg, 1) : c->arg;
    PyObject *result = PyObject_Vectorcall(function, values, c->n_nodes, NULL);
    int truth = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    if (truth < 0) {
        PyErr_WriteUnraisable(function);
        truth = 0;
    }
    return truth;
}

/* Values are held from here on: Python code may change or free anything, and
 * other threads may run, even this tree's check. */
static int
eval_foreign(GuardTree *t)
{
    Py_ssize_t n = 0, capacity = t->n_tensors;
    for (Py_ssize_t i = 0; i < t->n_posts; i++)
        capacity += t->posts[i].n_nodes;
    PyObject **held = PyMem_Malloc((capacity + 1) * sizeof *held);
    const Check **checks = PyMem_Malloc((capacity + 1) * sizeof *checks); /* whose value it is */
    if (held == NULL || checks == NULL) {
        PyMem_Free(held);
        PyMem_Free(checks);
        return 0;
    }
    for (Py_ssize_t i = 0; i < t->n_tensors + t->n_posts; i++) {
        const Check *c = i < t->n_tensors ? &t->tensors[i] : &t->posts[i - t->n_tensors];
        if (!is_foreign(t, c))
            continue;
        for (Py_ssize_t j = 0; j < (c->op == CHECK_TENSOR ? 1 : c->n_nodes); j++) {
            int32_t value = c->op == CHECK_TENSOR ? t->nodes[c->node].value : c->nodes[j];
            checks[n] = c;
            held[n++] = Py_NewRef(t->values[value]);
        }
    }
    Py_INCREF(t);
    int pass = 1;
    for (Py_ssize_t i = 0; pass && t->alive && i < n;) {
        const Check *c = checks[i];
        PyObject *const *values = &held[i];
        while (i < n && checks[i] == c)
            i++;
        pass = c->op == CHECK_TENSOR ? (t->callbacks_run++, tensor_matches(c->spec, values[0]))
            : c->op == CHECK_CALLBACK || c->op == CHECK_SAME || c->op == CHECK_APART ? call_back(t, c, values)
            : eval_related(t, c, values);
        if (!pass)
            fail(t, c->guard, values[0]);
    }
    pass = pass && t->alive;
    while (n > 0)
        Py_DECREF(held[--n]);
    PyMem_Free(held);
    PyMem_Free(checks);
    Py_DECREF(t);
    return pass;
}

/* ---- the check ---- */

/* Trees that check nothing but parameters themselves need no levels. */
int
tree_is_flat(const GuardTree *t)
{
    if (t->n_levels != 1 || t->n_tensors != 0 || t->n_posts != 0 || t->nodes[0].n_checks != 0
        || t->levels[0].n_checks != 0)
        return 0;
    for (int32_t i = 0; i < t->levels[0].n_children; i++) {
        const Node *node = &t->nodes[t->levels[0].children[i]];
        if (node->op != SOURCE_LOCAL || node->n_tensors != 0)
            return 0;
    }
    return 1;
}

static inline int
eval_flat(GuardTree *t, PyObject *const *locals)
{
    const Level *level = &t->levels[0];
    for (int32_t i = 0; i < level->n_children; i++) {
        Node *node = &t->nodes[level->children[i]];
        PyObject *value = t->values[node->value] = locals[node->index];
        if (value == NULL)
            return fail(t, node->guard, NULL);
        if (!eval_checks(t, node, value))
            return 0;
    }
    return 1;
}

static int
eval_tests(GuardTree *t, int quietly)
{
    if (quietly && quiet_tensors_hold(t))
        return 1;
    TensorTest *end = t->tests + t->n_tests, *failing = tensors_failing(t->tests, end, t->values);
    if (failing != end)
        return fail(t, failing->guard, t->values[failing->value]);
    if (quietly)
        quiet_tensors_list(t);
    return 1;
}

/* All but what runs Python code; *foreign says whether there is such. */
static int
eval_native(GuardTree *t, PyObject *const *locals, PyObject *function, int *foreign)
{
    if (t->n_types != 0 && !types_unchanged(t))
        tree_forget(t);
    if (!eval_level(t, 0, locals, function))
        return 0;
    int quietly = t->quiet.on ? eval_quietly(t, locals, function) : -1, pass = quietly;
    if (quietly < 0) {
        t->quiet.listed = 0;
        if ((pass = eval_levels(t, locals, function)) == 1)
            tree_settle(t);
    }
    if (!pass)
        return 0;
    if (t->n_tensors != 0 && (t->foreign_tensors || !tensors_are_native()))
        *foreign = 1;
    if (t->n_tests != 0 && tensors_are_native() && !eval_tests(t, quietly > 0))
        return 0;
    return t->n_posts == 0 || eval_posts(t, foreign);
}

int
guard_tree_check(PyObject *tree, PyObject *const *locals, PyObject *function, unsigned known)
{
    GuardTree *t = (GuardTree *)tree;
    int foreign = 0;
    if (!t->alive)
        return 0;
    t->calls++;
    t->checked++;
    if (t->flat)
        return eval_flat(t, locals);
    t->first_child = known != 0 && known == t->state ? t->n_states : 0;
    if (!eval_native(t, locals, function, &foreign))
        return 0;
    if (!foreign)
        return 1;
    if (!eval_foreign(t))
        return 0;
    /* Python code ran: the outputs' values must be read again. */
    t->first_child = 0;
    return t->n_outputs == 0 || eval_native(t, locals, function, &foreign);
}

unsigned
guard_tree_state(PyObject *tree)
{
    return ((GuardTree *)tree)->state;
}

Py_ssize_t
guard_tree_locals(PyObject *tree)
{
    return ((GuardTree *)tree)->n_locals;
}

PyObject *
guard_tree_outputs(PyObject *tree)
{
    GuardTree *t = (GuardTree *)tree;
    int collecting = PyGC_Disable(); /* on 3.11 allocating may run finalizers */
    PyObject *values = PyTuple_New(t->n_outputs);
    if (collecting)
        PyGC_Enable();
    for (Py_ssize_t i = 0; values != NULL && i < t->n_outputs; i++)
        PyTuple_SET_ITEM(values, i, Py_NewRef(t->values[t->outputs[i]]));
    return values;
}

Fetched
guard_tree_fetched(PyObject *tree)
{
    GuardTree *t = (GuardTree *)tree;
    return (Fetched){t->values, t->outputs, t->n_outputs};
}

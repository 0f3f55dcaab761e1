/* An index of a bucket's entries, for buckets in which many differ in one thing.
 *
 * Without one, entries are tried one after the other. Where they demand different
 * things of one parameter, and most do, the value that a call has for it leads to
 * the few that can hold; those that demand nothing of it are tried after these.
 * An index never changes: it belongs to one tuple of entries.
 */
#include "dispatch.h"

#define WORTH 4 /* entries, before an index pays */

struct Index {
    Py_ssize_t refs;
    PyObject *entries;
    Py_ssize_t parameter;
    DemandKind kind;
    uint64_t keys;      /* of tensors, see demand_number */
    Py_ssize_t n;
    size_t mask;
    int32_t *table;     /* hash table: the first entry with a number; -1: none */
    int32_t *next;      /* of each entry, the next with the same number; -1: none */
    int32_t *others;    /* entries without a number */
    Py_ssize_t n_others;
    uint64_t *numbers;  /* of each entry */
};

void
index_release(Index *self)
{
    if (self != NULL && --self->refs == 0) {
        Py_XDECREF(self->entries);
        PyMem_Free(self->numbers);
        PyMem_Free(self);
    }
}

int
index_traverse(const Index *self, visitproc visit, void *arg)
{
    if (self != NULL)
        Py_VISIT(self->entries);
    return 0;
}

static size_t
slot_of_number(const Index *self, uint64_t number)
{
    size_t at = (number ^ number >> 32) & self->mask;
    while (self->table[at] >= 0 && self->numbers[self->table[at]] != number)
        at = (at + 1) & self->mask;
    return at;
}

static Index *
index_new(PyObject *entries)
{
    Py_ssize_t n = PyTuple_GET_SIZE(entries);
    size_t size = 8;
    while (size < 2 * (size_t)n)
        size *= 2;
    Index *self = PyMem_Calloc(1, sizeof *self);
    uint64_t *numbers = PyMem_Malloc(n * sizeof *numbers + (2 * n + size) * sizeof(int32_t));
    if (self == NULL || numbers == NULL) {
        PyMem_Free(self);
        PyMem_Free(numbers);
        return NULL;
    }
    self->refs = 1;
    self->entries = Py_NewRef(entries);
    self->n = n;
    self->mask = size - 1;
    self->numbers = numbers;
    self->next = (int32_t *)(numbers + n);
    self->others = self->next + n;
    self->table = self->others + n;
    return self;
}

/* By one demand. How many entries a search tries, summed over one search for
 * each of them. */
static Py_ssize_t
index_fill(Index *self, Py_ssize_t parameter, DemandKind kind)
{
    Py_ssize_t tried = 0;
    self->parameter = parameter;
    self->kind = kind;
    self->n_others = 0;
    int first = 1;
    memset(self->table, 0xff, (self->mask + 1) * sizeof *self->table);
    for (Py_ssize_t i = self->n - 1; i >= 0; i--) { /* so that the newest comes first */
        PyObject *tree = ((Entry *)PyTuple_GET_ITEM(self->entries, i))->guards;
        Demand demand;
        if (tree == NULL || !guard_tree_demand(tree, parameter, kind, &demand)
            || (kind == DEMAND_SIZES && !first && demand.keys != self->keys)) {
            self->others[self->n_others++] = (int32_t)i;
            continue;
        }
        self->keys = demand.keys;
        first = 0;
        self->numbers[i] = demand.number;
        size_t at = slot_of_number(self, demand.number);
        self->next[i] = self->table[at];
        self->table[at] = (int32_t)i;
        for (int32_t j = (int32_t)i; j >= 0; j = self->next[j])
            tried++;
    }
    for (Py_ssize_t i = 0; i < self->n_others / 2; i++) { /* the newest first, here too */
        int32_t other = self->others[i];
        self->others[i] = self->others[self->n_others - 1 - i];
        self->others[self->n_others - 1 - i] = other;
    }
    return tried + self->n_others * (self->n_others + 1) / 2;
}

Index *
index_of(PyObject *entries, Py_ssize_t n_parameters)
{
    static const DemandKind kinds[] = {DEMAND_SIZES, DEMAND_CONSTANT, DEMAND_OBJECT};
    Py_ssize_t n = PyTuple_GET_SIZE(entries);
    if (n < WORTH)
        return NULL;
    Index *self = index_new(entries);
    if (self == NULL)
        return NULL;
    Py_ssize_t fewest = PY_SSIZE_T_MAX, parameter = 0;
    DemandKind kind = kinds[0];
    for (Py_ssize_t i = 0; i < n_parameters; i++) {
        for (size_t k = 0; k < Py_ARRAY_LENGTH(kinds); k++) {
            Py_ssize_t tried = index_fill(self, i, kinds[k]);
            if (tried < fewest) {
                fewest = tried;
                parameter = i;
                kind = kinds[k];
            }
        }
    }
    if (fewest > n * n / 4) { /* one after the other would try n * n / 2 */
        index_release(self);
        return NULL;
    }
    index_fill(self, parameter, kind);
    return self;
}

static Entry *
try_entry(const Index *self, int32_t i, PyObject *const *values, PyObject *function, PyObject **fetched)
{
    Entry *entry = (Entry *)PyTuple_GET_ITEM(self->entries, i);
    return entry_holds(entry, values, function, 0, fetched) ? (Entry *)Py_NewRef((PyObject *)entry) : NULL;
}

Entry *
index_search(Index *self, PyObject *const *values, PyObject *function, PyObject **fetched)
{
    Entry *found = NULL;
    uint64_t number;
    self->refs++; /* guards may run Python code, which may change the bucket */
    int told = demand_number(self->kind, self->keys, values[self->parameter], &number);
    if (told < 0)
        for (Py_ssize_t i = 0; found == NULL && i < self->n; i++)
            found = try_entry(self, (int32_t)i, values, function, fetched);
    if (told > 0)
        for (int32_t i = self->table[slot_of_number(self, number)]; found == NULL && i >= 0; i = self->next[i])
            found = try_entry(self, i, values, function, fetched);
    for (Py_ssize_t i = 0; told >= 0 && found == NULL && i < self->n_others; i++)
        found = try_entry(self, self->others[i], values, function, fetched);
    index_release(self);
    return found;
}

/* Demands: what a tree asks of one parameter, as a number.
 *
 * Entries of one function often differ in one thing: the shape of the first
 * tensor, an int, the object. A value that fulfils a tree's demand gives the
 * same number, so an entry with another number need not be tried. Equal numbers
 * say nothing: the guards decide.
 */
#include "guards_tensor.h"

#define MIX(hash, word) (((hash) ^ (uint64_t)(word)) * 0x9E3779B97F4A7C15u)

static uint64_t
sizes_number(const int64_t *sizes, int64_t n)
{
    uint64_t hash = MIX(0, n);
    for (int64_t i = 0; i < n; i++)
        hash = MIX(hash ^ hash >> 29, sizes[i]);
    return hash;
}

/* Types whose objects are equal in the sense of guards only if type and hash
 * are; hashing them runs no code of the program. Not float: a nan is a nan. */
static int
constant_number(PyObject *value, uint64_t *number)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type != &PyLong_Type && type != &PyUnicode_Type && type != &PyBytes_Type && type != &PyBool_Type
        && value != Py_None)
        return 0;
    Py_hash_t hash = PyObject_Hash(value);
    if (hash == -1) {
        PyErr_Clear(); /* memory */
        return -1;
    }
    *number = MIX(MIX(0, (uintptr_t)type), hash);
    return 1;
}

static uint64_t
object_number(PyObject *object)
{
    return MIX(0, (uintptr_t)object >> 4);
}

static int
check_demand(const Check *c, Demand *out)
{
    switch (c->op) {
    case CHECK_TENSOR:
        out->kind = DEMAND_SIZES;
        const int64_t *sizes = tensor_spec_sizes(c->spec, &out->n_sizes, &out->keys);
        if (sizes == NULL)
            return 0;
        out->number = sizes_number(sizes, out->n_sizes);
        return 1;
    case CHECK_EQUAL:
        out->kind = DEMAND_CONSTANT;
        return constant_number(c->arg, &out->number) == 1;
    case CHECK_IS:
        out->kind = DEMAND_OBJECT;
        out->number = object_number(c->arg);
        return 1;
    case CHECK_IS_WEAK: /* once dead it never holds again, whatever is at that address */
        out->kind = DEMAND_OBJECT;
        out->number = object_number(((PyWeakReference *)c->arg)->wr_object);
        return 1;
    default:
        return 0;
    }
}

int
guard_tree_demand(PyObject *tree, Py_ssize_t parameter, DemandKind kind, Demand *out)
{
    GuardTree *t = (GuardTree *)tree;
    const Level *root = &t->levels[0];
    for (int32_t i = 0; t->alive && i < root->n_children; i++) {
        const Node *node = &t->nodes[root->children[i]];
        if (node->op != SOURCE_LOCAL || node->index != parameter)
            continue;
        for (int32_t j = 0; j < node->n_tensors + node->n_checks; j++) {
            const Check *c = j < node->n_tensors ? &node->tensors[j] : &node->checks[j - node->n_tensors];
            if (check_demand(c, out) && out->kind == kind)
                return 1;
        }
    }
    return 0;
}

int
demand_number(DemandKind kind, uint64_t keys, PyObject *value, uint64_t *number)
{
    if (value == NULL)
        return 0;
    if (kind == DEMAND_OBJECT) {
        *number = object_number(value);
        return 1;
    }
    if (kind == DEMAND_CONSTANT)
        return constant_number(value, number);
    if (!tensors_are_native())
        return -1;
    int64_t n, *sizes;
    /* The key set first: torch may run Python, or fail, to tell others' sizes. */
    if (!PyObject_TypeCheck(value, torch_api.base) || impl_of(value) == NULL || keys_of(impl_of(value)) != keys
        || torch_api.dim(handle_of(value), &n) || torch_api.sizes(handle_of(value), &sizes))
        return 0;
    *number = sizes_number(sizes, n);
    return 1;
}

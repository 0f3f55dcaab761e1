/* Integer relations between symbols, as postfix programs on int64.
 *
 * A program holds when it runs to its end without overflow, division by zero or
 * a leaf that is no integer, and leaves a value other than 0. Semantics are
 * Python's: // and % round towards minus infinity, comparisons give 0 or 1.
 */
#include "guards.h"

#define EXPR_OPS(X)                                                                                \
    X(CONST) X(INT) X(LEN) X(SIZE) X(STRIDE) X(OFFSET)                                             \
    X(ADD) X(SUB) X(MUL) X(FLOORDIV) X(MOD) X(NEG) X(ABS) X(MIN) X(MAX)                            \
    X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(AND) X(OR) X(NOT)

enum {
#define X(name) EXPR_##name,
    EXPR_OPS(X)
#undef X
    EXPR_COUNT
};

const char *const expr_names[] = {
#define X(name) #name,
    EXPR_OPS(X)
#undef X
    NULL,
};

#define STACK 64

typedef struct {
    int op;
    int32_t node;      /* of a leaf: index into the check's nodes */
    Py_ssize_t dim;
    int64_t constant;
} Instruction;

struct Program {
    Py_ssize_t n;
    int extents; /* reads sizes, strides or offsets of tensors */
    Instruction code[];
};

static int
pops(int op)
{
    if (op <= EXPR_OFFSET)
        return 0;
    return op == EXPR_NEG || op == EXPR_ABS || op == EXPR_NOT ? 1 : 2;
}

/* From a sequence of (op, node, argument); leaves name one of `n_nodes` nodes. */
Program *
program_new(PyObject *code, Py_ssize_t n_nodes)
{
    PyObject *items = PySequence_Tuple(code);
    if (items == NULL)
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(items), depth = 0;
    Program *p = PyMem_Malloc(sizeof *p + n * sizeof *p->code);
    if (p == NULL) {
        Py_DECREF(items);
        PyErr_NoMemory();
        return NULL;
    }
    p->n = n;
    p->extents = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Instruction *in = &p->code[i];
        long long argument;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(items, i), "iiL", &in->op, &in->node, &argument))
            goto error;
        in->constant = argument;
        in->dim = (Py_ssize_t)argument;
        int is_leaf = in->op > EXPR_CONST && in->op <= EXPR_OFFSET;
        p->extents |= in->op >= EXPR_SIZE && in->op <= EXPR_OFFSET;
        if (in->op < 0 || in->op >= EXPR_COUNT || (depth -= pops(in->op)) < 0 || ++depth > STACK
            || (is_leaf && (in->node < 0 || in->node >= n_nodes))) {
            PyErr_SetString(PyExc_ValueError, "malformed integer expression");
            goto error;
        }
    }
    if (depth != 1) {
        PyErr_SetString(PyExc_ValueError, "malformed integer expression");
        goto error;
    }
    Py_DECREF(items);
    return p;
error:
    Py_DECREF(items);
    PyMem_Free(p);
    return NULL;
}

void
program_free(Program *p)
{
    PyMem_Free(p);
}

static int
leaf(const Instruction *in, PyObject *value, int64_t *out)
{
    if (in->op == EXPR_INT) {
        int overflow;
        if (!PyLong_CheckExact(value))
            return 0;
        *out = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow;
    }
    if (in->op == EXPR_LEN)
        return (*out = length_of(value)) >= 0;
    if (in->op == EXPR_OFFSET)
        return tensor_offset(value, out);
    return tensor_extent(value, in->op == EXPR_STRIDE, in->dim, out);
}

static int
divide(int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    if (b == 0)
        return 0;
    if (b == -1) { /* the one quotient that may overflow */
        *remainder = 0;
        return !__builtin_sub_overflow((int64_t)0, a, quotient);
    }
    int64_t q = a / b, r = a % b;
    if (r != 0 && (r < 0) != (b < 0)) {
        q--;
        r += b;
    }
    *quotient = q;
    *remainder = r;
    return 1;
}

static int
binary(int op, int64_t a, int64_t b, int64_t *out)
{
    int64_t other;
    switch (op) {
    case EXPR_ADD: return !__builtin_add_overflow(a, b, out);
    case EXPR_SUB: return !__builtin_sub_overflow(a, b, out);
    case EXPR_MUL: return !__builtin_mul_overflow(a, b, out);
    case EXPR_FLOORDIV: return divide(a, b, out, &other);
    case EXPR_MOD: return b == -1 ? (*out = 0, 1) : divide(a, b, &other, out);
    case EXPR_MIN: *out = a < b ? a : b; return 1;
    case EXPR_MAX: *out = a > b ? a : b; return 1;
    case EXPR_EQ: *out = a == b; return 1;
    case EXPR_NE: *out = a != b; return 1;
    case EXPR_LT: *out = a < b; return 1;
    case EXPR_LE: *out = a <= b; return 1;
    case EXPR_GT: *out = a > b; return 1;
    case EXPR_GE: *out = a >= b; return 1;
    case EXPR_AND: *out = a && b; return 1;
    case EXPR_OR: *out = a || b; return 1;
    default: return 0;
    }
}

static int
unary(int op, int64_t a, int64_t *out)
{
    if (op == EXPR_NOT) {
        *out = !a;
        return 1;
    }
    if (op == EXPR_ABS && a >= 0) {
        *out = a;
        return 1;
    }
    return !__builtin_sub_overflow((int64_t)0, a, out);
}

int
program_reads_tensors(const Program *p)
{
    return p->extents;
}

/* `values` are those of the nodes the program was made for. */
int
program_holds(const Program *p, PyObject *const *values)
{
    int64_t stack[STACK];
    int top = 0;
    for (Py_ssize_t i = 0; i < p->n; i++) {
        const Instruction *in = &p->code[i];
        int ok;
        if (in->op == EXPR_CONST) {
            stack[top++] = in->constant;
            ok = 1;
        }
        else if (pops(in->op) == 0)
            ok = leaf(in, values[in->node], &stack[top++]);
        else if (pops(in->op) == 1)
            ok = unary(in->op, stack[top - 1], &stack[top - 1]);
        else {
            top--;
            ok = binary(in->op, stack[top - 1], stack[top], &stack[top - 1]);
        }
        if (!ok)
            return 0;
    }
    return stack[0] != 0;
}

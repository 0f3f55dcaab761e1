/* Relations between symbols, as postfix programs on int64 and double.
 *
 * A program holds when it runs to its end without overflow, division by zero or
 * a leaf of another type, and leaves a value other than 0. Semantics are
 * Python's: // and % round towards minus infinity, comparisons give 0 or 1.
 * Which values are doubles, the operations say (those with an F work on them);
 * what is infinite or no number does not hold. An int that a double can't hold
 * exactly does not become one: there Python compares and divides more exactly
 * than C.
 */
#include "guards.h"

#include <math.h>

#define EXPR_OPS(X)                                                                                \
    X(FLOAT) X(CONST) X(REAL) X(INT) X(LEN) X(SIZE) X(STRIDE) X(OFFSET)                            \
    X(ADD) X(SUB) X(MUL) X(FLOORDIV) X(MOD) X(NEG) X(ABS) X(MIN) X(MAX)                            \
    X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(AND) X(OR) X(NOT)                                        \
    X(TOFLOAT) X(FNEG) X(FABS) X(FSQRT) X(FLOG2)                                                   \
    X(FFLOOR) X(FCEIL) X(FTRUNC) X(FROUND)                                                         \
    X(TRUEDIV) X(FADD) X(FSUB) X(FMUL) X(FDIV) X(FPOW) X(FMIN) X(FMAX)                             \
    X(FEQ) X(FNE) X(FLT) X(FLE) X(FGT) X(FGE)

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
#define EXACT ((int64_t)1 << 53) /* as far as a double tells integers apart */

typedef union {
    int64_t i;
    double d;
} Value;

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
    if (op >= EXPR_TOFLOAT && op <= EXPR_FROUND)
        return 1;
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
            PyErr_SetString(PyExc_ValueError, "malformed expression");
            goto error;
        }
    }
    if (depth != 1) {
        PyErr_SetString(PyExc_ValueError, "malformed expression");
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
leaf(const Instruction *in, PyObject *value, Value *found)
{
    int64_t *out = &found->i;
    if (in->op == EXPR_REAL) {
        if (!PyFloat_CheckExact(value))
            return 0;
        found->d = PyFloat_AS_DOUBLE(value);
        return 1;
    }
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

static int
to_double(int64_t a, double *out)
{
    *out = (double)a;
    return a >= -EXACT && a <= EXACT;
}

/* To the nearest integer, of two as near the even one: round() of CPython. */
static double
nearest(double a)
{
    double found = round(a);
    return fabs(a - found) == 0.5 ? 2.0 * round(a / 2.0) : found;
}

static int
to_integer(double a, int64_t *out)
{
    if (!(fabs(a) < 9223372036854775808.0))
        return 0;
    *out = (int64_t)a;
    return 1;
}

static int
unary_double(int op, Value a, Value *out)
{
    switch (op) {
    case EXPR_TOFLOAT: return to_double(a.i, &out->d);
    case EXPR_FNEG: out->d = -a.d; return 1;
    case EXPR_FABS: out->d = fabs(a.d); return 1;
    case EXPR_FSQRT: out->d = sqrt(a.d); return a.d >= 0.0;
    case EXPR_FLOG2: out->d = log2(a.d); return a.d > 0.0;
    case EXPR_FFLOOR: return to_integer(floor(a.d), &out->i);
    case EXPR_FCEIL: return to_integer(ceil(a.d), &out->i);
    case EXPR_FTRUNC: return to_integer(trunc(a.d), &out->i);
    case EXPR_FROUND: return to_integer(nearest(a.d), &out->i);
    default: return 0;
    }
}

static int
quotient(Value a, Value b, double *out)
{
    double dividend, divisor;
    if (b.i == 0 || !to_double(a.i, &dividend) || !to_double(b.i, &divisor))
        return 0;
    *out = dividend / divisor;
    return 1;
}

static int
binary_double(int op, Value a, Value b, Value *out)
{
    switch (op) {
    case EXPR_TRUEDIV: return quotient(a, b, &out->d);
    case EXPR_FADD: out->d = a.d + b.d; break;
    case EXPR_FSUB: out->d = a.d - b.d; break;
    case EXPR_FMUL: out->d = a.d * b.d; break;
    case EXPR_FDIV:
        if (b.d == 0.0)
            return 0;
        out->d = a.d / b.d;
        break;
    case EXPR_FPOW: /* other bases have rules of their own */
        if (!(a.d > 0.0))
            return 0;
        out->d = pow(a.d, b.d);
        break;
    case EXPR_FMIN: out->d = b.d < a.d ? b.d : a.d; break;
    case EXPR_FMAX: out->d = b.d > a.d ? b.d : a.d; break;
    case EXPR_FEQ: out->i = a.d == b.d; return 1;
    case EXPR_FNE: out->i = a.d != b.d; return 1;
    case EXPR_FLT: out->i = a.d < b.d; return 1;
    case EXPR_FLE: out->i = a.d <= b.d; return 1;
    case EXPR_FGT: out->i = a.d > b.d; return 1;
    case EXPR_FGE: out->i = a.d >= b.d; return 1;
    default: return 0;
    }
    return isfinite(out->d);
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
    Value stack[STACK];
    int top = 0;
    for (Py_ssize_t i = 0; i < p->n; i++) {
        const Instruction *in = &p->code[i];
        int ok = 1, takes = pops(in->op);
        if (in->op <= EXPR_CONST)
            stack[top++].i = in->constant; /* of a double: its bits */
        else if (takes == 0)
            ok = leaf(in, values[in->node], &stack[top++]);
        else if (takes == 1)
            ok = in->op < EXPR_TOFLOAT ? unary(in->op, stack[top - 1].i, &stack[top - 1].i)
                                       : unary_double(in->op, stack[top - 1], &stack[top - 1]);
        else {
            Value *a = &stack[top - 2], b = stack[top - 1];
            ok = in->op < EXPR_TOFLOAT ? binary(in->op, a->i, b.i, &a->i)
                                       : binary_double(in->op, *a, b, a);
            top--;
        }
        if (!ok)
            return 0;
    }
    return stack[0].i != 0;
}

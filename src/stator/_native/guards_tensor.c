/* Tensor metadata without torch headers, so that one build serves every torch.
 *
 * A tensor's PyObject holds a pointer to its TensorImpl, and the impl a word
 * with its dispatch key set; guards_calibrate.c finds out where. Sizes, strides,
 * dtype and device come from torch's stable C functions (aoti_torch_get_*). When
 * anything is missing or any answer is wrong, tensors are matched by a Python
 * function instead.
 *
 * Order of a match: type, key set, requires_grad, dtype, device index, sizes,
 * strides; the device's type is part of the key set. The key set comes before
 * the C functions because they are slow, or run Python, on tensors of other
 * kinds (fake tensors, wrapper subclasses).
 *
 * A model has thousands of parameters, and five calls for each take most of the
 * time of a check. So where calibration found the same facts in the impl itself,
 * they are read there: a tensor whose words are right is accepted. Before that is
 * done for a spec, words and functions must have agreed on a tensor that matched
 * it, that is, on one with the same key set; and what the words do not accept is
 * left to the functions.
 */
#include "guards_tensor.h"

TorchApi torch_api;

/* May tensors be accepted by the words of their impl? */
enum { BY_FUNCTIONS, UNTRIED, BY_WORDS };

struct TensorSpec {
    PyTypeObject *type;
    PyObject *description;  /* what the Python match gets */
    int native;
    int way;
    int requires_grad;      /* -1: any */
    uint64_t keys;
    int32_t dtype, device_index;
    int has_strides, is_static;
    int64_t ndim;
    int64_t *sizes, *strides; /* -1: any; one block */
};

#define ANY (-1)

/* ---- reading one tensor ---- */

static int
extents_match(const int64_t *expected, const int64_t *actual, int64_t n, int is_static)
{
    if (is_static)
        return memcmp(expected, actual, n * sizeof *actual) == 0;
    for (int64_t i = 0; i < n; i++)
        if (expected[i] != ANY && expected[i] != actual[i])
            return 0;
    return 1;
}

static inline int
requires_grad(const char *impl)
{
    if (torch_api.autograd != 0) {
        const char *meta = *(char *const *)(impl + torch_api.autograd);
        if (meta == NULL)
            return 0;
        if (torch_api.leaf != 0 && meta[torch_api.leaf] == 1)
            return 1;
    }
    return torch_api.requires_grad(impl);
}

static inline int
words_match(const TensorSpec *s, const char *impl)
{
    const int64_t *extents = (const int64_t *)(impl + torch_api.extents);
    const char *numbers = impl + torch_api.type_number;
    if (extents[0] != s->ndim || *(const uint16_t *)numbers != s->dtype
        || ((const int8_t *)numbers)[3] != s->device_index)
        return 0;
    for (int64_t i = 0; i < s->ndim; i++)
        if (s->sizes[i] != extents[1 + i] && s->sizes[i] != ANY)
            return 0;
    if (s->has_strides)
        for (int64_t i = 0; i < s->ndim; i++)
            if (s->strides[i] != extents[1 + INLINE_DIMS + i] && s->strides[i] != ANY)
                return 0;
    return 1;
}

static int
functions_match(const TensorSpec *s, void *handle)
{
    int32_t word;
    int64_t ndim, *extents;
    if (torch_api.dtype(handle, &word) || word != s->dtype)
        return 0;
    if (torch_api.device_index(handle, &word) || word != s->device_index)
        return 0;
    if (torch_api.dim(handle, &ndim) || ndim != s->ndim)
        return 0;
    if (torch_api.sizes(handle, &extents) || !extents_match(s->sizes, extents, ndim, s->is_static))
        return 0;
    return !s->has_strides
        || (torch_api.strides(handle, &extents) == 0 && extents_match(s->strides, extents, ndim, s->is_static));
}

static inline int
matches_natively(TensorSpec *s, PyObject *tensor)
{
    char *impl = impl_of(tensor);
    if (impl == NULL || keys_of(impl) != s->keys)
        return 0;
    if (s->requires_grad != ANY && requires_grad(impl) != s->requires_grad)
        return 0;
    if (s->way == BY_WORDS && words_match(s, impl))
        return 1;
    if (!functions_match(s, handle_of(tensor)))
        return 0;
    if (s->way == UNTRIED)
        s->way = words_match(s, impl) ? BY_WORDS : BY_FUNCTIONS;
    return 1;
}

static int
matches_in_python(const TensorSpec *s, PyObject *tensor)
{
    if (torch_api.match == NULL)
        return 0;
    PyObject *result = PyObject_CallFunctionObjArgs(torch_api.match, s->description, tensor, NULL);
    int truth = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    if (truth < 0)
        PyErr_Clear(); /* metadata that cannot be read doesn't match */
    return truth > 0;
}

int
tensor_matches(TensorSpec *s, PyObject *value)
{
    if (Py_TYPE(value) != s->type)
        return 0;
    return tensor_spec_is_native(s) ? matches_natively(s, value) : matches_in_python(s, value);
}

/* ---- many tensors ---- */

static int
test_holds(TensorTest *test, PyObject *value)
{
    TensorSpec *s = test->spec;
    if (!matches_natively(s, value))
        return 0;
    test->impl = impl_of(value);
    test->meta = torch_api.autograd == 0 || s->requires_grad == ANY
        ? NULL : *(char **)(test->impl + torch_api.autograd);
    return 1;
}

/* Object, impl and what the impl points to are three reads in a row, each of
 * which may miss the caches: memory is asked for some tests ahead, where it was
 * the last time. */
#define AHEAD 16

static inline void
ask_for(const char *impl)
{
    __builtin_prefetch(impl + 64);
    __builtin_prefetch(impl + 128);
    __builtin_prefetch(impl + torch_api.keys);
}

TensorTest *
tensors_failing(TensorTest *test, TensorTest *end, PyObject *const *values)
{
    for (; test < end; test++) {
        if (end - test > AHEAD) {
            ask_for(test[AHEAD].impl);
            if (test[AHEAD].meta != NULL) {
                __builtin_prefetch(test[AHEAD].impl);
                __builtin_prefetch(test[AHEAD].meta + torch_api.leaf);
            }
        }
        PyObject *value = values[test->value];
        if (Py_TYPE(value) != test->spec->type || !test_holds(test, value))
            break;
    }
    return test;
}

/* The words from the first to the last that a match reads; the last pair may overlap
 * the one before. */
static inline const Pair *
image_pair(const char *impl, int i)
{
    return (const Pair *)(impl + (i < IMAGE_PAIRS - 1 ? torch_api.image + i * (Py_ssize_t)sizeof(Pair) : torch_api.image_last));
}

static inline int
same_image(const Image *image, const char *impl)
{
    Pair differs = {0, 0};
#pragma GCC unroll 8
    for (int i = 0; i < IMAGE_PAIRS; i++)
        differs |= *image_pair(impl, i) ^ image->pairs[i];
    return (differs[0] | differs[1]) == 0;
}

#define IMAGES_ASKED 16

int
tensor_is_known(const TensorTest *test, Image *images, Py_ssize_t *n, KnownTensor *out)
{
    const TensorSpec *s = test->spec;
    if (torch_api.image == 0 || s->way != BY_WORDS || !words_match(s, test->impl))
        return 0;
    Py_ssize_t i = *n - 1;
    while (i >= 0 && i >= *n - IMAGES_ASKED && !same_image(&images[i], test->impl))
        i--;
    if (i < 0 || i < *n - IMAGES_ASKED) {
        i = (*n)++;
        for (int j = 0; j < IMAGE_PAIRS; j++)
            images[i].pairs[j] = *image_pair(test->impl, j);
    }
    *out = (KnownTensor){test->impl, &images[i], s->requires_grad};
    return 1;
}

const KnownTensor *
tensors_changed(const KnownTensor *known, const KnownTensor *end)
{
    for (; known < end; known++) {
        if (end - known > AHEAD)
            ask_for(known[AHEAD].impl);
        if (!same_image(known->image, known->impl)
            || (known->requires_grad != ANY && requires_grad(known->impl) != known->requires_grad))
            break;
    }
    return known;
}

int
tensors_are_native(void)
{
    return torch_api.native;
}

int
tensor_spec_is_native(const TensorSpec *s)
{
    return s->native && torch_api.native;
}

int
tensor_spec_may_be_native(const TensorSpec *s)
{
    return s->native;
}

int
grad_warns(PyObject *o)
{
    if (!torch_api.native || torch_api.leaf == 0 || torch_api.base == NULL
        || !PyObject_TypeCheck(o, torch_api.base) || impl_of(o) == NULL)
        return 0;
    const char *meta = *(char *const *)(impl_of(o) + torch_api.autograd);
    if (meta == NULL || meta[torch_api.leaf] == 1 || !torch_api.requires_grad(impl_of(o)))
        return 0;
    /* A view made without grad, of a leaf, is one itself; only torch can tell. */
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("is_leaf")) == NULL) {
        PyErr_Clear();
        return 0;
    }
    PyObject *field = _PyType_Lookup(torch_api.base, name);
    if (field == NULL || !Py_IS_TYPE(field, &PyGetSetDescr_Type))
        return 0;
    PyGetSetDef *def = ((PyGetSetDescrObject *)field)->d_getset;
    PyObject *leaf = def->get(o, def->closure);
    if (leaf == NULL)
        PyErr_Clear();
    Py_XDECREF(leaf);
    return leaf == Py_False;
}

int
tensor_is_native(PyObject *tensor)
{
    if (torch_api.base == NULL || !PyObject_TypeCheck(tensor, torch_api.base))
        return 1; /* no tensor: a size fails at once */
    return torch_api.native && impl_of(tensor) != NULL && !(keys_of(impl_of(tensor)) & torch_api.python_keys);
}

static int
number_in_python(PyObject *value, int64_t *out)
{
    int ok = value != NULL && PyLong_CheckExact(value);
    if (ok) {
        int overflow;
        *out = PyLong_AsLongLongAndOverflow(value, &overflow);
        ok = !overflow;
    }
    Py_XDECREF(value);
    PyErr_Clear();
    return ok;
}

/* One size or stride of a tensor; 0 when it has none such. */
int
tensor_extent(PyObject *tensor, int strides, Py_ssize_t dim, int64_t *out)
{
    if (torch_api.base == NULL || !PyObject_TypeCheck(tensor, torch_api.base))
        return 0;
    if (!tensor_is_native(tensor))
        return number_in_python(PyObject_CallMethod(tensor, strides ? "stride" : "size", "n", dim), out);
    int64_t ndim, *extents;
    void *handle = handle_of(tensor);
    if (torch_api.dim(handle, &ndim) || dim < 0 || dim >= ndim
        || (strides ? torch_api.strides : torch_api.sizes)(handle, &extents))
        return 0;
    *out = extents[dim];
    return 1;
}

/* How many elements into its storage a tensor begins. */
int
tensor_offset(PyObject *tensor, int64_t *out)
{
    if (torch_api.base == NULL || !PyObject_TypeCheck(tensor, torch_api.base))
        return 0;
    if (!tensor_is_native(tensor))
        return number_in_python(PyObject_CallMethod(tensor, "storage_offset", NULL), out);
    return torch_api.storage && !torch_api.offset(handle_of(tensor), out);
}

/* Where a tensor's storage begins, 0 when the tensor is empty or has no memory. */
int
tensor_storage(PyObject *tensor, uintptr_t *out)
{
    void *handle = handle_of(tensor), *data;
    int64_t offset;
    int32_t dtype;
    if (torch_api.data(handle, &data) || torch_api.offset(handle, &offset) || torch_api.dtype(handle, &dtype))
        return 0;
    *out = data == NULL ? 0 : (uintptr_t)data - (uintptr_t)offset * torch_api.element_size(dtype);
    return 1;
}

int
tensor_has_storage(PyObject *tensor)
{
    return torch_api.base != NULL && PyObject_TypeCheck(tensor, torch_api.base) && torch_api.storage
        && tensor_is_native(tensor);
}

/* Do those that are written to, the first ones, share their storages with no other
 * tensor? What is no tensor has no storage to tell, so the answer is no. The table has
 * room for twice as many storages, and is overwritten. */
int
tensors_apart(PyObject *const *tensors, Py_ssize_t n, Py_ssize_t written, uintptr_t *table, size_t mask)
{
    memset(table, 0, (mask + 1) * sizeof *table);
    for (Py_ssize_t i = 0; i < n; i++) {
        uintptr_t storage;
        if (torch_api.base == NULL || !PyObject_TypeCheck(tensors[i], torch_api.base)
            || !tensor_storage(tensors[i], &storage))
            return 0;
        if (storage == 0)
            continue;
        size_t at = (storage >> 6) & mask;
        for (; table[at] != 0; at = (at + 1) & mask)
            if (table[at] == storage)
                return 0;
        if (i < written)
            table[at] = storage;
    }
    return 1;
}

/* ---- specs ---- */

static int
read_extents(PyObject *tuple, int64_t *out, int *is_static)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (item == Py_None) {
            *is_static = 0;
            out[i] = ANY;
            continue;
        }
        out[i] = PyLong_AsLongLong(item);
        if (out[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* From (type, keys, requires_grad, dtype, device index, sizes, strides, native, description). */
TensorSpec *
tensor_spec_new(PyObject *arg)
{
    PyObject *type, *sizes, *strides, *description;
    unsigned long long keys;
    int requires_grad, dtype, device_index, native;
    if (!PyArg_ParseTuple(arg, "O!KiiiO!OpO", &PyType_Type, &type, &keys, &requires_grad, &dtype, &device_index,
                          &PyTuple_Type, &sizes, &strides, &native, &description))
        return NULL;
    if (torch_api.base == NULL || !PyType_IsSubtype((PyTypeObject *)type, torch_api.base)) {
        PyErr_SetString(PyExc_TypeError, "a tensor check needs torch, and a tensor type");
        return NULL;
    }
    Py_ssize_t ndim = PyTuple_GET_SIZE(sizes);
    if (strides != Py_None && (!PyTuple_Check(strides) || PyTuple_GET_SIZE(strides) != ndim)) {
        PyErr_SetString(PyExc_ValueError, "as many strides as sizes, or None");
        return NULL;
    }
    TensorSpec *s = PyMem_Calloc(1, sizeof *s);
    if (s == NULL || (s->sizes = PyMem_Calloc(2 * ndim + 1, sizeof *s->sizes)) == NULL) {
        PyMem_Free(s);
        PyErr_NoMemory();
        return NULL;
    }
    s->strides = s->sizes + ndim;
    s->ndim = ndim;
    s->is_static = 1;
    s->has_strides = strides != Py_None;
    s->type = (PyTypeObject *)Py_NewRef(type);
    s->description = Py_NewRef(description);
    s->native = native;
    s->way = native && torch_api.direct && ndim <= INLINE_DIMS ? UNTRIED : BY_FUNCTIONS;
    s->keys = keys;
    s->requires_grad = requires_grad;
    s->dtype = dtype;
    s->device_index = device_index;
    if (read_extents(sizes, s->sizes, &s->is_static) < 0
        || (s->has_strides && read_extents(strides, s->strides, &s->is_static) < 0)) {
        tensor_spec_free(s);
        return NULL;
    }
    return s;
}

void
tensor_spec_free(TensorSpec *s)
{
    if (s == NULL)
        return;
    Py_XDECREF(s->type);
    Py_XDECREF(s->description);
    PyMem_Free(s->sizes);
    PyMem_Free(s);
}

int
tensor_spec_traverse(TensorSpec *s, visitproc visit, void *arg)
{
    Py_VISIT(s->type);
    Py_VISIT(s->description);
    return 0;
}

/* Those that Python matches have their meaning in the description alone. */
int
tensor_spec_same(const TensorSpec *a, const TensorSpec *b)
{
    return a->native && b->native && a->type == b->type && a->way == b->way && a->requires_grad == b->requires_grad
        && a->keys == b->keys && a->dtype == b->dtype && a->device_index == b->device_index
        && a->has_strides == b->has_strides && a->ndim == b->ndim
        && memcmp(a->sizes, b->sizes, 2 * a->ndim * sizeof *a->sizes) == 0;
}

PyObject *
tensor_spec_description(const TensorSpec *s)
{
    return s->description;
}

const int64_t *
tensor_spec_sizes(const TensorSpec *s, int64_t *n, uint64_t *keys)
{
    for (int64_t i = 0; i < s->ndim; i++)
        if (s->sizes[i] == ANY)
            return NULL;
    *n = s->ndim;
    *keys = s->keys;
    return tensor_spec_is_native(s) ? s->sizes : NULL;
}

size_t
tensor_spec_hash(const TensorSpec *s)
{
    size_t hash = ((uintptr_t)s->type >> 4) ^ s->keys ^ (size_t)s->dtype ^ (size_t)s->requires_grad << 8;
    for (int64_t i = 0; i < 2 * s->ndim; i++)
        hash = hash * 1000003 + (size_t)s->sizes[i];
    return hash ^ hash >> 23;
}

/* ---- module ---- */

/* tensor_codes(tensor) -> (dtype, device index) as torch numbers them, or None. */
static PyObject *
tensor_codes(PyObject *Py_UNUSED(m), PyObject *tensor)
{
    int32_t dtype, index;
    if (!torch_api.native || !PyObject_TypeCheck(tensor, torch_api.base) || !tensor_is_native(tensor)
        || torch_api.dtype(handle_of(tensor), &dtype) || torch_api.device_index(handle_of(tensor), &index))
        Py_RETURN_NONE;
    return Py_BuildValue("ii", dtype, index);
}

PyMethodDef tensor_functions[] = {
    {"tensor_codes", tensor_codes, METH_O, "tensor_codes(tensor) -> (dtype, device index) or None"},
    {NULL},
};

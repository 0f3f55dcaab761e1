/* Tensor metadata without torch headers, so that one build serves every torch.
 *
 * A tensor's PyObject holds a pointer to its TensorImpl, and the impl a word
 * with its dispatch key set; where they are is found by calibration, on sample
 * tensors whose answers are known. Sizes, strides, dtype and device come from
 * torch's stable C functions (aoti_torch_get_*), found by name in the libraries
 * that are loaded already. When anything is missing or any answer is wrong,
 * tensors are matched by a Python function instead, which torch_api.py gives us.
 *
 * Order of a match: type, key set, requires_grad, dtype, device index, sizes,
 * strides; the device's type is part of the key set. The key set comes before the C functions because they are slow, or
 * run Python, on tensors of other kinds (fake tensors, wrapper subclasses).
 */
#include "guards.h"
#include <dlfcn.h>
#include <malloc.h>

typedef int32_t (*GetInt32)(void *, int32_t *);
typedef int32_t (*GetInt64)(void *, int64_t *);
typedef int32_t (*GetArray)(void *, int64_t **);

static struct {
    int native;
    Py_ssize_t impl, keys;  /* offsets: of the impl in the PyObject, of the key set in the impl */
    uint64_t python_keys;   /* tensors with one of these run Python for their metadata */
    PyTypeObject *base;     /* torch._C.TensorBase */
    PyObject *match;        /* match(spec, tensor): the same in Python */
    GetInt32 dtype, device_index;
    GetInt64 dim;
    GetArray sizes, strides;
    int32_t (*data)(void *, void **);
    GetInt64 offset;        /* of the data in the storage, in elements */
    size_t (*element_size)(int32_t);
    int storage;            /* can the address of the storage be told? */
    _Bool (*requires_grad)(const void *);
} torch_api;

struct TensorSpec {
    PyTypeObject *type;
    PyObject *description;  /* what the Python match gets */
    int native;
    int requires_grad;      /* -1: any */
    uint64_t keys;
    int32_t dtype, device_index;
    int has_strides, is_static;
    int64_t ndim;
    int64_t *sizes, *strides; /* -1: any; one block */
};

#define ANY (-1)

/* ---- reading one tensor ---- */

static inline void *
handle_of(PyObject *tensor)
{
    return (char *)tensor + torch_api.impl; /* an at::Tensor is a pointer to its impl */
}

static inline char *
impl_of(PyObject *tensor)
{
    return *(char **)handle_of(tensor);
}

static inline uint64_t
keys_of(char *impl)
{
    return *(uint64_t *)(impl + torch_api.keys);
}

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

static int
matches_natively(const TensorSpec *s, PyObject *tensor)
{
    void *handle = handle_of(tensor);
    char *impl = impl_of(tensor);
    int32_t word;
    int64_t ndim, *extents;
    if (impl == NULL || keys_of(impl) != s->keys)
        return 0;
    if (s->requires_grad != ANY && torch_api.requires_grad(impl) != s->requires_grad)
        return 0;
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
tensor_matches(const TensorSpec *s, PyObject *value)
{
    if (Py_TYPE(value) != s->type)
        return 0;
    return tensor_spec_is_native(s) ? matches_natively(s, value) : matches_in_python(s, value);
}

int
tensor_spec_is_native(const TensorSpec *s)
{
    return s->native && torch_api.native;
}

int
tensor_is_native(PyObject *tensor)
{
    if (torch_api.base == NULL || !PyObject_TypeCheck(tensor, torch_api.base))
        return 1; /* no tensor: a size fails at once */
    return torch_api.native && impl_of(tensor) != NULL && !(keys_of(impl_of(tensor)) & torch_api.python_keys);
}

static int
extent_in_python(PyObject *tensor, int strides, Py_ssize_t dim, int64_t *out)
{
    PyObject *value = PyObject_CallMethod(tensor, strides ? "stride" : "size", "n", dim);
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
        return extent_in_python(tensor, strides, dim, out);
    int64_t ndim, *extents;
    void *handle = handle_of(tensor);
    if (torch_api.dim(handle, &ndim) || dim < 0 || dim >= ndim
        || (strides ? torch_api.strides : torch_api.sizes)(handle, &extents))
        return 0;
    *out = extents[dim];
    return 1;
}

/* Where a tensor's storage begins, 0 when the tensor is empty or has no memory. */
static int
storage_of(PyObject *tensor, uintptr_t *out)
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
    return torch_api.base == NULL || !PyObject_TypeCheck(tensor, torch_api.base)
        || (torch_api.storage && tensor_is_native(tensor)); /* no tensor: fails at once */
}

/* Does the first tensor share its storage with none of the others? What is no
 * tensor has no storage to tell, so the answer is no. */
int
tensors_apart(PyObject *const *tensors, Py_ssize_t n)
{
    uintptr_t first = 0, other;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (torch_api.base == NULL || !PyObject_TypeCheck(tensors[i], torch_api.base)
            || !storage_of(tensors[i], i == 0 ? &first : &other))
            return 0;
        if (i > 0 && first != 0 && first == other)
            return 0;
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

/* ---- calibration ---- */

/* A sample is (tensor, _cdata, raw key set, requires_grad, sizes, strides). */
#define SAMPLE(i) PyTuple_GET_ITEM(samples, i)
#define FIELD(i, k) PyTuple_GET_ITEM(SAMPLE(i), k)

static int
find_impl(PyObject *samples)
{
    Py_ssize_t n = PyTuple_GET_SIZE(samples);
    for (Py_ssize_t offset = sizeof(PyObject); offset + (Py_ssize_t)sizeof(void *) <= 64; offset += sizeof(void *)) {
        int found = 1;
        for (Py_ssize_t i = 0; found && i < n; i++) {
            PyObject *tensor = FIELD(i, 0);
            found = offset + (Py_ssize_t)sizeof(void *) <= Py_TYPE(tensor)->tp_basicsize
                && *(void **)((char *)tensor + offset) == PyLong_AsVoidPtr(FIELD(i, 1));
        }
        if (found) {
            torch_api.impl = offset;
            return 1;
        }
    }
    return 0;
}

/* The one word of the impl that equals the key set in every sample. */
static int
find_keys(PyObject *samples)
{
    Py_ssize_t n = PyTuple_GET_SIZE(samples), candidates = 0, end = 256;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t size = (Py_ssize_t)malloc_usable_size(impl_of(FIELD(i, 0)));
        if (size < end)
            end = size;
    }
    for (Py_ssize_t offset = 0; offset + (Py_ssize_t)sizeof(uint64_t) <= end; offset += sizeof(uint64_t)) {
        int found = 1;
        for (Py_ssize_t i = 0; found && i < n; i++)
            found = *(uint64_t *)(impl_of(FIELD(i, 0)) + offset) == PyLong_AsUnsignedLongLongMask(FIELD(i, 2));
        if (found) {
            candidates++;
            torch_api.keys = offset;
        }
    }
    return candidates == 1;
}

static int
find_functions(void)
{
    void *cpu = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    void *c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
    if (cpu != NULL) {
        torch_api.dtype = (GetInt32)dlsym(cpu, "aoti_torch_get_dtype");
        torch_api.device_index = (GetInt32)dlsym(cpu, "aoti_torch_get_device_index");
        torch_api.dim = (GetInt64)dlsym(cpu, "aoti_torch_get_dim");
        torch_api.sizes = (GetArray)dlsym(cpu, "aoti_torch_get_sizes");
        torch_api.strides = (GetArray)dlsym(cpu, "aoti_torch_get_strides");
        torch_api.data = (int32_t (*)(void *, void **))dlsym(cpu, "aoti_torch_get_data_ptr");
        torch_api.offset = (GetInt64)dlsym(cpu, "aoti_torch_get_storage_offset");
        torch_api.element_size = (size_t (*)(int32_t))dlsym(cpu, "aoti_torch_dtype_element_size");
    }
    if (c10 != NULL) /* c10::TensorImpl::requires_grad() const */
        torch_api.requires_grad = (_Bool (*)(const void *))dlsym(c10, "_ZNK3c1010TensorImpl13requires_gradEv");
    return torch_api.dtype && torch_api.device_index && torch_api.dim && torch_api.sizes
        && torch_api.strides && torch_api.requires_grad;
}

/* Do the functions say of a sample what torch says? */
static int
answers_agree(PyObject *sample)
{
    PyObject *tensor = PyTuple_GET_ITEM(sample, 0), *sizes = PyTuple_GET_ITEM(sample, 4),
             *strides = PyTuple_GET_ITEM(sample, 5);
    void *handle = handle_of(tensor);
    int64_t ndim, *a, *b;
    if (torch_api.requires_grad(impl_of(tensor)) != (PyTuple_GET_ITEM(sample, 3) == Py_True))
        return 0;
    if (torch_api.dim(handle, &ndim) || ndim != PyTuple_GET_SIZE(sizes) || torch_api.sizes(handle, &a)
        || torch_api.strides(handle, &b))
        return 0;
    for (int64_t i = 0; i < ndim; i++)
        if (a[i] != PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i)) || b[i] != PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)))
            return 0;
    return 1;
}

/* The same of where its storage is, if they can tell. */
static int
storage_agrees(PyObject *sample)
{
    uintptr_t found;
    if (torch_api.data == NULL || torch_api.offset == NULL || torch_api.element_size == NULL
        || !storage_of(PyTuple_GET_ITEM(sample, 0), &found))
        return 0;
    return found == (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(sample, 6));
}

/* tensor_calibrate(base, samples, python_keys, match, without="") -> None or what is missing.
 *
 * `without` pretends that something is missing: 'impl', 'keys', 'functions' or
 * 'agreement'. */
static PyObject *
tensor_calibrate(PyObject *Py_UNUSED(m), PyObject *args)
{
    PyObject *base, *samples, *match;
    unsigned long long python_keys;
    const char *without = "";
    if (!PyArg_ParseTuple(args, "O!O!KO|s:tensor_calibrate", &PyType_Type, &base, &PyTuple_Type, &samples,
                          &python_keys, &match, &without))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++)
        if (!PyTuple_CheckExact(SAMPLE(i)) || PyTuple_GET_SIZE(SAMPLE(i)) != 7
            || !PyObject_TypeCheck(FIELD(i, 0), (PyTypeObject *)base) || !PyTuple_Check(FIELD(i, 4))
            || !PyTuple_Check(FIELD(i, 5)) || PyTuple_GET_SIZE(FIELD(i, 4)) != PyTuple_GET_SIZE(FIELD(i, 5))) {
            PyErr_SetString(PyExc_TypeError, "malformed sample");
            return NULL;
        }
    torch_api.native = 0;
    torch_api.python_keys = python_keys;
    Py_XSETREF(torch_api.base, (PyTypeObject *)Py_NewRef(base));
    Py_XSETREF(torch_api.match, Py_NewRef(match));
    const char *missing = NULL;
    if (PyTuple_GET_SIZE(samples) == 0 || strcmp(without, "impl") == 0 || !find_impl(samples))
        missing = "impl";
    else if (strcmp(without, "keys") == 0 || !find_keys(samples))
        missing = "keys";
    else if (strcmp(without, "functions") == 0 || !find_functions())
        missing = "functions";
    else
        for (Py_ssize_t i = 0; missing == NULL && i < PyTuple_GET_SIZE(samples); i++)
            if (strcmp(without, "agreement") == 0 || !answers_agree(SAMPLE(i)))
                missing = "agreement";
    torch_api.storage = missing == NULL;
    for (Py_ssize_t i = 0; torch_api.storage && i < PyTuple_GET_SIZE(samples); i++)
        torch_api.storage = storage_agrees(SAMPLE(i));
    if (PyErr_Occurred())
        return NULL;
    torch_api.native = missing == NULL;
    if (missing != NULL)
        return PyUnicode_FromString(missing);
    Py_RETURN_NONE;
}

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
    {"tensor_calibrate", tensor_calibrate, METH_VARARGS,
     "tensor_calibrate(base, samples, python_keys, match, without='') -> None, or what is missing"},
    {"tensor_codes", tensor_codes, METH_O, "tensor_codes(tensor) -> (dtype, device index) or None"},
    {NULL},
};

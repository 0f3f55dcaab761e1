/* Where torch keeps a tensor's metadata: found on sample tensors whose answers are
 * known, never assumed. An offset counts when it is the only one that is right for
 * all samples; functions are those of the libraries that are loaded already, and
 * must give the right answers too.
 */
#include "guards_tensor.h"
#include <dlfcn.h>
#include <malloc.h>

/* A sample is (tensor, _cdata, raw key set, requires_grad, sizes, strides, storage,
 * whether it is a leaf that requires a gradient). */
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

/* How many bytes of the impls may be looked at. */
static Py_ssize_t
impl_size(PyObject *samples)
{
    Py_ssize_t end = 256;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        Py_ssize_t size = (Py_ssize_t)malloc_usable_size(impl_of(FIELD(i, 0)));
        if (size < end)
            end = size;
    }
    return end;
}

/* The one word of the impl that equals the key set in every sample. */
static int
find_keys(PyObject *samples)
{
    Py_ssize_t n = PyTuple_GET_SIZE(samples), candidates = 0, end = impl_size(samples);
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
        torch_api.device_type = (GetInt32)dlsym(cpu, "aoti_torch_get_device_type");
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
        || !tensor_storage(PyTuple_GET_ITEM(sample, 0), &found))
        return 0;
    return found == (uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(sample, 6));
}

/* ---- what saves calling the functions ---- */

/* Is the offset of one kind right for all samples? */
typedef int (*IsRight)(PyObject *samples, Py_ssize_t offset);

static Py_ssize_t
find_only(PyObject *samples, IsRight is_right, Py_ssize_t start, Py_ssize_t end, Py_ssize_t step)
{
    Py_ssize_t found = 0, candidates = 0;
    for (Py_ssize_t offset = start; offset <= end; offset += step)
        if (is_right(samples, offset)) {
            found = offset;
            candidates++;
        }
    return candidates == 1 ? found : 0;
}

static int
are_extents(PyObject *samples, Py_ssize_t offset)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        const int64_t *words = (const int64_t *)(impl_of(FIELD(i, 0)) + offset);
        PyObject *sizes = FIELD(i, 4), *strides = FIELD(i, 5);
        Py_ssize_t ndim = PyTuple_GET_SIZE(sizes);
        if (words[0] != ndim)
            return 0;
        for (Py_ssize_t d = 0; d < ndim && ndim <= INLINE_DIMS; d++)
            if (words[1 + d] != PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, d))
                || words[1 + INLINE_DIMS + d] != PyLong_AsLongLong(PyTuple_GET_ITEM(strides, d)))
                return 0;
    }
    return 1;
}

static int
are_type_numbers(PyObject *samples, Py_ssize_t offset)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        const char *at = impl_of(FIELD(i, 0)) + offset;
        void *handle = handle_of(FIELD(i, 0));
        int32_t dtype, type, index;
        if (torch_api.dtype(handle, &dtype) || torch_api.device_type(handle, &type)
            || torch_api.device_index(handle, &index) || *(const uint16_t *)at != dtype
            || ((const int8_t *)at)[2] != type || ((const int8_t *)at)[3] != index)
            return 0;
    }
    return 1;
}

/* The first sample never came near a gradient. */
static int
is_autograd(PyObject *samples, Py_ssize_t offset)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        int is_null = *(char **)(impl_of(FIELD(i, 0)) + offset) == NULL;
        if (is_null ? FIELD(i, 3) == Py_True : i == 0)
            return 0;
    }
    return 1;
}

static int
is_leaf(PyObject *samples, Py_ssize_t offset)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(samples); i++) {
        const char *meta = *(char **)(impl_of(FIELD(i, 0)) + torch_api.autograd);
        if (meta != NULL && (offset >= (Py_ssize_t)malloc_usable_size((void *)meta)
                             || (FIELD(i, 7) == Py_True ? meta[offset] != 1 : meta[offset] != 0)))
            return 0;
    }
    return 1;
}

/* The range of words in which all that a match reads lies. */
static void
find_image(void)
{
    Py_ssize_t word = sizeof(uint64_t), starts[] = {torch_api.extents, torch_api.type_number / word * word, torch_api.keys},
               sizes[] = {(1 + 2 * INLINE_DIMS) * word, word, word}, start = starts[0], end = 0;
    for (int i = 0; i < 3; i++) {
        start = starts[i] < start ? starts[i] : start;
        end = starts[i] + sizes[i] > end ? starts[i] + sizes[i] : end;
    }
    const Py_ssize_t pair = sizeof(Pair), room = IMAGE_PAIRS * pair;
    torch_api.image = end - start > room - pair && end - start <= room ? start : 0;
    torch_api.image_last = end - pair;
}

static void
find_words(PyObject *samples)
{
    /* No further than the key set: behind it may be memory that is not the impl's. */
    Py_ssize_t word = sizeof(uint64_t), end = torch_api.keys + word;
    torch_api.extents = find_only(samples, are_extents, word, end - (1 + 2 * INLINE_DIMS) * word, word);
    torch_api.type_number = torch_api.device_type == NULL ? 0 : find_only(samples, are_type_numbers, word, end - 4, 2);
    torch_api.autograd = find_only(samples, is_autograd, word, end - word, word);
    torch_api.leaf = torch_api.autograd == 0 ? 0 : find_only(samples, is_leaf, word, 512, 1);
    torch_api.direct = torch_api.extents != 0 && torch_api.type_number != 0;
    if (torch_api.direct)
        find_image();
}

/* ---- all of it ---- */

/* tensor_calibrate(base, samples, python_keys, match, without="") -> None or what is missing.
 *
 * `without` pretends that something is missing: 'impl', 'keys', 'functions',
 * 'agreement', or 'words', without which tensors are read by functions alone. */
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
        if (!PyTuple_CheckExact(SAMPLE(i)) || PyTuple_GET_SIZE(SAMPLE(i)) != 8
            || !PyObject_TypeCheck(FIELD(i, 0), (PyTypeObject *)base) || !PyTuple_Check(FIELD(i, 4))
            || !PyTuple_Check(FIELD(i, 5)) || PyTuple_GET_SIZE(FIELD(i, 4)) != PyTuple_GET_SIZE(FIELD(i, 5))) {
            PyErr_SetString(PyExc_TypeError, "malformed sample");
            return NULL;
        }
    torch_api.native = torch_api.direct = 0;
    torch_api.autograd = torch_api.leaf = torch_api.image = 0;
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
    if (missing == NULL && strcmp(without, "words") != 0)
        find_words(samples);
    if (PyErr_Occurred())
        return NULL;
    torch_api.native = missing == NULL;
    if (missing != NULL)
        return PyUnicode_FromString(missing);
    Py_RETURN_NONE;
}

/* tensor_count_swaps(function) -> are swaps of tensors' impls counted? */
static PyObject *
tensor_count_swaps(PyObject *Py_UNUSED(m), PyObject *function)
{
    rebindings.swaps = rebindings_count_calls(function);
    return PyBool_FromLong(rebindings.swaps);
}

/* tensor_words() -> which facts are read from tensors directly. */
static PyObject *
tensor_words(PyObject *Py_UNUSED(m), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{sO sO sO}", "metadata", torch_api.direct ? Py_True : Py_False,
                         "autograd", torch_api.autograd != 0 ? Py_True : Py_False,
                         "leaf", torch_api.leaf != 0 ? Py_True : Py_False);
}

PyMethodDef calibration_functions[] = {
    {"tensor_calibrate", tensor_calibrate, METH_VARARGS,
     "tensor_calibrate(base, samples, python_keys, match, without='') -> None, or what is missing"},
    {"tensor_count_swaps", tensor_count_swaps, METH_O,
     "tensor_count_swaps(function) -> count the calls of torch's function that swaps impls; True if that is done"},
    {"tensor_words", tensor_words, METH_NOARGS, "which facts are read from tensors without a call"},
    {NULL},
};

/* Where torch keeps a tensor's metadata, as far as calibration found out. */
#ifndef STATOR_GUARDS_TENSOR_H
#define STATOR_GUARDS_TENSOR_H

#include "guards.h"

typedef int32_t (*GetInt32)(void *, int32_t *);
typedef int32_t (*GetInt64)(void *, int64_t *);
typedef int32_t (*GetArray)(void *, int64_t **);

#define INLINE_DIMS 5 /* so many sizes and strides are kept in the impl itself */

typedef struct {
    int native;
    Py_ssize_t impl, keys;  /* offsets: of the impl in the PyObject, of the key set in the impl */
    uint64_t python_keys;   /* tensors with one of these run Python for their metadata */
    PyTypeObject *base;     /* torch._C.TensorBase */
    PyObject *match;        /* match(spec, tensor): the same in Python */
    GetInt32 dtype, device_type, device_index;
    GetInt64 dim;
    GetArray sizes, strides;
    int32_t (*data)(void *, void **);
    GetInt64 offset;        /* of the data in the storage, in elements */
    size_t (*element_size)(int32_t);
    int storage;            /* can the address of the storage be told? */
    _Bool (*requires_grad)(const void *);
    /* What saves calling these functions. In the impl: */
    int direct;
    Py_ssize_t extents;     /* how many dimensions, then INLINE_DIMS sizes, then as many strides */
    Py_ssize_t type_number; /* 16 bits of dtype, 8 of the device's type, 8 of its index */
    Py_ssize_t autograd;    /* a pointer, NULL where nothing requires a gradient; 0: not found */
    Py_ssize_t leaf;        /* in what that points to: 1 where a leaf requires one; 0: not found */
    Py_ssize_t image;       /* of the first of extents, type number and key set; 0: they are too far apart */
    Py_ssize_t image_last;  /* of the last two words of what reaches from there to the last of them */
} TorchApi;

extern TorchApi torch_api;

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
keys_of(const char *impl)
{
    return *(const uint64_t *)(impl + torch_api.keys);
}

/* The functions' answers. */
int tensor_storage(PyObject *tensor, uintptr_t *out);

#endif

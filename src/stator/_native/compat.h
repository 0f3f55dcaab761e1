/* What differs between CPython 3.11 and 3.15, and nothing else.
 *
 * The rest of the native core is written against these names; a new Python
 * version is a new column here. No other file asks for the version
 * (tests/test_layout.py): what one can't know is whether there is something at
 * all, and that has a name here, too (HAS_…).
 */
#ifndef STATOR_COMPAT_H
#define STATOR_COMPAT_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1 /* the internal headers below */
#include <Python.h>
#include <structmember.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x03100000
#error "stator's native core knows CPython 3.11 to 3.15"
#endif
#ifdef Py_GIL_DISABLED
#error "stator does not support free-threaded builds of CPython: use one with the global interpreter lock"
#endif

#define SINCE(minor) (PY_VERSION_HEX >= (0x03000000 | (minor) << 16))

#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_dict.h"
#include "internal/pycore_object.h"
#if SINCE(13)
#include "internal/pycore_ceval.h"
#include "internal/pycore_setobject.h"
#endif
#if SINCE(14)
#include "internal/pycore_interpframe.h"
#include "internal/pycore_genobject.h"
#endif
#if SINCE(15)
#include "internal/pycore_import.h"
#include "internal/pycore_lazyimportobject.h"
#endif

typedef _PyInterpreterFrame IFrame;

/* ---- what there is ---- */

#define HAS_DICT_WATCHERS SINCE(12)
#define HAS_DICT_TAGS (!SINCE(14))     /* a dict has a version */
#define HAS_MONITORING SINCE(12)       /* sys.monitoring */
#define HAS_SUBINTERPRETERS SINCE(12)  /* a module says whether it runs in them */
/* The eval loop clears and pops the frames it is given; before, its caller does. */
#define HAS_CALLEE_CLEARS SINCE(12)

#define HAS_ANNOTATE SINCE(14)         /* functions that make annotations */
#define HAS_LAZY_IMPORTS SINCE(15)

/* ---- types ---- */

/* What a class has itself, a new reference. */
static inline PyObject *
type_attributes(PyTypeObject *type)
{
#if SINCE(12)
    return PyType_GetDict(type); /* those of builtin types belong to the interpreter */
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

/* ---- slots of a frame: its variables, its value stack, what it runs ----
 *
 * Since 3.14 they are tagged: a reference may be borrowed from a variable that
 * outlives it, and numbers that the interpreter keeps for itself are no objects.
 */

#if !SINCE(14)

typedef PyObject *FrameSlot;

#define SLOT_EMPTY NULL
#define slot_object(slot) (slot)                  /* borrowed; NULL if it is empty */
#define slot_holding(object) (object)            /* steals the reference */
#define slot_is_number(slot) ((void)(slot), 0)
#define slot_number(slot) ((void)(slot), (Py_ssize_t)0)
#define slot_holding_number(number) PyLong_FromSsize_t(number)

/* The reference in a slot, which is left empty. */
static inline PyObject *
slot_take(FrameSlot *slot)
{
    PyObject *value = *slot;
    *slot = NULL;
    return value;
}

#define IFRAME_TOP(f) ((f)->stacktop)
#define IFRAME_SET_TOP(f, n) ((f)->stacktop = (int)(n))

#else

typedef _PyStackRef FrameSlot;

#define SLOT_EMPTY PyStackRef_NULL
#define slot_is_number(slot) PyStackRef_IsTaggedInt(slot)
#define slot_number(slot) ((Py_ssize_t)PyStackRef_UntagInt(slot))
#define slot_holding_number(number) PyStackRef_TagInt(number)

static inline PyObject *
slot_object(FrameSlot slot)
{
    return PyStackRef_IsNullOrInt(slot) ? NULL : PyStackRef_AsPyObjectBorrow(slot);
}

static inline FrameSlot
slot_holding(PyObject *object)
{
    return object == NULL ? PyStackRef_NULL : PyStackRef_FromPyObjectSteal(object);
}

static inline PyObject *
slot_take(FrameSlot *slot)
{
    FrameSlot taken = *slot;
    *slot = PyStackRef_NULL;
    return PyStackRef_IsNullOrInt(taken) ? NULL : PyStackRef_AsPyObjectSteal(taken);
}

#define IFRAME_TOP(f) ((Py_ssize_t)((f)->stackpointer - (f)->localsplus))
#define IFRAME_SET_TOP(f, n) ((f)->stackpointer = (f)->localsplus + (n))

#endif

/* A frame ends: its slots are cleared from the first to the last, since 3.14 from the last. */
static inline void
iframe_clear_slots(IFrame *f)
{
    Py_ssize_t n = IFRAME_TOP(f);
    IFRAME_SET_TOP(f, 0);
    for (Py_ssize_t i = 0; i < n; i++)
        Py_XDECREF(slot_take(&f->localsplus[SINCE(14) ? n - 1 - i : i]));
}

/* The values of the first n slots, borrowed: the slots themselves, or `room`. */
static inline PyObject *const *
iframe_values(IFrame *f, Py_ssize_t n, PyObject **room)
{
#if !SINCE(14)
    (void)n, (void)room;
    return f->localsplus;
#else
    for (Py_ssize_t i = 0; i < n; i++)
        room[i] = slot_object(f->localsplus[i]);
    return room;
#endif
}

/* ---- fields of an interpreter frame ---- */

#if !SINCE(12)
#define IFRAME_FUNC(f) ((PyObject *)(f)->f_func)
#define IFRAME_FUNC_SLOT(f) ((FrameSlot *)&(f)->f_func)
#elif !SINCE(14)
#define IFRAME_FUNC(f) ((f)->f_funcobj)
#define IFRAME_FUNC_SLOT(f) (&(f)->f_funcobj)
#else
#define IFRAME_FUNC(f) PyStackRef_AsPyObjectBorrow((f)->f_funcobj)
#define IFRAME_FUNC_SLOT(f) (&(f)->f_funcobj)
#endif

#if !SINCE(13)
#define IFRAME_CODE(f) ((f)->f_code)
#define IFRAME_CODE_SLOT(f) ((FrameSlot *)&(f)->f_code)
#elif !SINCE(14)
#define IFRAME_CODE(f) ((PyCodeObject *)(f)->f_executable)
#define IFRAME_CODE_SLOT(f) (&(f)->f_executable)
#else
#define IFRAME_CODE(f) ((PyCodeObject *)PyStackRef_AsPyObjectBorrow((f)->f_executable))
#define IFRAME_CODE_SLOT(f) (&(f)->f_executable)
#endif

#if !SINCE(13)
/* Units from the start of the code to the instruction that runs next. */
#define IFRAME_NEXT(f) ((f)->prev_instr + 1 - _PyCode_CODE((f)->f_code))
/* `next` is the unit behind the running (or suspended) instruction. */
#define IFRAME_RUNNING_AT(f, next) ((f)->prev_instr = _PyCode_CODE((f)->f_code) + (next) - 1)
#define IFRAME_SUSPEND_AT(f, next) IFRAME_RUNNING_AT(f, next)
#else
#define IFRAME_NEXT(f) ((f)->instr_ptr - _PyCode_CODE(IFRAME_CODE(f)))
#define IFRAME_RUNNING_AT(f, next) ((f)->instr_ptr = _PyCode_CODE(IFRAME_CODE(f)) + (next) - 1)
#define IFRAME_SUSPEND_AT(f, next) ((f)->instr_ptr = _PyCode_CODE(IFRAME_CODE(f)) + (next))
#endif

/* What a frame has besides that was made by hand. */
static inline void
iframe_begin(IFrame *f)
{
#if !SINCE(12)
    f->is_entry = false;
#else
    f->return_offset = 0;
#endif
#if SINCE(14)
    f->visited = 0;
#endif
}

#if !SINCE(14)
#define IFRAME_GENERATOR(f) _PyFrame_GetGenerator(f)
#else
#define IFRAME_GENERATOR(f) _PyGen_GetGeneratorFromFrame(f)
#endif

/* ---- the state of a generator ---- */

#if !SINCE(13)
#define SUSPENDED_STATE(yield_arg) ((void)(yield_arg), FRAME_SUSPENDED)
#else
#define SUSPENDED_STATE(yield_arg) ((int8_t)(FRAME_SUSPENDED + (yield_arg)))
#endif

/* What who resumed it is told besides: does it yield? */
static inline void
generator_leaves(PyThreadState *ts, int yields)
{
#if SINCE(15)
    ((_PyThreadStateImpl *)ts)->generator_return_kind = yields ? GENERATOR_YIELD : GENERATOR_RETURN;
#else
    (void)ts, (void)yields;
#endif
}

/* An exception came out of a generator that dies. */
static inline void
generator_unraisable(PyObject *generator)
{
#if SINCE(14)
    PyErr_FormatUnraisable("Exception ignored while closing generator %R", generator);
#else
    PyErr_WriteUnraisable(generator);
#endif
}

/* ---- frames that did not run ---- */

#if !HAS_CALLEE_CLEARS
#define pop_frame(ts, f, clear) ((void)0) /* the caller clears and pops it */
#elif !SINCE(13)
/* As _PyEvalFrameClearAndPop() for a frame without frame object; not exported. */
static inline void
pop_frame(PyThreadState *ts, IFrame *f, void (*clear_except_code)(IFrame *))
{
    PyCodeObject *code = f->f_code;
    clear_except_code(f);
    Py_DECREF(code);
    PyObject **base = (PyObject **)f;
    _PyStackChunk *chunk = ts->datastack_chunk;
    if (base != &chunk->data[0]) {
        ts->datastack_top = base;
        return;
    }
    _PyStackChunk *prev = chunk->previous;
    ts->datastack_top = &prev->data[prev->top];
    ts->datastack_chunk = prev;
    ts->datastack_limit = (PyObject **)((char *)prev + prev->size);
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    arena.free(arena.ctx, chunk, chunk->size);
}
#else
#define pop_frame(ts, f, clear) _PyEval_FrameClearAndPop(ts, f)
#endif

/* ---- frames that the eval loop gets from us ---- */

#if HAS_CALLEE_CLEARS
/* A frame on the thread's stack, for which there is room; the loop clears it. */
static Py_ALWAYS_INLINE inline IFrame *
iframe_push(PyThreadState *ts, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs)
{
#if !SINCE(14)
    IFrame *f = _PyFrame_PushUnchecked(ts, (PyFunctionObject *)Py_NewRef((PyObject *)function), (int)nargs);
#else
    IFrame *f = _PyFrame_PushUnchecked(ts, PyStackRef_FromPyObjectNew(function), (int)nargs, NULL);
#endif
    for (Py_ssize_t i = 0; i < nargs; i++)
        f->localsplus[i] = slot_holding(Py_NewRef(args[i]));
    return f;
}
#endif

/* ---- the thread state ---- */

#if !SINCE(13)
#define CURRENT_FRAME(ts) ((ts)->cframe->current_frame)
#define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
#else
#define CURRENT_FRAME(ts) ((ts)->current_frame)
#endif

#if !SINCE(12)
#define RECURSION_REMAINING(ts) ((ts)->recursion_remaining)
#else
#define RECURSION_REMAINING(ts) ((ts)->py_recursion_remaining)
#endif

/* Depth of C calls: counted apart in 3.12 and 3.13, measured in bytes since. */
#if SINCE(12) && !SINCE(14)
#define C_RECURSION_ADD(ts, n) ((ts)->c_recursion_remaining += (n))
#else
#define C_RECURSION_ADD(ts, n) ((void)(ts))
#endif

/* What the eval loop counts itself as: PY_EVAL_C_STACK_UNITS in Python/ceval.c. */
#define EVAL_C_CALLS 2

/* Does sys.monitoring watch anything? */
static inline int
is_monitored(PyThreadState *ts)
{
#if HAS_MONITORING
    static const char nobody[sizeof ts->interp->monitors];
    return memcmp(&ts->interp->monitors, nobody, sizeof nobody) != 0;
#else
    (void)ts;
    return 0;
#endif
}

/* ---- the collector ---- */

/* Is it running, on whatever thread? */
#define GC_COLLECTING(ts) ((ts)->interp->gc.collecting)

/* How many collections have ended. */
static inline Py_ssize_t
collections_ended(PyThreadState *ts)
{
#if !SINCE(15)
    Py_ssize_t n = 0;
    for (int i = 0; i < NUM_GENERATIONS; i++)
        n += ts->interp->gc.generation_stats[i].collections;
    return n;
#else
    return (Py_ssize_t)ts->interp->gc.generation_stats->update_seq;
#endif
}

/* ---- code extra data ---- */

#if !SINCE(12)
#define CODE_GET_EXTRA _PyCode_GetExtra
#define CODE_SET_EXTRA _PyCode_SetExtra
#define CODE_EXTRA_INDEX _PyEval_RequestCodeExtraIndex
#else
#define CODE_GET_EXTRA PyUnstable_Code_GetExtra
#define CODE_SET_EXTRA PyUnstable_Code_SetExtra
#define CODE_EXTRA_INDEX PyUnstable_Eval_RequestCodeExtraIndex
#endif

/* ---- exceptions as one object ---- */

#if !SINCE(12)
static inline PyObject *
take_exception(void)
{
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    if (type == NULL)
        return NULL;
    PyErr_NormalizeException(&type, &value, &tb);
    PyException_SetTraceback(value, tb == NULL ? Py_None : tb);
    Py_DECREF(type);
    Py_XDECREF(tb);
    return value;
}

static inline void
give_exception(PyObject *exc) /* steals exc */
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exc)), exc, PyException_GetTraceback(exc));
}
#else
#define take_exception PyErr_GetRaisedException
#define give_exception PyErr_SetRaisedException
#endif

/* ---- objects ---- */

#if !SINCE(13)
/* As in 3.13: 1 and a new reference, 0 and NULL when the referent is gone. */
static inline int
PyWeakref_GetRef(PyObject *ref, PyObject **object)
{
    PyObject *referent = PyWeakref_GetObject(ref);
    *object = referent == NULL || referent == Py_None ? NULL : Py_NewRef(referent);
    return referent == NULL ? -1 : *object != NULL;
}
#endif

/* A class gets a version, if it can have one. */
static inline void
assign_type_tag(PyTypeObject *type)
{
#if SINCE(12)
    PyUnstable_Type_AssignVersionTag(type);
#else
    static PyObject *name;
    if (name == NULL && (name = PyUnicode_InternFromString("__class__")) == NULL)
        PyErr_Clear();
    else
        _PyType_Lookup(type, name); /* a cached lookup assigns it */
#endif
}

/* The dict of an instance whose class manages it, or NULL while nobody has asked for
 * it: then where its values are. Nothing is created. */
static inline PyDictValues *
managed_values(PyObject *o, PyObject **dict)
{
#if !SINCE(12)
    *dict = *_PyObject_ManagedDictPointer(o);
    return *_PyObject_ValuesPointer(o);
#elif !SINCE(13)
    PyDictOrValues at = *_PyObject_DictOrValuesPointer(o);
    *dict = _PyDictOrValues_IsValues(at) ? NULL : _PyDictOrValues_GetDict(at);
    return _PyDictOrValues_IsValues(at) ? _PyDictOrValues_GetValues(at) : NULL;
#else
    *dict = (PyObject *)_PyObject_GetManagedDict(o);
    return *dict == NULL && (Py_TYPE(o)->tp_flags & Py_TPFLAGS_INLINE_VALUES) && _PyObject_InlineValues(o)->valid
        ? _PyObject_InlineValues(o)
        : NULL;
#endif
}

/* How many attributes an instance without a dict has, and which of the class's
 * keys the i-th of them in order of insertion is. */
static inline Py_ssize_t
values_size(const PyDictValues *values)
{
#if !SINCE(13)
    return ((const uint8_t *)values->values)[-2];
#else
    return values->size;
#endif
}

static inline Py_ssize_t
values_index(const PyDictValues *values, Py_ssize_t i)
{
#if !SINCE(13)
    return ((const uint8_t *)values->values)[-3 - i];
#else
    return ((const uint8_t *)&values->values[values->capacity])[i];
#endif
}

/* Does the instance share this dict's values with itself, so that a store to
 * an attribute may bypass the dict (and its version, and its watchers)? */
static inline int
dict_is_bypassed(PyObject *dict)
{
#if !SINCE(13)
    (void)dict;
    return 0;
#else
    PyDictValues *values = ((PyDictObject *)dict)->ma_values;
    return values != NULL && values->embedded;
#endif
}

#if HAS_DICT_TAGS
/* Where a dict's version is. */
static inline const uint64_t *
dict_tag(PyObject *dict)
{
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    return &((PyDictObject *)dict)->ma_version_tag;
    _Py_COMP_DIAG_POP
}
#endif

#endif

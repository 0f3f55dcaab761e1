/* Dispatch: from a call of a compiled function to the entry that runs.
 *
 * binding.c   arguments to bound parameters, as CPython binds them
 * entries.c   entries in buckets, and what is found by code object
 * index.c     an index of the entries of a large bucket
 * dispatch.c  CompiledFunction: bind, pick an entry, call its target
 * direct.c    targets that only call a graph
 * calling.c   the call, within the C stack
 */
#ifndef STATOR_DISPATCH_H
#define STATOR_DISPATCH_H

#include "guards.h"

/* ---- binding.c ---- */

#define BINDING_SMALL 12

/* The bound parameters of one call, in co_varnames order: positional,
 * keyword-only, the *args tuple, the **kwargs dict. The references are owned:
 * a default may be replaced while a guard or the target runs. */
typedef struct {
    PyCodeObject *code; /* the function's code at that time */
    PyObject **values;
    Py_ssize_t n;
    PyObject *small[BINDING_SMALL + 1];
} Binding;

static inline Py_ssize_t
parameter_count(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS)
        + !!(code->co_flags & CO_VARKEYWORDS);
}

/* 1 when bound. 0 when the arguments don't fit or binding them would run user
 * code: the function itself must then be called, to fail as it does. Never
 * raises. values[-1] is scratch space for the callee of a vectorcall. */
int binding_fill(Binding *b, PyFunctionObject *function, PyObject *const *args, Py_ssize_t nargs,
                 PyObject *kwnames);
void binding_release(Binding *b);

/* ---- entries.c ---- */

/* One compiled variant of a function: valid while its guards hold. */
typedef struct {
    PyObject_HEAD
    PyObject *guards; /* GuardTree; NULL: always valid */
    PyObject *target; /* takes all bound parameters positionally */
    char fetch;       /* ... after the tuple of the tree's outputs */
    char tails;       /* the target returns what to call next, see "tail calls" */
    char steady;      /* ... and torch's state is still what the guards found */
    char direct;      /* the target is a DirectCall that can be made from here */
    unsigned long long hits;
} Entry;

typedef struct Index Index;

/* The entries for one code object, in the order in which they are tried: the one
 * hit last comes first, as long as there is no index.
 *
 * `entries` is an immutable snapshot: a change makes a new tuple, so whoever
 * holds a reference to the old one may go on iterating whatever happens. */
typedef struct {
    PyObject_HEAD
    PyCodeObject *code;
    PyObject *entries; /* tuple of Entry */
    Index *index;      /* of these entries, or NULL */
    PyObject *weakrefs;
} Bucket;

extern PyTypeObject Entry_Type;
extern PyTypeObject Bucket_Type;

/* What the target takes first, directly after the guards were found to hold:
 * 1 and a new reference; 0 without an exception when memory is short. */
int entry_fetch(Entry *entry, PyObject **fetched);

/* Do the guards hold? `known`: those on torch's state with this number do. If so,
 * and unless `fetched` is NULL, what they fetched is put there for an entry that
 * wants it; a direct call takes it from the guards. Never raises. */
static inline int
entry_holds(Entry *entry, PyObject *const *values, PyObject *function, unsigned known, PyObject **fetched)
{
    if (entry->guards != NULL && !guard_tree_check(entry->guards, values, function, known))
        return 0;
    return !entry->fetch || fetched == NULL || entry->direct || entry_fetch(entry, fetched);
}

/* target(*values), or target(fetched, *values). Steals `fetched`. The second one
 * makes no direct call. */
PyObject *entry_call(Entry *entry, PyObject *fetched, PyObject *const *values, size_t nvaluesf);
PyObject *entry_call_function(Entry *entry, PyObject *fetched, PyObject *const *values, size_t nvaluesf);

/* An entry that was made for a call does not hold for it: a bug, here or in the
 * driver. Raises what says which guard fails. */
void entry_invalid(Entry *entry, PyObject *bound, PyObject *function);

Bucket *bucket_new(PyCodeObject *code);
PyObject *bucket_add(Bucket *bucket, PyObject *guards, PyObject *target, int fetch, int tails, int steady);
int bucket_remove(Bucket *bucket, PyObject *entry);
void bucket_clear(Bucket *bucket);
/* The first entry that holds, `tried` aside: a new reference, or NULL without an
 * exception. With `promote` it is tried first from now on. */
Entry *bucket_search(Bucket *bucket, Entry *tried, int promote, PyObject *const *values, PyObject *function,
                     PyObject **fetched);
int entries_init(PyObject *module);
extern PyMethodDef entries_functions[];

/* ---- direct.c ---- */

extern PyTypeObject DirectCall_Type;

/* Call the graph of a direct entry, directly after its guards were found to hold. */
PyObject *direct_call(Entry *entry, PyObject *const *values, size_t nvaluesf);
int direct_fits(PyObject *target, PyObject *guards, Py_ssize_t n_parameters, int fetch, int tails);
int direct_init(PyObject *module);

/* ---- index.c ---- */

/* An index, if one shortens the search; NULL otherwise. */
Index *index_of(PyObject *entries, Py_ssize_t n_parameters);
void index_release(Index *index);
int index_traverse(const Index *index, visitproc visit, void *arg);
Entry *index_search(Index *index, PyObject *const *values, PyObject *function, PyObject **fetched);

/* ---- dispatch.c ---- */

extern PyTypeObject CompiledFunction_Type;

/* The CompiledFunction attached to a code object: a new reference, or NULL
 * without an exception. */
PyObject *dispatch_lookup(PyCodeObject *code);

/* The first entry of `compiled` whose guards hold for these parameters: a new
 * reference, or NULL without an exception. `function` is the one being called;
 * the caller keeps all arguments alive. Counts as a hit. `*fetched` gets a new
 * reference to what the entry's target takes first, NULL if it takes no such. */
Entry *dispatch_find(PyObject *compiled, PyObject *const *locals, PyObject *function, PyObject **fetched);

/* What an entry's target leaves to its caller. */
typedef struct {
    int tails;      /* it has returned what to call next */
    unsigned state; /* these guards on torch's state hold, see guard_tree_state(); 0: unknown */
} Left;

static inline Left
left_by(const Entry *entry)
{
    return (Left){entry->tails, entry->steady && entry->guards != NULL ? guard_tree_state(entry->guards) : 0};
}

/* What the program gets, from what the target of a tailing entry returned: see
 * "tail calls". Steals the reference. */
PyObject *dispatch_finish(PyObject *result, Left left);

/* Has a target asked for the wrapped function? Then no exception is set any more.
 * `*report` is for dispatch_report, with that function's result. */
int dispatch_is_run_original(PyObject **report);
void dispatch_report(PyObject *report, PyObject *result);

int dispatch_init(PyObject *module);
extern PyMethodDef dispatch_functions[];

#endif

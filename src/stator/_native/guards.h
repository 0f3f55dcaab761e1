/* The guard tree: what dispatch sees of it. */
#ifndef STATOR_GUARDS_H
#define STATOR_GUARDS_H

#include "native.h"

extern PyTypeObject GuardTree_Type;

/* 1 when all guards of `tree` (a GuardTree) hold, 0 when one fails.
 *
 * `locals` are the bound parameters in co_varnames order, borrowed, NULL where
 * unbound; `function` is the function whose globals, builtins, closure and
 * defaults are sources. Never raises and leaves a pending exception alone.
 */
int guard_tree_check(PyObject *tree, PyObject *const *locals, PyObject *function);

int guards_init(PyObject *module);
extern PyMethodDef guard_functions[];

#endif

/* stator._native._core: the module object. */
#include "dispatch.h"

static int
core_exec(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "stator's native core runs in the main interpreter only");
        return -1;
    }
    if (frames_init(module) < 0 || collecting_init(module) < 0 || windows_init(module) < 0
        || types_init(module) < 0 || guards_init(module) < 0 || dispatch_init(module) < 0)
        return -1;
    PyMethodDef *tables[] = {frame_functions, exceptions_functions, window_functions, ops_functions, types_functions,
                             sets_functions, addresses_functions, arguments_functions, dispatch_functions,
                             repeating_functions};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(tables); i++)
        if (PyModule_AddFunctions(module, tables[i]) < 0)
            return -1;
    return 0;
}

/* Phases, so that core_exec() runs, and refuses, in each interpreter. */
static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
#if HAS_SUBINTERPRETERS
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "Frames, windows and operations of the evaluator; see docs/native.md.",
    .m_slots = core_slots,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}

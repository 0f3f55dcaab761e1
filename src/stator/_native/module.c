/* stator._native._core: the module object. */
#include "native.h"

static int
core_exec(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "stator's native core runs in the main interpreter only");
        return -1;
    }
    if (frames_init(module) < 0 || windows_init(module) < 0 || ops_init(module) < 0)
        return -1;
    if (PyModule_AddFunctions(module, frame_functions) < 0 || PyModule_AddFunctions(module, window_functions) < 0)
        return -1;
    return PyModule_AddFunctions(module, ops_functions);
}

static PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_doc = "Frames, windows and operations of the evaluator; see docs/native.md.",
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    PyObject *module = PyModule_Create(&core_module);
    if (module != NULL && core_exec(module) < 0)
        Py_CLEAR(module);
    return module;
}

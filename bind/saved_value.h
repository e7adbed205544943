// A tensor that Python code keeps for backward: packed by hooks, or watched for overwriting.
#pragma once

#include "bind/object.h"

namespace weft::bind {

// A new SavedValue. `output_nr`: which result of its function the tensor is, or -1 for any other. A result
// is kept without its history, or the node would keep itself alive; get() puts the history back.
PyObject* save_value(PyObject* tensor, int output_nr);
bool init_saved_values(PyObject* module);

}  // namespace weft::bind

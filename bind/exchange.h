// Memory shared with others: the buffer protocol and DLPack.
#pragma once

#include "bind/object.h"

namespace weft::bind {

// Whether an object is an array of numpy's (or one that says as much of itself).
bool is_array(PyObject* o);
// Whether an object is one number of numpy's, and of which dtype.
bool is_array_scalar(PyObject* o, DType* out);
// A tensor over the memory of anything with the buffer protocol. Throws if there is no such memory.
Tensor buffer_to_tensor(PyObject* o);

bool init_buffers(PyObject* module);
bool init_dlpack(PyObject* module);

}  // namespace weft::bind

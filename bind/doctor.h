// What the steps of optimisers and the calls of modules tell the doctor (weft/doctor).
#pragma once

#include <cstdint>

#include "bind/object.h"
#include "core/graph/diagnosis.h"

namespace weft::bind {

extern bool doctor_is_on;

// What the doctor remembers of one group of an optimiser: a dict of its own, and how long it sleeps.
struct StepNotes {
  PyObject* notes = nullptr;  // owned
  uint32_t steps = 0, next = 0;
};

// A number for this step; its line is kept for as long as a gradient may be found to have been used by it.
// `caller` is the line that called step().
uint32_t begin_step(CallSite caller);
// After the step: `stale` is the first parameter whose gradient was the sum over two steps, `used_by` the
// earlier step. Throws only what the doctor raises on purpose.
void end_step(StepNotes& own, PyObject* params, TensorImpl* stale, uint32_t used_by);

// An outermost call of a module has returned, and its mode did not match the gradient mode: evaluation mode
// with gradients, or training mode without. False: the doctor need not be told of this module again.
bool note_mode_mismatch(PyObject* module, PyObject* result);

}  // namespace weft::bind

// Applies an update rule (core/math/optimiser.h) to raw memory: one span per parameter.
#pragma once

#include <cstdint>
#include <span>

#include "core/kernels/cpu/isa.h"
#include "core/math/optimiser.h"

namespace weft::cpu {

// What weft knows of a rule when it runs: which rule it is, and the sizes that the caller prepares.
struct UpdateRule {
  const char* name;
  int index;  // into UpdateTable
  int numbers, scalars, states;
  // Moves the scalars one step on and writes what every element of the parameter needs to `step`.
  void (*begin)(const double* numbers, math::update::Scalars& scalars, void* step);
};
const UpdateRule* find_update_rule(const char* name);  // null when there is none of that name

inline constexpr int kMostUpdateNumbers = 8, kMostStepBytes = 96;
struct UpdateStep { alignas(8) char bytes[kMostStepBytes]; };

// One parameter, its gradient and its states: contiguous runs of `count` elements of one dtype.
struct UpdateSpan {
  UpdateStep step;
  DType dtype;
  int64_t count;
  char* param;
  const char* grad;
  char* states[math::update::kMostStates];
};

// float32, float64, float16 and bfloat16; the last two compute in float.
bool has_update(DType dtype);

// Spans one after the other, each on as many threads as it is worth.
void run_updates(const UpdateRule& rule, std::span<const UpdateSpan> spans);
// All spans at once. They share no memory that is written.
void run_independent_updates(const UpdateRule& rule, std::span<const UpdateSpan> spans);

// ---- per instruction set ------------------------------------------------------------------------

inline constexpr int kUpdateTypes = 4;
constexpr int update_type_index(DType t) {
  return t == DType::Float32 ? 0 : t == DType::Float64 ? 1 : t == DType::Float16 ? 2 : 3;
}

using UpdateFn = void (*)(const void* step, int64_t count, void* param, const void* grad, char* const* states);
struct UpdateTable { UpdateFn update[kUpdateRules][kUpdateTypes]; };

WEFT_ISA_TABLE(UpdateTable, update_table)

}  // namespace weft::cpu

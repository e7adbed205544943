// How a reduction is cut into blocks of outputs and groups of chunks, and how these are run.
// reduce.cpp turns the question asked into a ReducePlan; this part knows only the fixed tree.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa/reduce_table.h"
#include "core/kernels/cpu/strided.h"

namespace weft::cpu {

// Turns accumulators into results. `stride` counts elements of the output.
struct Finish {
  using Loop = void (*)(const Finish& finish, const void* accumulators, int64_t count, void* out, int64_t stride,
                        int64_t* index);
  Loop loop;
  int out_size;
  int64_t n;       // elements per sequence
  double divisor;  // of the spread
};

struct ReduceDims {
  int ndim = 0;
  int64_t sizes[kMaxDims];
  int64_t strides[kMaxDims];
};

struct ReducePlan {
  const TreeKernel* kernel;
  const TreeKernel* around;  // the second pass, around the mean; or null
  Finish finish;
  Finish finish_mean;  // used when `around` is set
  ConvertTable::Load convert;
  int in_size, compute_size;
  bool needs_convert;  // false: elements can be read where they are
  const char* data;
  ReduceDims kept, reduced;  // coalesced
  void* out;
  void* mean_out;
  int64_t* out_index;
};

// Drops dims of size 1 and merges dims that are one in memory. The order of elements stays.
void coalesce(int ndim, const int64_t* sizes, const int64_t* strides, ReduceDims& dims);

void run(const ReducePlan& plan);

}  // namespace weft::cpu

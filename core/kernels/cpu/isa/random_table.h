// The inner loops of random numbers, one table per instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/isa.h"

namespace weft::cpu {

// Steps per call at most, and hence words per call: they stay in L1.
inline constexpr int64_t kRandomSteps = 256;

struct RandomTable {
  // The words of `steps` steps from `counter` on, in order.
  void (*words)(uint64_t seed, uint64_t counter, int64_t steps, uint32_t* out);

  // Maps words to n numbers; the parameters are those of the functors in core/math/philox.h.
  void (*uniform_float)(const uint32_t* words, int64_t n, double from, double to, float* out);
  void (*uniform_double)(const uint32_t* words, int64_t n, double from, double to, double* out);
  void (*normal_float)(const uint32_t* words, int64_t n, double mean, double deviation, float* out);
  void (*normal_double)(const uint32_t* words, int64_t n, double mean, double deviation, double* out);
  void (*exponential_float)(const uint32_t* words, int64_t n, double rate, double, float* out);
  void (*exponential_double)(const uint32_t* words, int64_t n, double rate, double, double* out);
  void (*cauchy_float)(const uint32_t* words, int64_t n, double median, double scale, float* out);
  void (*cauchy_double)(const uint32_t* words, int64_t n, double median, double scale, double* out);
  void (*geometric)(const uint32_t* words, int64_t n, double log_failure, double, double* out);
  void (*exp_float)(float* x, int64_t n);
  void (*exp_double)(double* x, int64_t n);
  void (*bernoulli)(const uint32_t* words, int64_t n, const double* p, bool one_p, int* out);
};

WEFT_ISA_TABLE(RandomTable, random_table)

}  // namespace weft::cpu

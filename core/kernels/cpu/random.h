// Random numbers into contiguous memory. Every function returns the counter steps it used: the
// generator's offset moves on by that many. See Note [Random streams] in core/math/philox.h.
//
// 16 bit floats get the float32 numbers, rounded.
#pragma once

#include <cstdint>

#include "core/math/dtype.h"
#include "core/math/philox.h"

namespace weft::cpu {

using random::Stream;

// `out`: n elements of a floating type.
int64_t fill_uniform(Stream stream, DType type, double from, double to, void* out, int64_t n);
int64_t fill_normal(Stream stream, DType type, double mean, double deviation, void* out, int64_t n);
int64_t fill_log_normal(Stream stream, DType type, double mean, double deviation, void* out, int64_t n);
int64_t fill_exponential(Stream stream, DType type, double rate, void* out, int64_t n);
int64_t fill_cauchy(Stream stream, DType type, double median, double scale, void* out, int64_t n);

// Of any real type.
int64_t fill_geometric(Stream stream, DType type, double p, void* out, int64_t n);
int64_t fill_bernoulli(Stream stream, DType type, double p, void* out, int64_t n);
// One probability per element, of a floating type. Both forms draw the same for the same p.
int64_t fill_bernoulli(Stream stream, DType type, DType p_type, const void* p, void* out, int64_t n);

// Integers in [low, high), stored as any real type. high <= low stands for all of int64.
int64_t fill_integers(Stream stream, DType type, int64_t low, int64_t high, void* out, int64_t n);

// The numbers 0 .. n-1 in random order, in the order of n 64 bit draws.
int64_t fill_permutation(Stream stream, DType type, void* out, int64_t n);

// What is wrong with rows of weights for multinomial (null: nothing).
const char* multinomial_problem(DType type, const void* weights, int64_t rows, int64_t categories, int64_t draws,
                                bool replacement);
// `draws` categories for each row of weights (contiguous, a floating type; they need not sum to 1).
int64_t fill_multinomial(Stream stream, DType type, const void* weights, int64_t rows, int64_t categories,
                         int64_t draws, bool replacement, int64_t* out);

}  // namespace weft::cpu

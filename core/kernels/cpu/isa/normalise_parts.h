// What the files of normalisation share. Included by files of isa/ only.
#pragma once

#include "core/kernels/cpu/isa/normalise_table.h"
#include "core/kernels/cpu/isa/reduce_lanes.h"

namespace weft::cpu::WEFT_ISA {

using reduction::kChunk;
using reduction::kLanes;

WEFT_FN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T> struct Moments { T count, mean, spread; };

// The moments of two sequences, one after the other.
template <class T> WEFT_FN Moments<T> merge(Moments<T> a, Moments<T> b) {
  const T count = a.count + b.count, share = b.count / count, apart = b.mean - a.mean;
  return {count, math::fma(apart, share, a.mean), a.spread + b.spread + apart * apart * a.count * share};
}

// Rule 4 of the fixed tree over values that `fold` joins.
template <class Value> struct Tree {
  Value waiting[48];
  int count = 0;
  int64_t chunks = 0;

  template <class Fold> WEFT_FN void push(Value v, Fold fold) {
    waiting[count++] = v;
    for (int64_t bits = chunks++; bits & 1; bits >>= 1) join(fold);
  }
  template <class Fold> WEFT_FN Value end(Fold fold) {
    while (count > 1) join(fold);
    return waiting[0];
  }
  template <class Fold> WEFT_FN void join(Fold fold) {
    --count;
    waiting[count - 1] = fold(waiting[count - 1], waiting[count]);
  }
};

// Two sums that are taken together.
template <class T> struct TwoSums { T sum, product_sum; };
template <class T> WEFT_FN TwoSums<T> add_sums(TwoSums<T> a, TwoSums<T> b) {
  return {a.sum + b.sum, a.product_sum + b.product_sum};
}

// One chunk that fits into `vectors` vectors: reduce_chunk() without the lanes that are not used.
template <class Op, class T, int vectors> WEFT_FN T reduce_few(const T* x, int64_t n, T center) {
  const Vector<T> centers = broadcast(center), identity = broadcast(Op::template identity<T>());
  const Vector<T> padding = Op::padding(identity, centers);
  Vector<T> v[vectors];
#pragma GCC unroll 4
  for (int k = 0; k < vectors; ++k) {
    v[k] = Op::take(identity, load_partial(x + k * kWidth<T>, n - k * kWidth<T>, padding), centers);
  }
#pragma GCC unroll 4
  for (int half = vectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int k = 0; k < half; ++k) v[k] = Op::fold(v[k], v[k + half]);
  }
  return fold_within<Op, T, kWidth<T> / 2>(v[0]);
}

template <class Op, class T> WEFT_FN T reduce_short(const T* x, int64_t n, T center) {
  if (n <= kWidth<T>) return reduce_few<Op, T, 1>(x, n, center);
  if (n <= 2 * kWidth<T>) return reduce_few<Op, T, 2>(x, n, center);
  return reduce_chunk<Op, T>(x, n, center);
}

// One chunk along contiguous memory.
template <class T> WEFT_FN Moments<T> chunk_moments(const T* x, int64_t n) {
  const T mean = reduce_short<reduction::Sum, T>(x, n, T(0)) / static_cast<T>(n);
  return {static_cast<T>(n), mean, reduce_short<reduction::SumOfSquaresAround, T>(x, n, mean)};
}

// One chunk of the sums of g w and g w (x - mean); without weights w is 1.
template <bool weighted, class T> WEFT_FN TwoSums<T> chunk_sums(const T* g, const T* x, const T* w, T mean, int64_t n) {
  Lanes<reduction::Sum, T> sums, products;
  sums.begin();
  products.begin();
  const Vector<T> zero = {}, center = broadcast(mean);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 32
    for (int k = 0; k < sums.kVectors; ++k) {
      const int64_t at = i + k * kWidth<T>;
      const Vector<T> part = weighted ? load(g + at) * load(w + at) : load(g + at);
      sums.v[k] = sums.v[k] + part;
      products.v[k] = products.v[k] + part * (load(x + at) - center);
    }
  }
  if (i < n) {
#pragma GCC unroll 32
    for (int k = 0; k < sums.kVectors; ++k) {
      const int64_t at = i + k * kWidth<T>;
      const Vector<T> from_g = load_partial(g + at, n - at, zero);
      const Vector<T> part = weighted ? from_g * load_partial(w + at, n - at, zero) : from_g;
      sums.v[k] = sums.v[k] + part;
      products.v[k] = products.v[k] + part * (load_partial(x + at, n - at, center) - center);
    }
  }
  return {sums.end(), products.end()};
}

// The parts of one instruction set's NormTable.
void set_norm_rows(NormTable& table);      // normalise_rows.cpp
void set_norm_channels(NormTable& table);  // normalise_channels.cpp

}  // namespace weft::cpu::WEFT_ISA

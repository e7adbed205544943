// How a sequence of numbers becomes one number, on every device.
//
// Note [The fixed tree]
// A reduction of floats rounds at every step, so its order is part of its result. Weft's order
// depends on the sequence alone: the reduced elements in row-major order of the reduced dims, as
// the user sees them. Strides, threads, instruction sets and devices have no say.
//
//   1. The sequence is cut into chunks of kChunk elements; the last one may be shorter.
//   2. Within a chunk, element i belongs to lane i % kLanes. A lane starts as Op::identity() and
//      takes its elements in order: lane = Op::take(lane, element, center).
//   3. Lanes fold in halves: lane[l] = Op::fold(lane[l], lane[l + h]) for h = 32, 16, 8, 4, 2, 1.
//      Folding an identity changes nothing, so a short chunk may leave out its unused lanes.
//   4. Chunk results fold as in a binary counter: the first 2^k chunks, for the largest 2^k that
//      fits, form a perfect binary tree; the rest forms such a tree again; the two are folded
//      with the earlier elements on the left.
//
// Hence an aligned group of 2^k chunks can be reduced anywhere, and groups can be folded by rule 4
// as if they were chunks (the shorter last group included: its tree is the tail of rule 4).
//
// Integers and "first index of the largest" do not depend on the order; they may take any.
//
// Note [The fixed scan]
// Running sums (products, ...) have an order of their own, again a function of the sequence alone:
//
//   1. The sequence is cut into segments of kSegment elements.
//   2. In a segment: local = fold(local, element), beginning with the identity.
//   3. Before each segment: before = fold(before, last local of the segment before), likewise.
//   4. The result at an element is fold(before, local).
//
// Only rule 3 is serial, and running sums of numbers that are not negative never decrease.
#pragma once

#include "core/math/types.h"

namespace weft::reduction {

inline constexpr int kLanes = 64;
inline constexpr int kChunk = 4096;
inline constexpr int kSegment = 128;

// The lowest power of two that holds all lanes in use: where rule 3 may start.
WEFT_FN constexpr int lanes_in_use(Int64 elements) {
  int lanes = 1;
  while (lanes < elements && lanes < kLanes) lanes *= 2;
  return lanes;
}

// The functors work on a number and on a vector of numbers (g++'s vector extension) alike, so they
// are written with operators and selections only.

template <class A> WEFT_FN A add(A a, A b) { return a + b; }
WEFT_FN Complex64 add(Complex64 a, Complex64 b) { return {a.re + b.re, a.im + b.im}; }
WEFT_FN Complex128 add(Complex128 a, Complex128 b) { return {a.re + b.re, a.im + b.im}; }

template <class A> WEFT_FN A multiply(A a, A b) { return a * b; }
// With explicit fma, because g++ 12 makes one of its own here (vfmaddsub) even where contraction is
// off, and only on machines that have it.
template <class C> WEFT_FN C multiply_complex(C a, C b) {
  return {math::fma(a.re, b.re, -(a.im * b.im)), math::fma(a.re, b.im, a.im * b.re)};
}
WEFT_FN Complex64 multiply(Complex64 a, Complex64 b) { return multiply_complex(a, b); }
WEFT_FN Complex128 multiply(Complex128 a, Complex128 b) { return multiply_complex(a, b); }

template <class T> struct Limits;
template <> struct Limits<float> {
  WEFT_FN static float lowest() { return -math::infinity<float>(); }
  WEFT_FN static float highest() { return math::infinity<float>(); }
};
template <> struct Limits<double> {
  WEFT_FN static double lowest() { return -math::infinity<double>(); }
  WEFT_FN static double highest() { return math::infinity<double>(); }
};
template <> struct Limits<int> {
  WEFT_FN static int lowest() { return -2147483647 - 1; }
  WEFT_FN static int highest() { return 2147483647; }
};
template <> struct Limits<Int64> {
  WEFT_FN static Int64 lowest() { return -9223372036854775807 - 1; }
  WEFT_FN static Int64 highest() { return 9223372036854775807; }
};

// What take() ignores: the element that fills up unused places.
struct PadWithIdentity {
  template <class A> WEFT_FN static A padding(A identity, A) { return identity; }
};

struct Sum : PadWithIdentity {
  template <class T> WEFT_FN static T identity() { return T{}; }
  template <class A> WEFT_FN static A take(A a, A x, A) { return add(a, x); }
  template <class A> WEFT_FN static A fold(A a, A b) { return add(a, b); }
};

struct Prod : PadWithIdentity {
  template <class T> WEFT_FN static T identity() { return math::cast<T>(1); }
  template <class A> WEFT_FN static A take(A a, A x, A) { return multiply(a, x); }
  template <class A> WEFT_FN static A fold(A a, A b) { return multiply(a, b); }
};

// The largest; a NaN wins over all. Of equal ones (0 and -0) the earlier.
struct Max : PadWithIdentity {
  template <class T> WEFT_FN static T identity() { return Limits<T>::lowest(); }
  template <class A> WEFT_FN static A take(A a, A x, A) { return (x > a) | (x != x) ? x : a; }
  template <class A> WEFT_FN static A fold(A a, A b) { return take(a, b, b); }
};

struct Min : PadWithIdentity {
  template <class T> WEFT_FN static T identity() { return Limits<T>::highest(); }
  template <class A> WEFT_FN static A take(A a, A x, A) { return (x < a) | (x != x) ? x : a; }
  template <class A> WEFT_FN static A fold(A a, A b) { return take(a, b, b); }
};

struct NanSum : Sum {
  template <class A> WEFT_FN static A take(A a, A x, A) { return a + (x == x ? x : A{}); }
};

struct SumOfSquares : Sum {
  template <class A> WEFT_FN static A take(A a, A x, A) { return a + x * x; }
};

struct SumOfAbs : Sum {
  template <class A> WEFT_FN static A take(A a, A x, A) { return a + (x < A{} ? -x : x); }
};

// The sum of (x - center)^2: with the mean as center, the second pass of a variance.
struct SumOfSquaresAround : Sum {
  template <class A> WEFT_FN static A padding(A, A center) { return center; }
  template <class A> WEFT_FN static A take(A a, A x, A center) {
    const A distance = x - center;
    return a + distance * distance;
  }
};

// For the index of the largest (smallest): does x take the place of an earlier one?
struct Greater {
  using Extreme = Max;
  template <class T> WEFT_FN static bool replaces(T x, T best) { return (x > best) | ((x != x) & (best == best)); }
};
struct Less {
  using Extreme = Min;
  template <class T> WEFT_FN static bool replaces(T x, T best) { return (x < best) | ((x != x) & (best == best)); }
};

}  // namespace weft::reduction

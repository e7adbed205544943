// The one loop around every functor, and how a list of operations fills the table.
// Included only by tiles_*.cpp, which are compiled once per instruction set.
#pragma once

#include "core/kernels/cpu/tiles.h"
#include "core/math/types.h"

namespace weft::cpu::WEFT_ISA {

// Bools are stored as bytes, of which any but 0 is true.
template <class T> struct Stored { using type = T; };
template <> struct Stored<bool> { using type = unsigned char; };

template <class T>
inline __attribute__((always_inline)) T load(const typename Stored<T>::type* from, int64_t i) {
  if constexpr (math::kIsBool<T>) return from[i] != 0;
  else return from[i];
}

template <class F>
inline __attribute__((always_inline)) F functor_at(const void* functor) {
  if constexpr (__is_empty(F)) return F{};
  else return *static_cast<const F*>(functor);
}

template <class F, class T>
constexpr bool has_slow_path() {
  if constexpr (requires { F::template has_slow_path<T>; }) return F::template has_slow_path<T>;
  else return false;
}

// The elements of a run are independent, also where out is one of the operands (hence ivdep, and
// no restrict). Elements which need the slow path are rare: they are looked for block by block, and
// a block that has one is computed element by element.
inline constexpr int64_t kBlock = 512;

template <class F, class T>
void unary(const void* functor, int64_t n, void* out, const void* a, const void*, const void*) {
  const F f = functor_at<F>(functor);
  using Out = typename Stored<decltype(f(T()))>::type;
  auto* y = static_cast<Out*>(out);
  auto* x = static_cast<const typename Stored<T>::type*>(a);
  if constexpr (has_slow_path<F, T>()) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t end = begin + kBlock < n ? begin + kBlock : n;
      unsigned any_slow = 0;
      for (int64_t i = begin; i < end; ++i) any_slow |= f.is_slow(load<T>(x, i));
      if (any_slow) {
        for (int64_t i = begin; i < end; ++i) y[i] = f(load<T>(x, i));
      } else {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) y[i] = f.fast(load<T>(x, i));
      }
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = f(load<T>(x, i));
  }
}

template <class F, class T>
void binary(const void* functor, int64_t n, void* out, const void* a, const void* b, const void*) {
  const F f = functor_at<F>(functor);
  using In = typename Stored<T>::type;
  using Out = typename Stored<decltype(f(T(), T()))>::type;
  auto* y = static_cast<Out*>(out);
  auto* u = static_cast<const In*>(a);
  auto* v = static_cast<const In*>(b);
  if constexpr (has_slow_path<F, T>()) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t end = begin + kBlock < n ? begin + kBlock : n;
      unsigned any_slow = 0;
      for (int64_t i = begin; i < end; ++i) any_slow |= f.is_slow(load<T>(u, i), load<T>(v, i));
      if (any_slow) {
        for (int64_t i = begin; i < end; ++i) y[i] = f(load<T>(u, i), load<T>(v, i));
      } else {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) y[i] = f.fast(load<T>(u, i), load<T>(v, i));
      }
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = f(load<T>(u, i), load<T>(v, i));
  }
}

// A is the type of the first operand: T, or bool where it is a condition.
template <class F, class A, class T>
void ternary(const void* functor, int64_t n, void* out, const void* a, const void* b, const void* c) {
  const F f = functor_at<F>(functor);
  using In = typename Stored<T>::type;
  auto* y = static_cast<In*>(out);
  auto* u = static_cast<const typename Stored<A>::type*>(a);
  auto* v = static_cast<const In*>(b);
  auto* w = static_cast<const In*>(c);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = f(load<A>(u, i), load<T>(v, i), load<T>(w, i));
}

// The condition of `where` has a type of its own.
template <class F, class T>
struct FirstOperand {
  using type = T;
};
template <class F, class T>
  requires requires { typename F::Condition; }
struct FirstOperand<F, T> {
  using type = typename F::Condition;
};

template <class F, int arity, class T>
constexpr TileFn tile_of() {
  if constexpr (arity == 1) return unary<F, T>;
  else if constexpr (arity == 2) return binary<F, T>;
  else return ternary<F, typename FirstOperand<F, T>::type, T>;
}

template <class F, int arity, unsigned types, DType... dtypes>
inline void set_tiles(TileFn* row) {
  (
      [row] {
        if constexpr (((types >> static_cast<int>(dtypes)) & 1u) != 0) {
          row[static_cast<int>(dtypes)] = tile_of<F, arity, typename TypeOf<dtypes>::type>();
        }
      }(),
      ...);
}

#define WEFT_SET_TILES(name, Functor, arity, types)                                                          \
  set_tiles<math::Functor, arity, types, DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::Int32, \
            DType::Int64, DType::Float32, DType::Float64>(table.op[static_cast<int>(Elementwise::name)]);

// Each file tiles_<group>.cpp defines one of these.
void set_arithmetic(TileTable& table);
void set_integer(TileTable& table);
void set_compare(TileTable& table);
void set_rounding(TileTable& table);
void set_exponential(TileTable& table);
void set_trigonometric(TileTable& table);
void set_hyperbolic(TileTable& table);
void set_special(TileTable& table);
void set_activation(TileTable& table);
void set_gradient(TileTable& table);
void set_cast(TileTable& table);
void set_moves(TileTable& table);

}  // namespace weft::cpu::WEFT_ISA

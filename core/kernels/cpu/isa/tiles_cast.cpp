// Tile kernels of all conversions, and the moves between strided and contiguous memory.
#include "core/kernels/cpu/isa/tiles_loop.h"

namespace weft::cpu::WEFT_ISA {

namespace {

template <class To, class From>
void cast_run(const void*, int64_t n, void* out, const void* a, const void*, const void*) {
  auto* y = static_cast<typename Stored<To>::type*>(out);
  auto* x = static_cast<const typename Stored<From>::type*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = math::cast<To>(load<From>(x, i));
}

template <class From, DType... to>
void set_casts_from(TileFn* row) {
  ((row[static_cast<int>(to)] = cast_run<typename TypeOf<to>::type, From>), ...);
}

#define WEFT_ALL_DTYPES                                                                                              \
  DType::Bool, DType::UInt8, DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::Float16, DType::BFloat16, \
      DType::Float32, DType::Float64, DType::Complex64, DType::Complex128

template <DType... from>
void set_all_casts(TileTable& table) {
  (set_casts_from<typename TypeOf<from>::type, WEFT_ALL_DTYPES>(table.cast[static_cast<int>(from)]), ...);
}

// Elements are moved as what they are: bytes. Item may alias everything.
template <int bytes> struct Item;
template <> struct Item<1> { typedef uint8_t __attribute__((may_alias)) type; };
template <> struct Item<2> { typedef uint16_t __attribute__((may_alias)) type; };
template <> struct Item<4> { typedef uint32_t __attribute__((may_alias)) type; };
template <> struct Item<8> { typedef uint64_t __attribute__((may_alias)) type; };
struct __attribute__((may_alias)) Pair { uint64_t first, second; };
template <> struct Item<16> { using type = Pair; };

template <int bytes>
void gather_run(int64_t n, void* to, const void* from, int64_t from_stride) {
  using T = typename Item<bytes>::type;
  auto* y = static_cast<T*>(to);
  auto* x = static_cast<const char*>(from);
  for (int64_t i = 0; i < n; ++i) y[i] = *reinterpret_cast<const T*>(x + i * from_stride);
}

template <int bytes>
void scatter_run(int64_t n, void* to, int64_t to_stride, const void* from) {
  using T = typename Item<bytes>::type;
  auto* y = static_cast<char*>(to);
  auto* x = static_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(y + i * to_stride) = x[i];
}

template <int bytes>
void fill_run(int64_t n, void* to, const void* value) {
  using T = typename Item<bytes>::type;
  auto* y = static_cast<T*>(to);
  const T x = *static_cast<const T*>(value);
  for (int64_t i = 0; i < n; ++i) y[i] = x;
}

template <int bytes>
void set_moves_of(TileTable& table) {
  constexpr int i = item_size_index(bytes);
  table.gather[i] = gather_run<bytes>;
  table.scatter[i] = scatter_run<bytes>;
  table.fill[i] = fill_run<bytes>;
}

}  // namespace

void set_cast(TileTable& table) { set_all_casts<WEFT_ALL_DTYPES>(table); }

void set_moves(TileTable& table) {
  set_moves_of<1>(table);
  set_moves_of<2>(table);
  set_moves_of<4>(table);
  set_moves_of<8>(table);
  set_moves_of<16>(table);
}

}  // namespace weft::cpu::WEFT_ISA

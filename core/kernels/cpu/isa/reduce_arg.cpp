// The index of the largest or smallest element of a chunk. The answer does not depend on the order
// of comparing, so it is found in two passes over L1: the extreme, then its first place.
#include "core/kernels/cpu/isa/reduce_lanes.h"
#include "core/kernels/cpu/isa/reduce_parts.h"
#include "core/kernels/cpu/isa/reduce_table.h"

namespace weft::cpu::WEFT_ISA {
namespace {

template <class Order, class T> struct Arg {
  // Places within a chunk, as wide as the values so that both fill a vector alike.
  using Place = decltype(Vector<T>{} < Vector<T>{});
  using Index = __typeof__(Place{}[0]);

  WEFT_FN static void put(Found* found, T value, int64_t index) {
    __builtin_memcpy(found->value, &value, sizeof value);
    found->index = index;
  }
  WEFT_FN static T value_of(const Found* found) {
    T value;
    __builtin_memcpy(&value, found->value, sizeof value);
    return value;
  }

  template <class Hit> WEFT_FN static int64_t first_place(const T* x, int64_t n, Hit hit) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      int hits = 0;
      for (int j = 0; j < kLanes; ++j) hits |= hit(x[i + j]);
      if (hits) break;
    }
    while (i < n && !hit(x[i])) ++i;
    return i;
  }

  static void rows(const char* x, int64_t row_stride, int64_t rows, int64_t n, const void*, int64_t first,
                   int64_t first_step, void* accumulators) {
    Found* out = static_cast<Found*>(accumulators);
    for (int64_t r = 0; r < rows; ++r, x += row_stride) {
      const T* row = reinterpret_cast<const T*>(x);
      const T best = reduce_chunk<typename Order::Extreme, T>(row, n, T{});
      const int64_t place = best == best ? first_place(row, n, [best](T v) { return v == best; })
                                         : first_place(row, n, [](T v) { return v != v; });
      put(out + r, row[place], first + r * first_step + place);
    }
  }

  // The lanes hold one best value per column, followed by one place per column.
  static void columns_begin(void* lanes, int64_t width, int64_t) {
    T* best = static_cast<T*>(lanes);
    Index* place = reinterpret_cast<Index*>(best + width);
    for (int64_t c = 0; c < width; ++c) best[c] = Order::Extreme::template identity<T>();
    for (int64_t c = 0; c < width; ++c) place[c] = 0;
  }

  static void columns(void* lanes, int64_t width, const char* x, int64_t row_stride, int64_t rows, int64_t first_row,
                      const void*) {
    T* __restrict__ best = static_cast<T*>(lanes);
    Index* __restrict__ place = reinterpret_cast<Index*>(best + width);
    for (int64_t r = 0; r < rows; ++r, x += row_stride) {
      const T* __restrict__ row = reinterpret_cast<const T*>(x);
      const Index here = static_cast<Index>(first_row + r);
      for (int64_t c = 0; c < width; ++c) {
        const T candidate = row[c], before = best[c];
        const bool replaces = Order::replaces(candidate, before);
        // A bitwise selection keeps the loop free of branches.
        best[c] = replaces ? candidate : before;
        place[c] = replaces ? here : place[c];
      }
    }
  }

  static void columns_end(void* lanes, int64_t width, int64_t, int64_t first, void* accumulators) {
    const T* best = static_cast<const T*>(lanes);
    const Index* place = reinterpret_cast<const Index*>(best + width);
    Found* out = static_cast<Found*>(accumulators);
    for (int64_t c = 0; c < width; ++c) put(out + c, best[c], first + place[c]);
  }

  static void fold(void* earlier, const void* later, int64_t count) {
    Found* a = static_cast<Found*>(earlier);
    const Found* b = static_cast<const Found*>(later);
    for (int64_t i = 0; i < count; ++i) {
      if (Order::replaces(value_of(b + i), value_of(a + i))) a[i] = b[i];
    }
  }

  static constexpr int kLanes = reduction::kLanes;
  static constexpr TreeKernel kKernel = {sizeof(T),     sizeof(Found), rows,        nullptr,
                                         columns_begin, columns,       columns_end, fold};
};

template <class Order> void set_kernels(TreeKernel (&kernels)[kComputes]) {
  kernels[static_cast<int>(Compute::Float32)] = Arg<Order, float>::kKernel;
  kernels[static_cast<int>(Compute::Float64)] = Arg<Order, double>::kKernel;
  kernels[static_cast<int>(Compute::Int32)] = Arg<Order, int>::kKernel;
  kernels[static_cast<int>(Compute::Int64)] = Arg<Order, Int64>::kKernel;
}

}  // namespace

void set_arg_kernels(ReduceTable& table) {
  set_kernels<reduction::Greater>(table.kernels[static_cast<int>(TreeOp::ArgMax)]);
  set_kernels<reduction::Less>(table.kernels[static_cast<int>(TreeOp::ArgMin)]);
}

}  // namespace weft::cpu::WEFT_ISA

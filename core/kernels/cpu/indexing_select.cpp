// Masks, places of nonzero elements, counting and searching.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/kernels/cpu/indexing.h"
#include "core/kernels/cpu/indexing_walk.h"
#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/compare.h"

namespace weft::cpu {

namespace {

SharedDims<2> shared_dims(const Strided& x, const Strided& mask) {
  SharedDims<2> dims;
  for (int d = 0; d < x.ndim; ++d) dims.add(x.sizes[d], {x.strides[d], mask.strides[d]});
  return dims;
}

int64_t pieces_of(int64_t elements) { return (elements + kPieceElements - 1) / kPieceElements; }

// ---- elements that are chosen, in row-major order -----------------------------------------------

// How many elements are chosen in each piece; chosen(run's offsets, i) tells for one element.
template <int tensors, class Chosen>
std::vector<int64_t> count_by_piece(const SharedDims<tensors>& dims, Chosen chosen) {
  const int64_t elements = dims.count();
  std::vector<int64_t> counts(static_cast<size_t>(pieces_of(elements)));
  parallel(pieces_of(elements), [&](int64_t piece) {
    int64_t count = 0;
    const int64_t begin = piece * kPieceElements;
    dims.for_runs(begin, std::min(elements, begin + kPieceElements), [&](int64_t, int64_t n, const int64_t* offsets) {
      for (int64_t i = 0; i < n; ++i) count += chosen(offsets, i);
    });
    counts[static_cast<size_t>(piece)] = count;
  });
  return counts;
}

// take(run's offsets, position of the element, i, how many were chosen before) for chosen elements.
template <int tensors, class Chosen, class Take>
void take_chosen(const SharedDims<tensors>& dims, Chosen chosen, Take take) {
  constexpr int64_t kBlock = 512;
  const int64_t elements = dims.count();
  std::vector<int64_t> before = count_by_piece(dims, chosen);
  int64_t total = 0;
  for (int64_t& count : before) total += std::exchange(count, total);
  parallel(pieces_of(elements), [&](int64_t piece) {
    int64_t rank = before[static_cast<size_t>(piece)];
    const int64_t begin = piece * kPieceElements;
    dims.for_runs(begin, std::min(elements, begin + kPieceElements),
                  [&](int64_t position, int64_t n, const int64_t* offsets) {
                    int64_t picked[kBlock];
                    for (int64_t first = 0; first < n; first += kBlock) {
                      // Without branches: which elements are chosen cannot be foreseen.
                      int64_t count = 0;
                      for (int64_t i = first; i < std::min(n, first + kBlock); ++i) {
                        picked[count] = i;
                        count += chosen(offsets, i);
                      }
                      for (int64_t j = 0; j < count; ++j) { take(offsets, position + picked[j], picked[j], rank++); }
                    }
                  });
  });
}

template <class T> bool is_nonzero(T x) {
  if constexpr (math::kIsComplex<T>) return (x.re != 0) | (x.im != 0);
  else return math::widen(x) != 0;
}

SharedDims<1> own_dims(const Strided& x) {
  SharedDims<1> dims;
  for (int d = 0; d < x.ndim; ++d) dims.add(x.sizes[d], {x.strides[d]});
  return dims;
}

template <class T> auto nonzero_in(const Strided& x, const SharedDims<1>& dims) {
  return [data = x.data, step = dims.run_stride(0)](const int64_t* offsets, int64_t i) {
    return is_nonzero(at<T>(data + offsets[0] + i * step));
  };
}

// ---- sorted lines -------------------------------------------------------------------------------

// Whether an element of the sorted line stays before the value. Written with "not" because every
// comparison with NaN is false: a NaN value goes to the end.
template <bool right, class T> bool stays_before(T element, T value) {
  const auto e = math::widen(element), v = math::widen(value);
  if constexpr (right) return !(e > v);
  else return !(e >= v);
}

// Without branches: which way a search turns cannot be foreseen.
template <bool right, class T>
int64_t place_in(const char* sorted, int64_t step, int64_t size, const char* sorter, int64_t sorter_step, T value) {
  const auto stays_before_at = [&](int64_t place) {
    if (sorter != nullptr) {
      place = at<int64_t>(sorter + place * sorter_step);
      if (place < 0) place += size;
    }
    return static_cast<int64_t>(stays_before<right>(at<T>(sorted + place * step), value));
  };
  int64_t begin = 0, length = size;
  while (length > 1) {
    const int64_t half = length / 2;
    begin += half & -stays_before_at(begin + half - 1);
    length -= half;
  }
  return length == 0 ? 0 : begin + stays_before_at(begin);
}

}  // namespace

int64_t count_true(Strided mask) { return count_nonzero_elements(DType::Bool, mask); }

void masked_select(int item_size, void* out, Strided self, Strided mask) {
  const SharedDims<2> dims = shared_dims(self, mask);
  const int64_t self_step = dims.run_stride(0), mask_step = dims.run_stride(1);
  with_item(item_size, [&](auto item) {
    using Item = decltype(item);
    take_chosen(
        dims, [&](const int64_t* offsets, int64_t i) { return at<bool>(mask.data + offsets[1] + i * mask_step); },
        [&](const int64_t* offsets, int64_t, int64_t i, int64_t rank) {
          static_cast<Item*>(out)[rank] = at<Item>(self.data + offsets[0] + i * self_step);
        });
  });
}

void masked_scatter(int item_size, Strided self, Strided mask, const void* source) {
  const SharedDims<2> dims = shared_dims(self, mask);
  const int64_t self_step = dims.run_stride(0), mask_step = dims.run_stride(1);
  with_item(item_size, [&](auto item) {
    using Item = decltype(item);
    take_chosen(
        dims, [&](const int64_t* offsets, int64_t i) { return at<bool>(mask.data + offsets[1] + i * mask_step); },
        [&](const int64_t* offsets, int64_t, int64_t i, int64_t rank) {
          at<Item>(self.data + offsets[0] + i * self_step) = static_cast<const Item*>(source)[rank];
        });
  });
}

int64_t count_nonzero_elements(DType dtype, Strided self) {
  const SharedDims<1> dims = own_dims(self);
  int64_t total = 0;
  with_dtype(dtype, [&](auto zero) {
    for (int64_t count : count_by_piece(dims, nonzero_in<decltype(zero)>(self, dims))) total += count;
  });
  return total;
}

void nonzero(DType dtype, Strided self, int64_t* out) {
  const SharedDims<1> dims = own_dims(self);
  const int ndim = self.ndim;
  with_dtype(dtype, [&](auto zero) {
    take_chosen(dims, nonzero_in<decltype(zero)>(self, dims),
                [&](const int64_t*, int64_t position, int64_t, int64_t rank) {
                  int64_t* const row = out + rank * ndim;
                  for (int d = ndim - 1; d >= 0; --d) {
                    row[d] = position % self.sizes[d];
                    position /= self.sizes[d];
                  }
                });
  });
}

void bincount(Strided x, const Strided* weights, DType weights_dtype, int64_t bins, void* counts) {
  const int64_t n = x.sizes[0];
  const auto add_all = [&](auto zero, auto amount) {
    using T = decltype(zero);
    T* const sums = static_cast<T*>(counts);
    std::fill_n(sums, bins, zero);
    for (int64_t i = 0; i < n; ++i) sums[at<int64_t>(x.data + i * x.strides[0])] += amount(i);
  };
  const auto weight = [&](auto zero) {
    return [weights](int64_t i) { return at<decltype(zero)>(weights->data + i * weights->strides[0]); };
  };
  if (weights == nullptr) add_all(int64_t{}, [](int64_t) { return int64_t{1}; });
  else if (weights_dtype == DType::Float32) add_all(float{}, weight(float{}));
  else add_all(double{}, weight(double{}));
}

IndexStatus searchsorted(DType dtype, Strided out, Strided sorted, Strided values, bool right, const Strided* sorter) {
  const int last = values.ndim - 1;
  const int64_t length = sorted.sizes[last];
  if (sorter != nullptr) {
    if (const IndexStatus status = check_index(*sorter, length); !status) return status;
  }
  const Strided* const order = sorter == nullptr ? &sorted : sorter;
  const Lines<4> lines({&values, &out, &sorted, order}, last);
  const int64_t elements = lines.count * lines.length;
  with_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!math::kIsComplex<T>) {
      parallel(std::max<int64_t>(1, pieces_of(elements)), [&](int64_t piece) {
        const int64_t end = std::min(elements, (piece + 1) * kPieceElements);
        for (int64_t position = piece * kPieceElements; position < end;) {
          const int64_t line = position / lines.length, first = position % lines.length;
          const int64_t n = std::min(lines.length - first, end - position);
          const char* const from = lines.line(0, line);
          char* const to = lines.line(1, line);
          const char* const row = lines.line(2, line);
          const char* const row_order = sorter == nullptr ? nullptr : lines.line(3, line);
          for (int64_t l = first; l < first + n; ++l) {
            const T value = at<T>(from + l * lines.step[0]);
            at<int64_t>(to + l * lines.step[1]) =
                right ? place_in<true>(row, lines.step[2], length, row_order, lines.step[3], value)
                      : place_in<false>(row, lines.step[2], length, row_order, lines.step[3], value);
          }
          position += n;
        }
      });
    }
  });
  return {};
}

}  // namespace weft::cpu

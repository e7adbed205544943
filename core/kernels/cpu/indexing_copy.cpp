#include <cstring>

#include "core/kernels/cpu/indexing.h"
#include "core/kernels/cpu/indexing_walk.h"
#include "core/kernels/cpu/isa/transpose_table.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceBytes = 1 << 18;
constexpr int kTile = 16;

// rows x columns of elements; strides in bytes.
struct Plane {
  int64_t rows, columns;
  int64_t dst_row, dst_column, src_row, src_column;
};

template <class Item> void copy_row(char* dst, const char* src, const Plane& p) {
  if (p.dst_column == sizeof(Item) && p.src_column == sizeof(Item)) {
    std::memcpy(dst, src, static_cast<size_t>(p.columns) * sizeof(Item));
  } else if (p.dst_column == sizeof(Item)) {
    Item* const to = reinterpret_cast<Item*>(dst);
    for (int64_t j = 0; j < p.columns; ++j) to[j] = at<Item>(src + j * p.src_column);
  } else {
    for (int64_t j = 0; j < p.columns; ++j) { at<Item>(dst + j * p.dst_column) = at<Item>(src + j * p.src_column); }
  }
}

// dst's columns and src's rows are adjacent: tile by tile, so that both sides use whole cache
// lines.
template <class Item> void transpose_plane(char* dst, const char* src, const Plane& p) {
  if constexpr (sizeof(Item) == 4 || sizeof(Item) == 8) {
    return transpose_table().of(sizeof(Item))(dst, p.dst_row, src, p.src_column, p.rows, p.columns);
  }
  for (int64_t i0 = 0; i0 < p.rows; i0 += kTile) {
    const int64_t i1 = std::min(p.rows, i0 + kTile);
    for (int64_t j0 = 0; j0 < p.columns; j0 += kTile) {
      const int64_t j1 = std::min(p.columns, j0 + kTile);
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = j0; j < j1; ++j) {
          at<Item>(dst + i * p.dst_row + j * p.dst_column) = at<Item>(src + i * p.src_row + j * p.src_column);
        }
      }
    }
  }
}

template <class Item> void copy_plane(char* dst, const char* src, const Plane& p) {
  constexpr int64_t size = sizeof(Item);
  if (p.dst_column == size && p.src_row == size && p.src_column != size && p.rows > 1) {
    return transpose_plane<Item>(dst, src, p);
  }
  for (int64_t i = 0; i < p.rows; ++i) copy_row<Item>(dst + i * p.dst_row, src + i * p.src_row, p);
}

// The order of the dimensions is free: dst's largest stride outermost, then, where another
// dimension is adjacent in src, that one next to the innermost.
struct Order {
  int ndim = 0;
  int dims[kMaxDims];

  Order(int item_size, const Strided& dst, const Strided& src) {
    const auto distance = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    for (int d = 0; d < dst.ndim; ++d) {
      if (dst.sizes[d] == 1) continue;
      int place = ndim++;
      for (; place > 0 && distance(dst.strides[dims[place - 1]]) < distance(dst.strides[d]); --place) {
        dims[place] = dims[place - 1];
      }
      dims[place] = d;
    }
    for (int i = 0; i + 2 < ndim; ++i) {
      if (src.strides[dims[i]] == item_size) {
        std::rotate(dims + i, dims + i + 1, dims + ndim - 1);
        break;
      }
    }
  }
};

}  // namespace

void copy_strided(int item_size, Strided dst, Strided src) {
  const int64_t elements = element_count(dst);
  if (elements == 0) return;
  const Order order(item_size, dst, src);
  SharedDims<2> dims;
  for (int i = 0; i < order.ndim; ++i) {
    const int d = order.dims[i];
    dims.add(dst.sizes[d], {dst.strides[d], src.strides[d]});
  }
  const int64_t piece_elements = std::max<int64_t>(kTile, kPieceBytes / item_size);
  if (dims.ndim <= 1) {
    const int64_t dst_step = dims.run_stride(0), src_step = dims.run_stride(1);
    const auto copy_range = [&](int64_t begin, int64_t end) {
      with_item(item_size, [&](auto item) {
        copy_row<decltype(item)>(
            dst.data + begin * dst_step, src.data + begin * src_step,
            {1, end - begin, 0, dims.ndim == 0 ? item_size : dst_step, 0, dims.ndim == 0 ? item_size : src_step});
      });
    };
    if (elements <= piece_elements) return copy_range(0, elements);
    return parallel((elements + piece_elements - 1) / piece_elements, [&](int64_t piece) {
      copy_range(piece * piece_elements, std::min(elements, (piece + 1) * piece_elements));
    });
  }
  // Planes of the last two dimensions, cut into bands of rows.
  const int last = dims.ndim - 1;
  const Plane plane{dims.sizes[last - 1],  dims.sizes[last],          dims.strides[last - 1][0],
                    dims.strides[last][0], dims.strides[last - 1][1], dims.strides[last][1]};
  SharedDims<2> outer = dims;
  outer.ndim -= 2;
  const int64_t planes = outer.count();
  const int64_t band = std::min(plane.rows, std::max<int64_t>(kTile, piece_elements / plane.columns / kTile * kTile));
  const int64_t bands = (plane.rows + band - 1) / band;
  const int64_t group = std::max<int64_t>(1, piece_elements / (band * plane.columns));
  const int64_t units = planes * bands;
  parallel((units + group - 1) / group, [&](int64_t piece) {
    for (int64_t unit = piece * group; unit < std::min(units, (piece + 1) * group); ++unit) {
      const int64_t first = unit % bands * band;
      Plane part = plane;
      part.rows = std::min(band, plane.rows - first);
      const int64_t index = unit / bands;
      outer.for_runs(index, index + 1, [&](int64_t, int64_t, const int64_t* offsets) {
        char* const to = dst.data + offsets[0] + first * plane.dst_row;
        const char* const from = src.data + offsets[1] + first * plane.src_row;
        with_item(item_size, [&](auto item) { copy_plane<decltype(item)>(to, from, part); });
      });
    }
  });
}

}  // namespace weft::cpu

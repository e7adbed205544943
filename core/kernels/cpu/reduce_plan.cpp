#include "core/kernels/cpu/reduce_plan.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/kernels/cpu/isa/transpose_table.h"
#include "core/kernels/cpu/scratch.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/reduction.h"

namespace weft::cpu {

namespace {

using reduction::kChunk;
using reduction::kLanes;

constexpr int64_t kPieceElements = 65536;  // about what one piece of parallel work should read
constexpr int64_t kLaneBytes = 65536;      // of a block of columns: wide rows, lanes near L1
constexpr int64_t kRowBatch = 256;         // rows whose accumulators are kept on the stack
constexpr int64_t kMaxAccumulator = 16;
constexpr int64_t kChunkBatch = 16;  // chunks of one sequence handed to a kernel at once
constexpr int64_t kWideBlock = 64;   // columns from which rows are long enough to be read one by one
constexpr int64_t kWidestBlock = 512;
constexpr int64_t kPanel = 16;  // runs that are gathered together

thread_local Scratch gathered_runs;

// Where in memory element `index` of a sequence lies, and how many of the following elements lie
// at the innermost stride.
struct Cursor {
  const ReduceDims& dims;
  int64_t place[kMaxDims];
  int64_t offset = 0;

  Cursor(const ReduceDims& dims, int64_t index) : dims(dims) {
    for (int d = dims.ndim - 1; d >= 0; --d) {
      place[d] = index % dims.sizes[d];
      index /= dims.sizes[d];
      offset += place[d] * dims.strides[d];
    }
  }
  int64_t run() const { return dims.ndim == 0 ? 1 : dims.sizes[dims.ndim - 1] - place[dims.ndim - 1]; }
  // Whole runs from here to the end of the next outer dim; 0 in the middle of a run.
  int64_t runs() const {
    const int d = dims.ndim - 1;
    return d < 1 || place[d] != 0 ? 0 : dims.sizes[d - 1] - place[d - 1];
  }
  void advance(int64_t count) {  // count <= run()
    int d = dims.ndim - 1;
    if (d < 0) return;
    place[d] += count;
    offset += count * dims.strides[d];
    for (; d > 0 && place[d] == dims.sizes[d]; --d) {
      offset += dims.strides[d - 1] - place[d] * dims.strides[d];
      place[d] = 0;
      ++place[d - 1];
    }
  }
};

int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }
int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Runner {
 public:
  explicit Runner(const ReducePlan& plan) : plan_(plan) {
    n_ = 1;
    for (int d = 0; d < plan.reduced.ndim; ++d) n_ *= plan.reduced.sizes[d];
    outputs_ = 1;
    for (int d = plan.kept.ndim - 1; d >= 0; --d) {
      out_strides_[d] = outputs_;
      outputs_ *= plan.kept.sizes[d];
    }
    const int inner = plan.reduced.ndim - 1;
    inner_stride_ = inner < 0 ? plan.in_size : plan.reduced.strides[inner];
    chunks_ = std::max<int64_t>(1, ceil_divide(n_, kChunk));
    choose_block();
  }

  void run() {
    if (outputs_ == 0) return;
    if (groups_ > 1) return run_groups();
    // Small blocks share a piece.
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / (width_ * std::max<int64_t>(1, n_)));
    const bool small = outputs_ * std::max<int64_t>(1, n_) <= kPieceElements / 2;
    const int64_t pieces = small ? 1 : ceil_divide(units_, per_piece);
    const int64_t share = small ? units_ : per_piece;
    parallel(pieces, [&](int64_t piece) {
      const int64_t end = std::min(units_, (piece + 1) * share);
      for (int64_t unit = piece * share; unit < end; ++unit) run_unit(unit);
    });
  }

 private:
  // `width` outputs along the block dim, from one place of the other kept dims.
  struct Block {
    const char* data;
    int64_t out;  // in elements
    int64_t width;
  };

  // Rows: every sequence is read along itself. Columns: neighbouring sequences are read together,
  // because they are closer in memory than the elements of one.
  void choose_block() {
    const ReduceDims& kept = plan_.kept;
    int nearest = -1, longest = -1;
    for (int d = 0; d < kept.ndim; ++d) {
      const int64_t stride = magnitude(kept.strides[d]);
      if (stride != 0 && (nearest < 0 || stride < magnitude(kept.strides[nearest]))) nearest = d;
      if (longest < 0 || kept.sizes[d] > kept.sizes[longest]) longest = d;
    }
    by_columns_ = nearest >= 0 && n_ > 0 && magnitude(kept.strides[nearest]) < magnitude(inner_stride_);
    block_dim_ = by_columns_ ? nearest : longest;
    block_stride_ = block_dim_ < 0 ? 0 : kept.strides[block_dim_];
    block_out_stride_ = block_dim_ < 0 ? 1 : out_strides_[block_dim_];
    block_size_ = block_dim_ < 0 ? 1 : kept.sizes[block_dim_];
    const int64_t lanes = std::max(2, reduction::lanes_in_use(n_));
    int64_t width = 1;
    if (by_columns_) {
      column_chunks_ = plan_.kernel->column_chunks != nullptr && !plan_.needs_convert &&
                       block_stride_ == plan_.compute_size && block_size_ >= kWideBlock;
      const bool whole_chunks = column_chunks_ && plan_.reduced.ndim <= 1;
      width = whole_chunks ? kWidestBlock : std::min<int64_t>(1024, kLaneBytes / (plan_.kernel->lane_size * lanes));
    } else if (chunks_ == 1) {
      width = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, n_));
    }
    width_ = std::min(width, std::max<int64_t>(1, block_size_));
    blocks_ = ceil_divide(block_size_, width_);
    units_ = block_size_ == 0 ? 0 : blocks_ * (outputs_ / block_size_);
    const int64_t run = plan_.reduced.ndim < 2 ? 0 : plan_.reduced.sizes[plan_.reduced.ndim - 1];
    sequence_is_transposed_ = !by_columns_ && run > 1 && run * 4 <= kPieceElements &&
                              magnitude(plan_.reduced.strides[plan_.reduced.ndim - 2]) < magnitude(inner_stride_);
    row_reads_in_place_ =
        !plan_.needs_convert && plan_.reduced.ndim <= 1 && (inner_stride_ == plan_.compute_size || n_ <= 1);
    group_ = 1;
    while (group_ * kChunk * width_ < kPieceElements) group_ *= 2;
    groups_ = ceil_divide(chunks_, group_);
  }

  Block block(int64_t unit) const {
    const int64_t first = unit % blocks_ * width_;
    int64_t rest = unit / blocks_;
    Block block{plan_.data + first * block_stride_, first * block_out_stride_, std::min(width_, block_size_ - first)};
    for (int d = plan_.kept.ndim - 1; d >= 0; --d) {
      if (d == block_dim_) continue;
      const int64_t place = rest % plan_.kept.sizes[d];
      rest /= plan_.kept.sizes[d];
      block.data += place * plan_.kept.strides[d];
      block.out += place * out_strides_[d];
    }
    return block;
  }

  void finish(const Finish& with, const void* accumulators, const Block& block, int64_t from, int64_t count,
              void* out) const {
    const int64_t place = block.out + from * block_out_stride_;
    with.loop(with, accumulators, count, static_cast<char*>(out) + place * with.out_size, block_out_stride_,
              plan_.out_index ? plan_.out_index + place : nullptr);
  }

  // A unit whose outputs need no more than one group.
  void run_unit(int64_t unit) const {
    const Block whole = block(unit);
    const int64_t batch = by_columns_ ? width_ : kRowBatch;
    alignas(64) char accumulators[1024 * kMaxAccumulator];
    alignas(64) char means[1024 * 8];
    for (int64_t from = 0; from < whole.width; from += batch) {
      Block part = whole;
      part.data += from * block_stride_;
      part.width = std::min(batch, whole.width - from);
      reduce_chunks(*plan_.kernel, part, 0, chunks_, nullptr, accumulators);
      if (plan_.around != nullptr) {
        divide_by_n(accumulators, part.width, means);
        if (plan_.mean_out) finish(plan_.finish_mean, means, whole, from, part.width, plan_.mean_out);
        if (plan_.out == nullptr) continue;
        reduce_chunks(*plan_.around, part, 0, chunks_, means, accumulators);
      }
      finish(plan_.finish, accumulators, whole, from, part.width, plan_.out);
    }
  }

  void run_groups() const {
    const size_t bytes = static_cast<size_t>(units_ * width_ * kMaxAccumulator);
    std::unique_ptr<char[]> results(new char[bytes]);
    reduce_groups(*plan_.kernel, nullptr, results.get());
    if (plan_.around != nullptr) {
      std::unique_ptr<char[]> means(new char[static_cast<size_t>(units_ * width_ * 8)]);
      for (int64_t unit = 0; unit < units_; ++unit) {
        const Block whole = block(unit);
        char* mean = means.get() + unit * width_ * plan_.compute_size;
        divide_by_n(results.get() + unit * width_ * plan_.kernel->accumulator_size, whole.width, mean);
        if (plan_.mean_out) finish(plan_.finish_mean, mean, whole, 0, whole.width, plan_.mean_out);
      }
      if (plan_.out == nullptr) return;
      reduce_groups(*plan_.around, means.get(), results.get());
    }
    const int64_t size = plan_.kernel->accumulator_size;
    for (int64_t unit = 0; unit < units_; ++unit) {
      const Block whole = block(unit);
      finish(plan_.finish, results.get() + unit * width_ * size, whole, 0, whole.width, plan_.out);
    }
  }

  void reduce_groups(const TreeKernel& kernel, const char* centers, char* results) const {
    const int64_t bytes = width_ * kernel.accumulator_size;
    std::unique_ptr<char[]> partial(new char[static_cast<size_t>(units_ * groups_ * bytes)]);
    parallel(units_ * groups_, [&](int64_t piece) {
      const int64_t unit = piece / groups_, group = piece % groups_;
      const char* center = centers ? centers + unit * width_ * plan_.compute_size : nullptr;
      reduce_chunks(kernel, block(unit), group * group_, std::min(chunks_, (group + 1) * group_), center,
                    partial.get() + piece * bytes);
    });
    for (int64_t unit = 0; unit < units_; ++unit) {
      const char* groups = partial.get() + unit * groups_ * bytes;
      const int64_t width = block(unit).width;  // the last block of a dim may be narrower
      fold_in_order(kernel, groups_, width, results + unit * bytes, [&](int64_t group, char* to) {
        std::memcpy(to, groups + group * bytes, static_cast<size_t>(width * kernel.accumulator_size));
      });
    }
  }

  void divide_by_n(const void* sums, int64_t count, void* means) const {
    if (plan_.compute_size == 4) {
      for (int64_t i = 0; i < count; ++i) {
        static_cast<float*>(means)[i] = static_cast<const float*>(sums)[i] / static_cast<float>(n_);
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        static_cast<double*>(means)[i] = static_cast<const double*>(sums)[i] / static_cast<double>(n_);
      }
    }
  }

  // Rule 4 of the fixed tree, for `width` trees at once. leaf(i, to) writes leaf i.
  template <class Leaf>
  static void fold_in_order(const TreeKernel& kernel, int64_t leaves, int64_t width, char* result, Leaf leaf) {
    if (leaves == 1) return leaf(0, result);
    const int64_t bytes = width * kernel.accumulator_size;
    int levels = 1;
    while ((int64_t{1} << levels) <= leaves) ++levels;
    std::unique_ptr<char[]> stack(new char[static_cast<size_t>(levels * bytes)]);
    auto level = [&](int k) { return stack.get() + k * bytes; };
    // A leaf is written above the trees that wait for it; every set bit of i is a waiting tree.
    int waiting = 0;
    for (int64_t i = 0; i < leaves; ++i) {
      leaf(i, level(waiting));
      ++waiting;
      for (int64_t bits = i; bits & 1; bits >>= 1) {
        --waiting;
        kernel.fold(level(waiting - 1), level(waiting), width);
      }
    }
    for (; waiting > 1; --waiting) kernel.fold(level(waiting - 2), level(waiting - 1), width);
    std::memcpy(result, stack.get(), static_cast<size_t>(bytes));
  }

  void reduce_chunks(const TreeKernel& kernel, const Block& block, int64_t begin, int64_t end, const char* center,
                     char* accumulators) const {
    if (sequence_is_transposed_ && end - begin > 1) {
      // Runs lie side by side and reach over many chunks: all of them are gathered first, whole.
      const int64_t run = plan_.reduced.sizes[plan_.reduced.ndim - 1];
      const int64_t first = begin * kChunk, last = std::min(n_, end * kChunk);
      const int64_t gathered_from = first / run * run, gathered_to = ceil_divide(last, run) * run;
      const int64_t size = plan_.compute_size;
      char* gathered = gathered_runs.at_least(static_cast<size_t>((gathered_to - gathered_from) * size));
      gather(block.data, gathered_from, gathered_to - gathered_from, gathered);
      return fold_in_order(kernel, end - begin, 1, accumulators, [&](int64_t i, char* to) {
        const int64_t from = first + i * kChunk;
        kernel.rows(gathered + (from - gathered_from) * size, 0, 1, std::min<int64_t>(kChunk, last - from), center,
                    from, 0, to);
      });
    }
    if (row_reads_in_place_ && block.width == 1 && end - begin > 1) {
      return chunks_in_place(kernel, block.data, begin, end, center, accumulators);
    }
    fold_in_order(kernel, end - begin, block.width, accumulators, [&](int64_t i, char* to) {
      const int64_t first = (begin + i) * kChunk;
      const int64_t n = std::min<int64_t>(kChunk, n_ - first);
      if (by_columns_) {
        chunk_by_columns(kernel, block, first, n, center, to);
      } else if (row_reads_in_place_) {
        kernel.rows(block.data + first * inner_stride_, block_stride_, block.width, n, center, first, 0, to);
      } else {
        chunk_by_rows(kernel, block, first, n, center, to);
      }
    });
  }

  // Several chunks of one sequence are rows to the kernel, so that it is called once for many. Each
  // full batch is a perfect tree of its own.
  void chunks_in_place(const TreeKernel& kernel, const char* data, int64_t begin, int64_t end, const char* center,
                       char* accumulators) const {
    const int64_t batches = ceil_divide(end - begin, kChunkBatch);
    alignas(64) char centers[kChunkBatch * 8];
    if (center != nullptr) {
      for (int64_t i = 0; i < kChunkBatch; ++i) {
        std::memcpy(centers + i * plan_.compute_size, center, static_cast<size_t>(plan_.compute_size));
      }
    }
    fold_in_order(kernel, batches, 1, accumulators, [&](int64_t batch, char* to) {
      alignas(64) char results[kChunkBatch * kMaxAccumulator];
      const int64_t first = (begin + batch * kChunkBatch) * kChunk;
      const int64_t count = std::min(n_, end * kChunk) - first;
      const int64_t whole = std::min(kChunkBatch, count / kChunk);
      const int64_t rest = whole == kChunkBatch ? 0 : count % kChunk;
      const char* from = data + first * inner_stride_;
      const int64_t chunk_bytes = kChunk * inner_stride_;
      const char* shared = center == nullptr ? nullptr : centers;
      kernel.rows(from, chunk_bytes, whole, kChunk, shared, first, kChunk, results);
      if (rest != 0) {
        kernel.rows(from + whole * chunk_bytes, 0, 1, rest, shared, first + whole * kChunk, 0,
                    results + whole * kernel.accumulator_size);
      }
      fold_adjacent(kernel, whole + (rest != 0), results, to);
    });
  }

  // Rule 4 on results that lie side by side, level by level; they are overwritten.
  static void fold_adjacent(const TreeKernel& kernel, int64_t leaves, char* results, char* to) {
    const int64_t size = kernel.accumulator_size;
    for (int64_t step = 1; step < leaves; step *= 2) {
      for (int64_t i = 0; i + step < leaves; i += 2 * step) {
        kernel.fold(results + i * size, results + (i + step) * size, 1);
      }
    }
    std::memcpy(to, results, static_cast<size_t>(size));
  }

  // Copies rows to a buffer in the compute type, as many at a time as it holds.
  void chunk_by_rows(const TreeKernel& kernel, const Block& block, int64_t first, int64_t n, const char* center,
                     char* accumulators) const {
    alignas(64) char buffer[kChunk * kMaxAccumulator];
    const int64_t row_bytes = n * plan_.compute_size;
    const int64_t batch = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, n));
    const bool dense =
        plan_.reduced.ndim <= 1 && inner_stride_ == plan_.in_size && block_stride_ == n * plan_.in_size && n == n_;
    for (int64_t row = 0; row < block.width; row += batch) {
      const int64_t rows = std::min(batch, block.width - row);
      const char* data = block.data + row * block_stride_;
      if (dense) {
        plan_.convert(data, plan_.in_size, rows * n, buffer);
      } else {
        for (int64_t r = 0; r < rows; ++r) { gather(data + r * block_stride_, first, n, buffer + r * row_bytes); }
      }
      kernel.rows(buffer, row_bytes, rows, n, center ? center + row * plan_.compute_size : nullptr, first, 0,
                  accumulators + row * kernel.accumulator_size);
    }
  }

  // Elements [first, first + n) of a sequence, in order, in the compute type.
  void gather(const char* data, int64_t first, int64_t n, char* to) const {
    if (n == 0) return;
    Cursor cursor(plan_.reduced, first);
    while (n > 0) {
      if (sequence_is_transposed_) {
        const int64_t runs = std::min(n / cursor.run(), cursor.runs());
        if (runs > 1) {
          const int64_t run = cursor.run();
          gather_runs(data + cursor.offset, run, runs, to);
          to += runs * run * plan_.compute_size;
          n -= runs * run;
          for (int64_t r = 0; r < runs; ++r) cursor.advance(run);
          continue;
        }
      }
      const int64_t run = std::min(n, cursor.run());
      plan_.convert(data + cursor.offset, inner_stride_, run, to);
      to += run * plan_.compute_size;
      n -= run;
      cursor.advance(run);
    }
  }

  // Several whole runs whose elements lie closer to those of the next run than to each other: reads
  // along the memory, and writes each run to its place.
  void gather_runs(const char* data, int64_t run, int64_t runs, char* to) const {
    const int64_t across = plan_.reduced.strides[plan_.reduced.ndim - 2], size = plan_.compute_size;
    const auto transpose = transpose_table().of(size);
    if (!plan_.needs_convert && across == size && transpose != nullptr) {
      return transpose(to, run * size, data, inner_stride_, runs, run);
    }
    for (int64_t r = 0; r < runs; r += kPanel) {
      const int64_t panel = std::min(kPanel, runs - r);
      const char* from = data + r * across;
      char* panel_to = to + r * run * size;
      if (size == 4) gather_panel_of<uint32_t>(from, run, panel, panel_to);
      else if (size == 8) gather_panel_of<uint64_t>(from, run, panel, panel_to);
      else gather_panel_of<Complex128>(from, run, panel, panel_to);
    }
  }

  template <class T>
  void gather_panel_of(const char* data, int64_t run, int64_t runs, char* to) const {
    const int64_t across = plan_.reduced.strides[plan_.reduced.ndim - 2];
    T* out = reinterpret_cast<T*>(to);
    alignas(64) T tile[kPanel][kPanel];
    for (int64_t i = 0; i < run; i += kPanel) {
      const int64_t depth = std::min(kPanel, run - i);
      for (int64_t k = 0; k < depth; ++k) { plan_.convert(data + (i + k) * inner_stride_, across, runs, tile[k]); }
      for (int64_t r = 0; r < runs; ++r) {
        for (int64_t k = 0; k < depth; ++k) out[r * run + i + k] = tile[k][r];
      }
    }
  }

  void chunk_by_columns(const TreeKernel& kernel, const Block& block, int64_t first, int64_t n, const char* center,
                        char* accumulators) const {
    alignas(64) char lanes[kLaneBytes];
    const int64_t width = block.width;
    const bool in_place = !plan_.needs_convert && block_stride_ == plan_.compute_size;
    Cursor cursor(plan_.reduced, first);
    if (column_chunks_ && cursor.run() >= n) {
      return kernel.column_chunks(block.data + cursor.offset, inner_stride_, width, n, center, accumulators);
    }
    kernel.columns_begin(lanes, width, n);
    for (int64_t row = 0; row < n;) {
      const int64_t run = std::min(n - row, cursor.run());
      const char* data = block.data + cursor.offset;
      if (in_place) {
        kernel.columns(lanes, width, data, inner_stride_, run, row, center);
      } else {
        columns_by_copy(kernel, lanes, width, data, run, row, center);
      }
      row += run;
      cursor.advance(run);
    }
    kernel.columns_end(lanes, width, n, first, accumulators);
  }

  void columns_by_copy(const TreeKernel& kernel, char* lanes, int64_t width, const char* data, int64_t rows,
                       int64_t first_row, const char* center) const {
    alignas(64) char buffer[kChunk * kMaxAccumulator];
    const int64_t row_bytes = width * plan_.compute_size;
    const int64_t batch = std::min<int64_t>(kLanes, std::max<int64_t>(1, kChunk / width));
    for (int64_t row = 0; row < rows; row += batch) {
      const int64_t count = std::min(batch, rows - row);
      for (int64_t r = 0; r < count; ++r) {
        plan_.convert(data + (row + r) * inner_stride_, block_stride_, width, buffer + r * row_bytes);
      }
      kernel.columns(lanes, width, buffer, row_bytes, count, first_row + row, center);
    }
  }

  const ReducePlan& plan_;
  int64_t n_, outputs_, chunks_;
  int64_t out_strides_[kMaxDims];
  int64_t inner_stride_;
  bool by_columns_, row_reads_in_place_, sequence_is_transposed_;
  bool column_chunks_ = false;
  int block_dim_;
  int64_t block_size_, block_stride_, block_out_stride_;
  int64_t width_, blocks_, units_;
  int64_t group_, groups_;
};

}  // namespace

void coalesce(int ndim, const int64_t* sizes, const int64_t* strides, ReduceDims& dims) {
  dims.ndim = 0;
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] == 1) continue;
    const int last = dims.ndim - 1;
    if (last >= 0 && dims.strides[last] == sizes[d] * strides[d]) {
      dims.sizes[last] *= sizes[d];
      dims.strides[last] = strides[d];
    } else {
      dims.sizes[dims.ndim] = sizes[d];
      dims.strides[dims.ndim++] = strides[d];
    }
  }
}

void run(const ReducePlan& plan) { Runner(plan).run(); }

}  // namespace weft::cpu

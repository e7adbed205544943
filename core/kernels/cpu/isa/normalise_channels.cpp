// Statistics and scaling of one channel that lies in runs, as in a batch of images.
#include "core/kernels/cpu/isa/normalise_parts.h"

namespace weft::cpu::WEFT_ISA {
namespace {

// Hands out the chunks of a channel as contiguous memory, copied together where runs are short.
template <class T> class Chunks {
 public:
  Chunks(ChannelRuns shape, const T* x) : shape_(shape), x_(x) {}
  WEFT_FN const T* next(T* room, int64_t count) {
    if (count <= shape_.length - at_) {
      const T* found = x_ + run_ * shape_.step + at_;
      advance(count);
      return found;
    }
    for (int64_t filled = 0; filled < count;) {
      const int64_t part = smaller(count - filled, shape_.length - at_);
      const T* from = x_ + run_ * shape_.step + at_;
      for (int64_t i = 0; i < part; ++i) room[filled + i] = from[i];
      filled += part;
      advance(part);
    }
    return room;
  }

 private:
  WEFT_FN void advance(int64_t count) {
    at_ += count;
    if (at_ < shape_.length) return;
    at_ = 0;
    ++run_;
  }
  ChannelRuns shape_;
  const T* x_;
  int64_t run_ = 0, at_ = 0;
};

template <class T> struct Channels {
  static void moments(ChannelRuns shape, const void* x, void* mean, void* spread) {
    alignas(64) T room[kChunk];
    Chunks<T> chunks(shape, static_cast<const T*>(x));
    Tree<Moments<T>> tree;
    const auto fold = [](Moments<T> a, Moments<T> b) { return merge(a, b); };
    for (int64_t left = shape.runs * shape.length; left > 0; left -= kChunk) {
      const int64_t count = smaller(kChunk, left);
      tree.push(chunk_moments(chunks.next(room, count), count), fold);
    }
    const Moments<T> all = tree.end(fold);
    *static_cast<T*>(mean) = all.mean;
    *static_cast<T*>(spread) = all.spread;
  }

  static void apply(ChannelRuns shape, const void* x_data, void* y_data, double mean_given, double slope_given,
                    double shift_given) {
    const T mean = static_cast<T>(mean_given), slope = static_cast<T>(slope_given), shift = static_cast<T>(shift_given);
    for (int64_t r = 0; r < shape.runs; ++r) {
      const T* x = static_cast<const T*>(x_data) + r * shape.step;
      T* y = static_cast<T*>(y_data) + r * shape.step;
#pragma GCC ivdep
      for (int64_t i = 0; i < shape.length; ++i) y[i] = math::fma(x[i] - mean, slope, shift);
    }
  }

  static void sums(ChannelRuns shape, const void* g, const void* x, double mean, void* sum, void* product_sum) {
    alignas(64) T room_g[kChunk], room_x[kChunk];
    Chunks<T> chunks_g(shape, static_cast<const T*>(g)), chunks_x(shape, static_cast<const T*>(x));
    Tree<TwoSums<T>> tree;
    const auto fold = [](TwoSums<T> a, TwoSums<T> b) { return add_sums(a, b); };
    for (int64_t left = shape.runs * shape.length; left > 0; left -= kChunk) {
      const int64_t count = smaller(kChunk, left);
      const T* from_g = chunks_g.next(room_g, count);
      const T* from_x = chunks_x.next(room_x, count);
      tree.push(chunk_sums<false, T>(from_g, from_x, nullptr, static_cast<T>(mean), count), fold);
    }
    const TwoSums<T> all = tree.end(fold);
    *static_cast<T*>(sum) = all.sum;
    *static_cast<T*>(product_sum) = all.product_sum;
  }

  static void backward(ChannelRuns shape, const void* g_data, const void* x_data, void* y_data, double mean_given,
                       double slope_given, double shift_given, double pull_given) {
    const T mean = static_cast<T>(mean_given), slope = static_cast<T>(slope_given), shift = static_cast<T>(shift_given),
            pull = static_cast<T>(pull_given);
    for (int64_t r = 0; r < shape.runs; ++r) {
      const T* g = static_cast<const T*>(g_data) + r * shape.step;
      const T* x = static_cast<const T*>(x_data) + r * shape.step;
      T* y = static_cast<T*>(y_data) + r * shape.step;
#pragma GCC ivdep
      for (int64_t i = 0; i < shape.length; ++i) y[i] = slope * math::fma(-(x[i] - mean), pull, g[i] - shift);
    }
  }

  static constexpr NormChannelLoops kLoops = {moments, apply, sums, backward};
};

}  // namespace

void set_norm_channels(NormTable& table) {
  table.channels_of_float = Channels<float>::kLoops;
  table.channels_of_double = Channels<double>::kLoops;
}

}  // namespace weft::cpu::WEFT_ISA

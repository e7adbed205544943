#include "core/kernels/cpu/convolution_onednn.h"

#ifdef WEFT_WITH_ONEDNN

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/kernels/cpu/convolution_images.h"
#include "core/kernels/cpu/convolution_sums.h"
#include "core/kernels/cpu/convolution_tiles.h"
#include "core/kernels/cpu/libraries.h"
#include "core/kernels/cpu/scratch.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

// ---- the library --------------------------------------------------------------------------------

struct Functions {
  decltype(&dnnl_engine_create) engine_create;
  decltype(&dnnl_stream_create) stream_create;
  decltype(&dnnl_stream_destroy) stream_destroy;
  decltype(&dnnl_memory_desc_create_with_strides) desc_create;
  decltype(&dnnl_memory_desc_create_with_tag) desc_create_with_tag;
  decltype(&dnnl_memory_desc_clone) desc_clone;
  decltype(&dnnl_memory_desc_destroy) desc_destroy;
  decltype(&dnnl_memory_desc_get_size) desc_size;
  decltype(&dnnl_memory_create) memory_create;
  decltype(&dnnl_memory_destroy) memory_destroy;
  decltype(&dnnl_memory_set_data_handle) memory_set_data;
  decltype(&dnnl_primitive_attr_create) attr_create;
  decltype(&dnnl_primitive_attr_destroy) attr_destroy;
  decltype(&dnnl_primitive_attr_set_scratchpad_mode) attr_set_scratchpad_mode;
  decltype(&dnnl_convolution_forward_primitive_desc_create) forward_create;
  decltype(&dnnl_convolution_backward_data_primitive_desc_create) backward_data_create;
  decltype(&dnnl_convolution_backward_weights_primitive_desc_create) backward_weights_create;
  decltype(&dnnl_reorder_primitive_desc_create) reorder_create;
  decltype(&dnnl_primitive_desc_query) query;
  decltype(&dnnl_primitive_desc_query_md) query_desc;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy;
  decltype(&dnnl_primitive_create) primitive_create;
  decltype(&dnnl_primitive_destroy) primitive_destroy;
  decltype(&dnnl_primitive_execute) execute;
  dnnl_engine_t engine;
};

const Functions* load() {
  static Functions dnn{};
  const char* const forced = std::getenv("WEFT_GEMM");
  if (forced != nullptr && std::strcmp(forced, "portable") == 0) return nullptr;
  if (!library_available("onednn")) return nullptr;
  const auto named = [](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library_symbol(Library::onednn, name));
    return function != nullptr;
  };
  const bool complete =
      named("dnnl_engine_create", dnn.engine_create) && named("dnnl_stream_create", dnn.stream_create) &&
      named("dnnl_stream_destroy", dnn.stream_destroy) &&
      named("dnnl_memory_desc_create_with_strides", dnn.desc_create) &&
      named("dnnl_memory_desc_create_with_tag", dnn.desc_create_with_tag) &&
      named("dnnl_memory_desc_clone", dnn.desc_clone) && named("dnnl_memory_desc_destroy", dnn.desc_destroy) &&
      named("dnnl_memory_desc_get_size", dnn.desc_size) && named("dnnl_memory_create", dnn.memory_create) &&
      named("dnnl_memory_destroy", dnn.memory_destroy) && named("dnnl_memory_set_data_handle", dnn.memory_set_data) &&
      named("dnnl_primitive_attr_create", dnn.attr_create) && named("dnnl_primitive_attr_destroy", dnn.attr_destroy) &&
      named("dnnl_primitive_attr_set_scratchpad_mode", dnn.attr_set_scratchpad_mode) &&
      named("dnnl_convolution_forward_primitive_desc_create", dnn.forward_create) &&
      named("dnnl_convolution_backward_data_primitive_desc_create", dnn.backward_data_create) &&
      named("dnnl_convolution_backward_weights_primitive_desc_create", dnn.backward_weights_create) &&
      named("dnnl_reorder_primitive_desc_create", dnn.reorder_create) &&
      named("dnnl_primitive_desc_query", dnn.query) && named("dnnl_primitive_desc_query_md", dnn.query_desc) &&
      named("dnnl_primitive_desc_destroy", dnn.primitive_desc_destroy) &&
      named("dnnl_primitive_create", dnn.primitive_create) && named("dnnl_primitive_destroy", dnn.primitive_destroy) &&
      named("dnnl_primitive_execute", dnn.execute) && dnn.engine_create(&dnn.engine, dnnl_cpu, 0) == dnnl_success;
  return complete ? &dnn : nullptr;
}

const Functions* functions() {
  static const Functions* const loaded = load();
  return loaded;
}

// The library's objects, each with its owner. `dnn()` is only called where the library is there.
const Functions& dnn() { return *functions(); }

struct DescDeleter {
  void operator()(dnnl_memory_desc_t d) const { dnn().desc_destroy(d); }
};
using Desc = std::unique_ptr<dnnl_memory_desc, DescDeleter>;

struct AttrDeleter {
  void operator()(dnnl_primitive_attr_t a) const { dnn().attr_destroy(a); }
};
using Attr = std::unique_ptr<dnnl_primitive_attr, AttrDeleter>;

struct PrimitiveDeleter {
  void operator()(dnnl_primitive_t p) const { dnn().primitive_destroy(p); }
};
using Primitive = std::unique_ptr<dnnl_primitive, PrimitiveDeleter>;

struct PrimitiveDescDeleter {
  void operator()(dnnl_primitive_desc_t p) const { dnn().primitive_desc_destroy(p); }
};
using PrimitiveDesc = std::unique_ptr<dnnl_primitive_desc, PrimitiveDescDeleter>;

Desc strided_desc(int ndim, const dnnl_dim_t* sizes, const dnnl_dim_t* strides) {
  dnnl_memory_desc_t desc = nullptr;
  dnn().desc_create(&desc, ndim, sizes, dnnl_f32, strides);
  return Desc(desc);
}

Desc tagged_desc(int ndim, const dnnl_dim_t* sizes, dnnl_format_tag_t tag) {
  dnnl_memory_desc_t desc = nullptr;
  dnn().desc_create_with_tag(&desc, ndim, sizes, dnnl_f32, tag);
  return Desc(desc);
}

Desc copy_of(const_dnnl_memory_desc_t of) {
  dnnl_memory_desc_t desc = nullptr;
  dnn().desc_clone(&desc, of);
  return Desc(desc);
}

Desc row_major_desc(int ndim, const dnnl_dim_t* sizes) {
  dnnl_dims_t strides;
  dnnl_dim_t next = 1;
  for (int d = ndim; d-- > 0; next *= sizes[d]) strides[d] = next;
  return strided_desc(ndim, sizes, strides);
}

// ---- descriptions of the operands ---------------------------------------------------------------

enum class Kind : int64_t { forward, input_gradient, weight_gradient };

Desc images_desc(int spatial, int64_t images, int64_t channels, const int64_t* sizes, Order order) {
  dnnl_dims_t dims{images, channels}, strides;
  std::copy_n(sizes, spatial, dims + 2);
  if (order == Order::planar) return row_major_desc(spatial + 2, dims);
  if (order == Order::blocked) {
    static constexpr dnnl_format_tag_t tags[] = {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c};
    return tagged_desc(spatial + 2, dims, tags[spatial - 1]);
  }
  strides[1] = 1;
  dnnl_dim_t next = channels;
  for (int d = spatial + 1; d >= 2; next *= dims[d--]) strides[d] = next;
  strides[0] = next;
  return strided_desc(spatial + 2, dims, strides);
}

int weight_dims(const ConvolutionShape& s, dnnl_dims_t dims) {
  int ndim = 0;
  if (s.groups > 1) dims[ndim++] = s.groups;
  dims[ndim++] = s.out_channels / s.groups;
  dims[ndim++] = s.in_channels / s.groups;
  for (int d = 0; d < s.spatial; ++d) dims[ndim++] = s.kernel[d];
  return ndim;
}

// ---- a prepared convolution ---------------------------------------------------------------------

// One kind of tile of a convolution, ready to run on any memory and on several threads at once.
struct TileConvolution {
  Tile like;
  Desc x, y, bias;
  PrimitiveDesc desc;
  Primitive primitive;
  const_dnnl_memory_desc_t scratch = nullptr;  // owned by `desc`
  size_t scratch_bytes = 0;
};

// All tiles of a convolution, and how its weights are brought into the library's order.
struct Prepared {
  Kind kind;
  ConvolutionShape shape;
  bool with_bias;
  Order x_order = Order::channels_last, y_order = Order::channels_last;
  std::vector<Tile> tiles;
  std::vector<int> kind_of_tile;  // index into `convolutions`
  std::vector<TileConvolution> convolutions;
  Desc plain_weight, packed_weight;
  PrimitiveDesc reorder_desc;  // from plain to packed, or back for the weights' gradient
  Primitive reorder;
  size_t packed_bytes = 0;

  bool prepare();
  bool prepare_orders(Order x, Order y);
  bool prepare_tile(const Tile& tile, TileConvolution& made);
  bool prepare_reorder();

  Part x_part(const Tile& t) const {
    const int64_t row = shape.in_row();
    return {shape.in_channels, shape.in_volume(), t.image, t.images, t.in_first * row, t.in_count * row};
  }
  Part y_part(const Tile& t) const {
    const int64_t row = shape.out_row();
    return {shape.out_channels, shape.out_volume(), t.image, t.images, t.out_first * row, t.out_count * row};
  }
};

constexpr int64_t kFewChannels = 8;

bool is_reference(dnnl_primitive_desc_t desc) {
  const char* text = nullptr;
  return dnn().query(desc, dnnl_query_impl_info_str, 0, &text) != dnnl_success || std::strstr(text, "ref") != nullptr;
}

bool Prepared::prepare_tile(const Tile& tile, TileConvolution& made) {
  made.like = tile;
  dnnl_dims_t strides, dilations, before, after, in, out, weights;
  for (int d = 0; d < shape.spatial; ++d) {
    strides[d] = shape.stride[d];
    dilations[d] = shape.dilation[d] - 1;
    before[d] = d == 0 ? tile.pad_before : shape.padding[d];
    after[d] = d == 0 ? tile.pad_after : padding_after(shape, d);
    in[d] = d == 0 ? tile.in_count : shape.in[d];
    out[d] = d == 0 ? tile.out_count : shape.out[d];
  }
  made.x = images_desc(shape.spatial, tile.images, shape.in_channels, in, x_order);
  made.y = images_desc(shape.spatial, tile.images, shape.out_channels, out, y_order);
  if (with_bias) made.bias = row_major_desc(1, &shape.out_channels);
  const int ndim = weight_dims(shape, weights);
  const Desc chosen_weight =
      packed_weight ? copy_of(packed_weight.get()) : tagged_desc(ndim, weights, dnnl_format_tag_any);
  if (!made.x || !made.y || !chosen_weight || (with_bias && !made.bias)) return false;

  dnnl_primitive_attr_t attr_made = nullptr;
  if (dnn().attr_create(&attr_made) != dnnl_success) return false;
  const Attr attr(attr_made);
  if (dnn().attr_set_scratchpad_mode(attr.get(), dnnl_scratchpad_mode_user) != dnnl_success) return false;
  const dnnl_memory_desc_t x = made.x.get(), y = made.y.get(), w = chosen_weight.get(), b = made.bias.get();
  dnnl_primitive_desc_t desc = nullptr;
  if (dnn().forward_create(&desc, dnn().engine, dnnl_forward_training, dnnl_convolution_direct, x, w,
                           kind == Kind::forward ? b : nullptr, y, strides, dilations, before, after,
                           attr.get()) != dnnl_success) {
    return false;
  }
  made.desc.reset(desc);
  if (kind != Kind::forward) {
    const PrimitiveDesc hint = std::move(made.desc);
    const dnnl_status_t status =
        kind == Kind::input_gradient
            ? dnn().backward_data_create(&desc, dnn().engine, dnnl_convolution_direct, x, w, y, strides, dilations,
                                         before, after, hint.get(), attr.get())
            : dnn().backward_weights_create(&desc, dnn().engine, dnnl_convolution_direct, x, w, b, y, strides,
                                            dilations, before, after, hint.get(), attr.get());
    if (status != dnnl_success) return false;
    made.desc.reset(desc);
  }
  dnnl_primitive_t primitive = nullptr;
  if (is_reference(desc) || dnn().primitive_create(&primitive, desc) != dnnl_success) return false;
  made.primitive.reset(primitive);
  made.scratch = dnn().query_desc(desc, dnnl_query_scratchpad_md, 0);
  made.scratch_bytes = dnn().desc_size(made.scratch);
  if (!packed_weight) {
    const dnnl_query_t query = kind == Kind::weight_gradient ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    packed_weight = copy_of(dnn().query_desc(desc, query, 0));
  }
  return static_cast<bool>(packed_weight);
}

bool Prepared::prepare_reorder() {
  dnnl_dims_t weights;
  const int ndim = weight_dims(shape, weights);
  plain_weight = row_major_desc(ndim, weights);
  packed_bytes = dnn().desc_size(packed_weight.get());
  const bool back = kind == Kind::weight_gradient;
  dnnl_primitive_desc_t desc = nullptr;
  dnnl_primitive_t primitive = nullptr;
  const_dnnl_memory_desc_t from = plain_weight.get(), to = packed_weight.get();
  if (back) std::swap(from, to);
  if (dnn().reorder_create(&desc, from, dnn().engine, to, dnn().engine, nullptr) != dnnl_success) return false;
  reorder_desc.reset(desc);
  if (dnn().primitive_create(&primitive, desc) != dnnl_success) return false;
  reorder.reset(primitive);
  return true;
}

bool Prepared::prepare_orders(Order x, Order y) {
  x_order = x;
  y_order = y;
  kind_of_tile.clear();
  convolutions.clear();
  packed_weight.reset();
  for (const Tile& tile : tiles) {
    size_t k = 0;
    while (k < convolutions.size() && !convolutions[k].like.has_shape_of(tile)) ++k;
    if (k == convolutions.size() && !prepare_tile(tile, convolutions.emplace_back())) return false;
    kind_of_tile.push_back(static_cast<int>(k));
  }
  return prepare_reorder();
}

bool Prepared::prepare() {
  tiles = kind == Kind::forward          ? tiles_of_output(shape)
          : kind == Kind::input_gradient ? tiles_of_input(shape)
                                         : tiles_of_sum(shape);
  // With few input channels the library's best gradient of weights takes them planar.
  const bool few_channels = kind == Kind::weight_gradient && shape.groups == 1 && shape.in_channels <= 4 &&
                            shape.out_channels % kChannelBlock == 0;
  if (few_channels && prepare_orders(Order::planar, Order::blocked)) return true;
  return prepare_orders(Order::channels_last, Order::channels_last);
}

// ---- the latest ones are kept: preparing takes the library a millisecond ------------------------

struct Key {
  static constexpr size_t kWords = 6 + 6 * kMostSpatial;
  int64_t words[kWords] = {};

  Key(Kind kind, const ConvolutionShape& s, bool with_bias) {
    int64_t* at = words;
    for (int64_t word : {static_cast<int64_t>(kind), static_cast<int64_t>(with_bias), s.batch, s.groups, s.in_channels,
                         s.out_channels}) {
      *at++ = word;
    }
    for (const int64_t* sizes : {s.in, s.out, s.kernel, s.stride, s.padding, s.dilation}) {
      for (int d = 0; d < s.spatial; ++d) *at++ = sizes[d];
    }
  }
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (int64_t word : key.words) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

class PreparedConvolutions {
 public:
  // Null where the library cannot do it.
  std::shared_ptr<const Prepared> find_or_make(Kind kind, const ConvolutionShape& shape, bool with_bias) {
    const Key key(kind, shape, with_bias);
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = where_.find(key); found != where_.end()) {
        kept_.splice(kept_.begin(), kept_, found->second);
        return found->second->second;
      }
    }
    auto made = std::make_shared<Prepared>();
    made->kind = kind;
    made->shape = shape;
    made->with_bias = with_bias;
    {
      // What is prepared asks for the number of threads once and for all.
      const OneThread one_thread;
      if (!made->prepare()) made.reset();
    }
    const std::lock_guard lock(mutex_);
    if (where_.contains(key)) return made;  // another thread was faster
    kept_.emplace_front(key, made);
    where_[key] = kept_.begin();
    if (kept_.size() > kCapacity) {
      where_.erase(kept_.back().first);
      kept_.pop_back();
    }
    return made;
  }

 private:
  static constexpr size_t kCapacity = 256;
  using Kept = std::list<std::pair<Key, std::shared_ptr<const Prepared>>>;

  std::mutex mutex_;
  Kept kept_;  // the latest used first
  std::unordered_map<Key, Kept::iterator, KeyHash> where_;
};

std::shared_ptr<const Prepared> prepared(Kind kind, const ConvolutionShape& shape, bool with_bias) {
  // Never destroyed: at exit the library may be gone before it.
  static PreparedConvolutions* const all = new PreparedConvolutions;
  return functions() == nullptr ? nullptr : all->find_or_make(kind, shape, with_bias);
}

// ---- running ------------------------------------------------------------------------------------

// One thread's handle on the library: a stream, and the operands of one call after the other.
class Runner {
 public:
  Runner() { check(dnn().stream_create(&stream_, dnn().engine, dnnl_stream_default_flags)); }
  ~Runner() { dnn().stream_destroy(stream_); }
  Runner(const Runner&) = delete;

  struct Operand {
    int argument;
    const_dnnl_memory_desc_t desc;
    void* data;
  };

  void run(const Primitive& primitive, std::initializer_list<Operand> operands) {
    dnnl_exec_arg_t args[8];
    int count = 0;
    for (const Operand& o : operands) {
      if (o.desc == nullptr) continue;
      args[count].arg = o.argument;
      check(dnn().memory_create(&args[count++].memory, o.desc, dnn().engine, o.data));
    }
    const dnnl_status_t status = dnn().execute(primitive.get(), stream_, count, args);
    for (int i = 0; i < count; ++i) dnn().memory_destroy(args[i].memory);
    check(status);
  }

 private:
  // What was prepared runs; only memory for the library's small objects can be missing.
  static void check(dnnl_status_t status) {
    if (status != dnnl_success) throw std::bad_alloc();
  }

  OneThread one_thread_;
  dnnl_stream_t stream_ = nullptr;
};

struct ThreadScratch { Scratch x, y, weight, sums, library; };
thread_local ThreadScratch thread_scratch;

size_t float_bytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

// The images of a tile as the library reads them.
float* brought(const Images& images, const Part& part, Order order, Scratch& scratch) {
  if (float* const there = where_it_lies(images, part, order)) return there;
  float* const copy = reinterpret_cast<float*>(scratch.at_least(float_bytes(part.elements())));
  copy_part(images, part, order, copy);
  return copy;
}

// The images of a tile that the library is to write; finish() brings them to where they belong.
class Written {
 public:
  Written(const Images& images, const Part& part, Scratch& scratch)
      : images_(images),
        part_(part),
        in_place_(where_it_lies(images, part, Order::channels_last)),
        data_(in_place_ != nullptr ? in_place_
                                   : reinterpret_cast<float*>(scratch.at_least(float_bytes(part.elements())))) {}
  float* data() const { return data_; }
  void add(const float* per_channel) {
    const int64_t rows = part_.images * part_.count;
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = data_ + r * part_.channels;
      for (int64_t c = 0; c < part_.channels; ++c) row[c] += per_channel[c];
    }
  }
  void finish() const {
    if (in_place_ == nullptr) copy_part_back(data_, Order::channels_last, part_, images_);
  }

 private:
  const Images& images_;
  const Part& part_;
  float* in_place_;
  float* data_;
};

char* packed(const Prepared& all, const void* weight) {
  char* const memory = thread_scratch.weight.at_least(all.packed_bytes);
  Runner().run(all.reorder, {{DNNL_ARG_FROM, all.plain_weight.get(), const_cast<void*>(weight)},
                             {DNNL_ARG_TO, all.packed_weight.get(), memory}});
  return memory;
}

void* scratch_for(const TileConvolution& convolution) {
  return convolution.scratch_bytes == 0 ? nullptr : thread_scratch.library.at_least(convolution.scratch_bytes);
}

}  // namespace

bool onednn_convolve(const ConvolutionShape& shape, Images x, const void* weight, const void* bias, Images y) {
  const auto all = prepared(Kind::forward, shape, bias != nullptr);
  if (all == nullptr) return false;
  char* const packed_weight = packed(*all, weight);
  parallel(static_cast<int64_t>(all->tiles.size()), [&](int64_t index) {
    const Tile& tile = all->tiles[static_cast<size_t>(index)];
    const TileConvolution& convolution = all->convolutions[static_cast<size_t>(all->kind_of_tile[index])];
    const Part y_part = all->y_part(tile);
    float* const from = brought(x, all->x_part(tile), all->x_order, thread_scratch.x);
    const Written to(y, y_part, thread_scratch.y);
    Runner().run(convolution.primitive, {{DNNL_ARG_SRC, convolution.x.get(), from},
                                         {DNNL_ARG_WEIGHTS, all->packed_weight.get(), packed_weight},
                                         {DNNL_ARG_BIAS, convolution.bias.get(), const_cast<void*>(bias)},
                                         {DNNL_ARG_DST, convolution.y.get(), to.data()},
                                         {DNNL_ARG_SCRATCHPAD, convolution.scratch, scratch_for(convolution)}});
    to.finish();
  });
  return true;
}

bool onednn_convolve_input_gradient(const ConvolutionShape& shape, Images grad_y, const void* weight, const void* bias,
                                    Images grad_x) {
  // With so few channels the library's kernels do little with each vector.
  if (shape.groups == 1 && shape.in_channels <= kFewChannels) return false;
  const auto all = prepared(Kind::input_gradient, shape, false);
  if (all == nullptr) return false;
  char* const packed_weight = packed(*all, weight);
  parallel(static_cast<int64_t>(all->tiles.size()), [&](int64_t index) {
    const Tile& tile = all->tiles[static_cast<size_t>(index)];
    const TileConvolution& convolution = all->convolutions[static_cast<size_t>(all->kind_of_tile[index])];
    const Part x_part = all->x_part(tile);
    float* const from = brought(grad_y, all->y_part(tile), all->y_order, thread_scratch.y);
    Written to(grad_x, x_part, thread_scratch.x);
    Runner().run(convolution.primitive, {{DNNL_ARG_DIFF_DST, convolution.y.get(), from},
                                         {DNNL_ARG_WEIGHTS, all->packed_weight.get(), packed_weight},
                                         {DNNL_ARG_DIFF_SRC, convolution.x.get(), to.data()},
                                         {DNNL_ARG_SCRATCHPAD, convolution.scratch, scratch_for(convolution)}});
    if (bias != nullptr) to.add(static_cast<const float*>(bias));
    to.finish();
  });
  return true;
}

bool onednn_convolve_weight_gradient(const ConvolutionShape& shape, Images x, Images grad_y, void* grad_weight,
                                     void* grad_bias) {
  const auto all = prepared(Kind::weight_gradient, shape, grad_bias != nullptr);
  if (all == nullptr) return false;
  const int64_t tiles = static_cast<int64_t>(all->tiles.size()), parts = parts_of_sum(shape, tiles);
  const int64_t weights = static_cast<int64_t>(all->packed_bytes / sizeof(float));
  const int64_t biases = grad_bias != nullptr ? shape.out_channels : 0;
  const int64_t line = (weights + biases + 15) / 16 * 16;  // of one part: the weights, then the biases
  // What is large goes back to the system.
  constexpr size_t kMostKept = 4 << 20;
  const size_t bytes = float_bytes(line * parts);
  Scratch passing;
  float* const sums = reinterpret_cast<float*>((bytes <= kMostKept ? thread_scratch.sums : passing).at_least(bytes));
  parallel(parts, [&](int64_t part) {
    float* const sum = sums + part * line;
    float* const one_tile = reinterpret_cast<float*>(thread_scratch.weight.at_least(float_bytes(line)));
    Runner runner;
    const int64_t begin = part * tiles / parts, end = (part + 1) * tiles / parts;
    for (int64_t index = begin; index < end; ++index) {
      const Tile& tile = all->tiles[static_cast<size_t>(index)];
      const TileConvolution& convolution = all->convolutions[static_cast<size_t>(all->kind_of_tile[index])];
      float* const to = index == begin ? sum : one_tile;
      runner.run(
          convolution.primitive,
          {{DNNL_ARG_SRC, convolution.x.get(), brought(x, all->x_part(tile), all->x_order, thread_scratch.x)},
           {DNNL_ARG_DIFF_DST, convolution.y.get(), brought(grad_y, all->y_part(tile), all->y_order, thread_scratch.y)},
           {DNNL_ARG_DIFF_WEIGHTS, all->packed_weight.get(), to},
           {DNNL_ARG_DIFF_BIAS, convolution.bias.get(), to + weights},
           {DNNL_ARG_SCRATCHPAD, convolution.scratch, scratch_for(convolution)}});
      if (to == one_tile) add_lines(sum, one_tile, 0, weights + biases);
    }
  });
  add_parts(sums, line, parts);
  Runner().run(all->reorder,
               {{DNNL_ARG_FROM, all->packed_weight.get(), sums}, {DNNL_ARG_TO, all->plain_weight.get(), grad_weight}});
  if (biases > 0) std::memcpy(grad_bias, sums + weights, float_bytes(biases));
  return true;
}

}  // namespace weft::cpu

#else

namespace weft::cpu {

bool onednn_convolve(const ConvolutionShape&, Images, const void*, const void*, Images) { return false; }
bool onednn_convolve_input_gradient(const ConvolutionShape&, Images, const void*, const void*, Images) { return false; }
bool onednn_convolve_weight_gradient(const ConvolutionShape&, Images, Images, void*, void*) { return false; }

}  // namespace weft::cpu

#endif

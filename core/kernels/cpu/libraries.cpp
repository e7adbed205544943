#include "core/kernels/cpu/libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/math/types.h"

#ifdef WEFT_WITH_ONEDNN  // its headers are here
#include <oneapi/dnnl/dnnl.h>
#endif

namespace weft::cpu {

namespace {

// ---- loading ------------------------------------------------------------------------------------

// The folder lib/ beside the module that this code is part of.
std::string directory_of_module() {
  Dl_info module;
  if (dladdr(reinterpret_cast<void*>(&set_library_dir), &module) == 0 || module.dli_fname == nullptr) return {};
  const std::string file = module.dli_fname;
  const size_t slash = file.rfind('/');
  return slash == std::string::npos ? "lib" : file.substr(0, slash) + "/lib";
}

std::string& library_dir() {
  static std::string directory = directory_of_module();
  return directory;
}

void* open_in(const std::string& directory, const char* file) {
  if (directory.empty()) return nullptr;
  const std::string path = directory + "/" + file;
  if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  // What it depends on may lie beside it and be unknown to the system: then it is found once
  // loaded.
  if (dlopen((directory + "/libgomp.so.1").c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return nullptr;
  return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void* open_library(const char* file) {
  if (void* handle = open_in(library_dir(), file)) return handle;
  const char* const path = std::getenv("WEFT_LIBRARY_PATH");
  if (path == nullptr) return nullptr;
  const std::string directories = path;
  for (size_t begin = 0; begin <= directories.size();) {
    const size_t end = std::min(directories.find(':', begin), directories.size());
    if (void* handle = open_in(directories.substr(begin, end - begin), file)) return handle;
    begin = end + 1;
  }
  return nullptr;
}

template <class Function> bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

// ---- OpenBLAS -----------------------------------------------------------------------------------

enum CblasOrder { kRowMajor = 101 };
enum CblasTranspose { kNoTranspose = 111, kTranspose = 112 };

template <class Scalar>
using CblasGemm = void (*)(CblasOrder, CblasTranspose, CblasTranspose, int m, int n, int k, Scalar alpha, const void* a,
                           int lda, const void* b, int ldb, Scalar beta, void* c, int ldc);

struct OpenBlas {
  void* handle;
  CblasGemm<double> dgemm;
  CblasGemm<const void*> cgemm, zgemm;
  bool uses_avx512;
};

const OpenBlas* load_openblas() {
  static OpenBlas loaded{};
  loaded.handle = open_library("libscipy_openblas.so");
  if (loaded.handle == nullptr) return nullptr;
  void (*set_threads)(int);
  const bool complete = find(loaded.handle, "scipy_openblas_set_num_threads", set_threads) &&
                        find(loaded.handle, "scipy_cblas_dgemm", loaded.dgemm) &&
                        find(loaded.handle, "scipy_cblas_cgemm", loaded.cgemm) &&
                        find(loaded.handle, "scipy_cblas_zgemm", loaded.zgemm);
  const char* (*core_name)();
  if (!complete || !find(loaded.handle, "scipy_openblas_get_corename", core_name)) return nullptr;
  set_threads(1);
  const std::string core = core_name();
  loaded.uses_avx512 = core == "SkylakeX" || core == "Cooperlake" || core == "SapphireRapids";
  return &loaded;
}

const OpenBlas* openblas() {
  static const OpenBlas* const library = load_openblas();
  return library;
}

// ---- oneDNN -------------------------------------------------------------------------------------

#ifdef WEFT_WITH_ONEDNN

struct OneDnn {
  void* handle;
  int (*omp_get_max_threads)();
  void (*omp_set_num_threads)(int);
  decltype(&dnnl_sgemm) sgemm;
  decltype(&dnnl_engine_create) engine_create;
  decltype(&dnnl_stream_create) stream_create;
  decltype(&dnnl_stream_destroy) stream_destroy;
  decltype(&dnnl_memory_desc_create_with_strides) desc_create;
  decltype(&dnnl_memory_desc_destroy) desc_destroy;
  decltype(&dnnl_memory_desc_get_size) desc_size;
  decltype(&dnnl_memory_create) memory_create;
  decltype(&dnnl_memory_destroy) memory_destroy;
  decltype(&dnnl_primitive_attr_create) attr_create;
  decltype(&dnnl_primitive_attr_destroy) attr_destroy;
  decltype(&dnnl_primitive_attr_set_scratchpad_mode) attr_set_scratchpad_mode;
  decltype(&dnnl_post_ops_create) post_ops_create;
  decltype(&dnnl_post_ops_destroy) post_ops_destroy;
  decltype(&dnnl_post_ops_append_sum) post_ops_append_sum;
  decltype(&dnnl_primitive_attr_set_post_ops) attr_set_post_ops;
  decltype(&dnnl_matmul_primitive_desc_create) matmul_create;
  decltype(&dnnl_primitive_desc_query_md) query_desc;
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy;
  decltype(&dnnl_primitive_create) primitive_create;
  decltype(&dnnl_primitive_destroy) primitive_destroy;
  decltype(&dnnl_primitive_execute) execute;
  dnnl_engine_t engine;
};

const OneDnn* load_onednn() {
  static OneDnn dnn{};
  dnn.handle = open_library("libdnnl.so.3");
  if (dnn.handle == nullptr) return nullptr;
  const auto named = [](const char* name, auto& function) { return find(dnn.handle, name, function); };
  const bool complete =
      named("omp_get_max_threads", dnn.omp_get_max_threads) && named("omp_set_num_threads", dnn.omp_set_num_threads) &&
      named("dnnl_sgemm", dnn.sgemm) && named("dnnl_engine_create", dnn.engine_create) &&
      named("dnnl_stream_create", dnn.stream_create) && named("dnnl_stream_destroy", dnn.stream_destroy) &&
      named("dnnl_memory_desc_create_with_strides", dnn.desc_create) &&
      named("dnnl_memory_desc_destroy", dnn.desc_destroy) && named("dnnl_memory_desc_get_size", dnn.desc_size) &&
      named("dnnl_memory_create", dnn.memory_create) && named("dnnl_memory_destroy", dnn.memory_destroy) &&
      named("dnnl_primitive_attr_create", dnn.attr_create) && named("dnnl_primitive_attr_destroy", dnn.attr_destroy) &&
      named("dnnl_primitive_attr_set_scratchpad_mode", dnn.attr_set_scratchpad_mode) &&
      named("dnnl_post_ops_create", dnn.post_ops_create) && named("dnnl_post_ops_destroy", dnn.post_ops_destroy) &&
      named("dnnl_post_ops_append_sum", dnn.post_ops_append_sum) &&
      named("dnnl_primitive_attr_set_post_ops", dnn.attr_set_post_ops) &&
      named("dnnl_matmul_primitive_desc_create", dnn.matmul_create) &&
      named("dnnl_primitive_desc_query_md", dnn.query_desc) &&
      named("dnnl_primitive_desc_destroy", dnn.primitive_desc_destroy) &&
      named("dnnl_primitive_create", dnn.primitive_create) && named("dnnl_primitive_destroy", dnn.primitive_destroy) &&
      named("dnnl_primitive_execute", dnn.execute) && dnn.engine_create(&dnn.engine, dnnl_cpu, 0) == dnnl_success;
  return complete ? &dnn : nullptr;
}

const OneDnn* onednn() {
  static const OneDnn* const library = load_onednn();
  return library;
}

// A product of fixed sizes and strides, ready to run on any memory and on several threads at once.
class PreparedProduct {
 public:
  using Sizes = Product;  // its pointers are not looked at

  static std::shared_ptr<PreparedProduct> make(const OneDnn& dnn, const Sizes& sizes) {
    auto made = std::shared_ptr<PreparedProduct>(new PreparedProduct(dnn));
    return made->prepare(sizes) ? made : nullptr;
  }

  ~PreparedProduct() {
    if (primitive_ != nullptr) dnn_.primitive_destroy(primitive_);
    if (primitive_desc_ != nullptr) dnn_.primitive_desc_destroy(primitive_desc_);
    for (dnnl_memory_desc_t desc : {a_, b_, c_}) {
      if (desc != nullptr) dnn_.desc_destroy(desc);
    }
  }

  bool run(const Product& product, void* (*scratch)(size_t)) const {
    const OneThread one_thread;
    void* const scratch_memory = scratch_bytes_ == 0 ? nullptr : scratch(scratch_bytes_);
    dnnl_stream_t stream = nullptr;
    dnnl_exec_arg_t args[4] = {
        {DNNL_ARG_SRC, nullptr}, {DNNL_ARG_WEIGHTS, nullptr}, {DNNL_ARG_DST, nullptr}, {DNNL_ARG_SCRATCHPAD, nullptr}};
    const bool ran = wrap(args[0], a_, const_cast<void*>(product.a.data)) &&
                     wrap(args[1], b_, const_cast<void*>(product.b.data)) && wrap(args[2], c_, product.c) &&
                     wrap(args[3], scratch_, scratch_memory) &&
                     dnn_.stream_create(&stream, dnn_.engine, dnnl_stream_default_flags) == dnnl_success &&
                     dnn_.execute(primitive_, stream, 4, args) == dnnl_success;
    if (stream != nullptr) dnn_.stream_destroy(stream);
    for (const dnnl_exec_arg_t& arg : args) {
      if (arg.memory != nullptr) dnn_.memory_destroy(arg.memory);
    }
    return ran;
  }

 private:
  explicit PreparedProduct(const OneDnn& dnn) : dnn_(dnn) {}

  bool wrap(dnnl_exec_arg_t& arg, const_dnnl_memory_desc_t desc, void* data) const {
    return dnn_.memory_create(&arg.memory, desc, dnn_.engine, data) == dnnl_success;
  }

  bool describe(dnnl_memory_desc_t& desc, dnnl_data_type_t type, int64_t rows, int64_t columns, int64_t row_stride,
                int64_t column_stride) const {
    const dnnl_dims_t sizes = {rows, columns};
    const dnnl_dims_t strides = {row_stride, column_stride};
    return dnn_.desc_create(&desc, 2, sizes, type, strides) == dnnl_success;
  }

  bool prepare(const Sizes& x) {
    const OneThread one_thread;  // the number of threads is asked for here, once and for all
    dnnl_primitive_attr_t attr = nullptr;
    dnnl_post_ops_t post_ops = nullptr;
    const bool ready =
        describe(a_, dnnl_bf16, x.m, x.k, x.a.row_stride, x.a.col_stride) &&
        describe(b_, dnnl_bf16, x.k, x.n, x.b.row_stride, x.b.col_stride) &&
        describe(c_, dnnl_f32, x.m, x.n, x.c_row_stride, 1) && dnn_.attr_create(&attr) == dnnl_success &&
        dnn_.attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success &&
        dnn_.post_ops_create(&post_ops) == dnnl_success &&
        (!x.accumulate || dnn_.post_ops_append_sum(post_ops, 1.0f, 0, dnnl_data_type_undef) == dnnl_success) &&
        dnn_.attr_set_post_ops(attr, post_ops) == dnnl_success &&
        dnn_.matmul_create(&primitive_desc_, dnn_.engine, a_, b_, nullptr, c_, attr) == dnnl_success &&
        dnn_.primitive_create(&primitive_, primitive_desc_) == dnnl_success;
    if (attr != nullptr) dnn_.attr_destroy(attr);
    if (post_ops != nullptr) dnn_.post_ops_destroy(post_ops);
    if (!ready) return false;
    scratch_ = dnn_.query_desc(primitive_desc_, dnnl_query_scratchpad_md, 0);
    scratch_bytes_ = dnn_.desc_size(scratch_);
    return true;
  }

  const OneDnn& dnn_;
  dnnl_memory_desc_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  dnnl_primitive_desc_t primitive_desc_ = nullptr;
  const_dnnl_memory_desc_t scratch_ = nullptr;  // owned by primitive_desc_
  dnnl_primitive_t primitive_ = nullptr;
  size_t scratch_bytes_ = 0;
};

// Preparing a product takes the library 0.3 ms, so the latest kCapacity are kept.
class PreparedProducts {
 public:
  std::shared_ptr<PreparedProduct> find_or_make(const OneDnn& dnn, const Product& x) {
    const Key key{
        {x.m, x.n, x.k, x.a.row_stride, x.a.col_stride, x.b.row_stride, x.b.col_stride, x.c_row_stride, x.accumulate}};
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = where_.find(key); found != where_.end()) {
        kept_.splice(kept_.begin(), kept_, found->second);
        return found->second->second;
      }
    }
    const std::shared_ptr<PreparedProduct> made = PreparedProduct::make(dnn, x);
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
  static constexpr size_t kCapacity = 512;
  struct Key {
    int64_t words[9];
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t hash = 0;
      for (int64_t word : key.words) {
        hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
      }
      return hash;
    }
  };
  using Kept = std::list<std::pair<Key, std::shared_ptr<PreparedProduct>>>;

  std::mutex mutex_;
  Kept kept_;  // the latest used first
  std::unordered_map<Key, Kept::iterator, Hash> where_;
};

PreparedProducts& prepared_products() {
  // Never destroyed: at exit the library may be gone before it.
  static PreparedProducts* const products = new PreparedProducts;
  return *products;
}

#endif  // WEFT_WITH_ONEDNN

// How a library is told of an operand: as it lies, or transposed, with the distance of its lines.
struct Operand {
  bool transposed;
  int64_t line_stride;

  MatrixView view(const void* data) const {
    return transposed ? MatrixView{data, 1, line_stride} : MatrixView{data, line_stride, 1};
  }
};

// False where no stride is 1, or where lines overlap or repeat, which libraries reject. The strides
// of dimensions of size 1 mean nothing and are made up.
bool describe_operand(const MatrixView& view, int64_t rows, int64_t columns, Operand& operand) {
  if (view.col_stride == 1 || columns == 1) {
    operand = {false, rows == 1 ? columns : view.row_stride};
    if (operand.line_stride >= columns) return true;
  }
  if (view.row_stride == 1 || rows == 1) {
    operand = {true, columns == 1 ? rows : view.col_stride};
    if (operand.line_stride >= rows) return true;
  }
  return false;
}

}  // namespace

void set_library_dir(const char* directory) { library_dir() = directory; }

void* library_symbol(Library library, const char* name) {
  if (library == Library::openblas) {
    if (openblas() == nullptr) return nullptr;
    return dlsym(openblas()->handle, (std::string("scipy_") + name).c_str());
  }
#ifdef WEFT_WITH_ONEDNN
  if (onednn() != nullptr) return dlsym(onednn()->handle, name);
#endif
  return nullptr;
}

bool library_available(const char* which) {
#ifdef WEFT_WITH_ONEDNN
  if (std::strcmp(which, "onednn") == 0) return onednn() != nullptr;
#endif
  if (std::strcmp(which, "openblas") == 0) return openblas() != nullptr;
  return false;
}

#ifdef WEFT_WITH_ONEDNN

OneThread::OneThread() : before_(1) {
  if (const OneDnn* dnn = onednn()) {
    before_ = dnn->omp_get_max_threads();
    if (before_ != 1) dnn->omp_set_num_threads(1);
  }
}

OneThread::~OneThread() {
  if (before_ != 1) onednn()->omp_set_num_threads(before_);
}

bool onednn_product_f32(const Product& x) {
  const OneDnn* const dnn = onednn();
  Operand a, b;
  if (dnn == nullptr || !describe_operand(x.a, x.m, x.k, a) || !describe_operand(x.b, x.k, x.n, b)) { return false; }
  const OneThread one_thread;
  return dnn->sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', x.m, x.n, x.k, 1.0f,
                    static_cast<const float*>(x.a.data), a.line_stride, static_cast<const float*>(x.b.data),
                    b.line_stride, x.accumulate ? 1.0f : 0.0f, static_cast<float*>(x.c),
                    x.c_row_stride) == dnnl_success;
}

bool onednn_multiplies_bf16() {
#if defined(__x86_64__)
  static const bool multiplies = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl");
  return multiplies && onednn() != nullptr;
#else
  return false;
#endif
}

bool onednn_product_bf16(const Product& x, void* (*scratch)(size_t bytes)) {
  Operand a, b;
  if (!onednn_multiplies_bf16() || !describe_operand(x.a, x.m, x.k, a) || !describe_operand(x.b, x.k, x.n, b)) {
    return false;
  }
  // Lines with gaps between them would end in the library's reference code, a hundred times slower.
  if (a.line_stride != (a.transposed ? x.m : x.k) || b.line_stride != (b.transposed ? x.k : x.n)) { return false; }
  Product sizes = x;
  sizes.a = a.view(x.a.data);
  sizes.b = b.view(x.b.data);
  const auto prepared = prepared_products().find_or_make(*onednn(), sizes);
  return prepared != nullptr && prepared->run(x, scratch);
}

#else

OneThread::OneThread() : before_(1) {}
OneThread::~OneThread() = default;
bool onednn_product_f32(const Product&) { return false; }
bool onednn_multiplies_bf16() { return false; }
bool onednn_product_bf16(const Product&, void* (*)(size_t)) { return false; }

#endif

bool openblas_is_widest() { return openblas() != nullptr && (openblas()->uses_avx512 || chosen_isa() != Isa::avx512); }

bool openblas_product(DType dtype, const Product& x) {
  const OpenBlas* const blas = openblas();
  Operand a, b;
  if (blas == nullptr || !describe_operand(x.a, x.m, x.k, a) || !describe_operand(x.b, x.k, x.n, b)) { return false; }
  for (int64_t number : {x.m, x.n, x.k, a.line_stride, b.line_stride, x.c_row_stride}) {
    if (number > INT_MAX) return false;
  }
  const auto call = [&](auto gemm, auto alpha, auto beta) {
    gemm(kRowMajor, a.transposed ? kTranspose : kNoTranspose, b.transposed ? kTranspose : kNoTranspose,
         static_cast<int>(x.m), static_cast<int>(x.n), static_cast<int>(x.k), alpha, x.a.data,
         static_cast<int>(a.line_stride), x.b.data, static_cast<int>(b.line_stride), beta, x.c,
         static_cast<int>(x.c_row_stride));
    return true;
  };
  static constexpr Complex64 c_numbers[2] = {{0, 0}, {1, 0}};
  static constexpr Complex128 z_numbers[2] = {{0, 0}, {1, 0}};
  using Pointer = const void*;
  switch (dtype) {
    case DType::Float64: return call(blas->dgemm, 1.0, x.accumulate ? 1.0 : 0.0);
    case DType::Complex64: return call(blas->cgemm, Pointer(&c_numbers[1]), Pointer(&c_numbers[x.accumulate]));
    case DType::Complex128: return call(blas->zgemm, Pointer(&z_numbers[1]), Pointer(&z_numbers[x.accumulate]));
    default: return false;
  }
}

}  // namespace weft::cpu

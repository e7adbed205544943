#include "core/kernels/cpu/reduce.h"

#include "core/kernels/cpu/reduce_plan.h"
#include "core/math/reduction.h"

namespace weft::cpu {

namespace {

// ---- from accumulators to results ---------------------------------------------------------------

enum class Ending { Plain, Mean, Root, Spread, SpreadRoot };

template <Ending ending, class T> T end_of(T x, const Finish& finish) {
  if constexpr (ending == Ending::Mean) return x / static_cast<T>(finish.n);
  if constexpr (ending == Ending::Root) return math::sqrt(x);
  if constexpr (ending == Ending::Spread) return x / static_cast<T>(finish.divisor);
  if constexpr (ending == Ending::SpreadRoot) { return math::sqrt(x / static_cast<T>(finish.divisor)); }
  return x;
}
template <Ending ending> Complex64 end_of(Complex64 x, const Finish& finish) {
  return {end_of<ending>(x.re, finish), end_of<ending>(x.im, finish)};
}
template <Ending ending> Complex128 end_of(Complex128 x, const Finish& finish) {
  return {end_of<ending>(x.re, finish), end_of<ending>(x.im, finish)};
}

template <Ending ending, class A, class Out>
void finish_values(const Finish& finish, const void* accumulators, int64_t count, void* out, int64_t stride, int64_t*) {
  const A* from = static_cast<const A*>(accumulators);
  Out* to = static_cast<Out*>(out);
  for (int64_t i = 0; i < count; ++i) { to[i * stride] = math::cast<Out>(end_of<ending>(from[i], finish)); }
}

void finish_any(const Finish&, const void* counts, int64_t count, void* out, int64_t stride, int64_t*) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<bool*>(out)[i * stride] = static_cast<const int64_t*>(counts)[i] != 0;
  }
}

void finish_all(const Finish& finish, const void* counts, int64_t count, void* out, int64_t stride, int64_t*) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<bool*>(out)[i * stride] = static_cast<const int64_t*>(counts)[i] == finish.n;
  }
}

void finish_index(const Finish&, const void* found, int64_t count, void* out, int64_t stride, int64_t*) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<int64_t*>(out)[i * stride] = static_cast<const Found*>(found)[i].index;
  }
}

template <class A, class Out>
void finish_found(const Finish&, const void* accumulators, int64_t count, void* out, int64_t stride, int64_t* index) {
  const Found* found = static_cast<const Found*>(accumulators);
  for (int64_t i = 0; i < count; ++i) {
    A value;
    __builtin_memcpy(&value, found[i].value, sizeof value);
    static_cast<Out*>(out)[i * stride] = math::cast<Out>(value);
    index[i * stride] = found[i].index;
  }
}

// Loops by [compute type of the accumulators][type of the results].
struct FinishLoops {
  Finish::Loop loops[kComputes][kDTypes] = {};

  Finish::Loop operator()(Compute kept_in, DType out) const {
    return loops[static_cast<int>(kept_in)][static_cast<int>(out)];
  }
};

template <Ending ending, int t = 0> constexpr void set_loops(FinishLoops& table) {
  using Out = typename TypeOf<static_cast<DType>(t)>::type;
  auto at = [&](Compute c) -> Finish::Loop& { return table.loops[static_cast<int>(c)][t]; };
  at(Compute::Float32) = finish_values<ending, float, Out>;
  at(Compute::Float64) = finish_values<ending, double, Out>;
  at(Compute::Complex64) = finish_values<ending, Complex64, Out>;
  at(Compute::Complex128) = finish_values<ending, Complex128, Out>;
  if constexpr (ending == Ending::Plain) {
    at(Compute::Int32) = finish_values<ending, int, Out>;
    at(Compute::Int64) = finish_values<ending, Int64, Out>;
  }
  if constexpr (t + 1 < kDTypes) set_loops<ending, t + 1>(table);
}
template <Ending ending> constexpr FinishLoops make_loops() {
  FinishLoops table;
  set_loops<ending>(table);
  return table;
}
template <Ending ending> constexpr FinishLoops finish_to = make_loops<ending>();

template <int t = 0> constexpr void set_found_loops(FinishLoops& table) {
  using Out = typename TypeOf<static_cast<DType>(t)>::type;
  auto at = [&](Compute c) -> Finish::Loop& { return table.loops[static_cast<int>(c)][t]; };
  at(Compute::Float32) = finish_found<float, Out>;
  at(Compute::Float64) = finish_found<double, Out>;
  at(Compute::Int32) = finish_found<int, Out>;
  at(Compute::Int64) = finish_found<Int64, Out>;
  if constexpr (t + 1 < kDTypes) set_found_loops<t + 1>(table);
}
constexpr FinishLoops make_found_loops() {
  FinishLoops table;
  set_found_loops(table);
  return table;
}
constexpr FinishLoops finish_found_to = make_found_loops();

// ---- which loops answer which question ----------------------------------------------------------

// The type in which sums and products of `in`, to be stored as `out`, are computed.
Compute compute_of_sum(DType in, DType out, bool product) {
  const DType wider = in > out ? in : out;
  if (is_complex(wider)) {
    const bool wide = wider == DType::Complex128 || in == DType::Float64;
    return wide ? Compute::Complex128 : Compute::Complex64;
  }
  if (is_floating(wider)) return compute_of(wider);
  // Chunks of products and of 32 bit integers need 64 bits.
  return product || in >= DType::Int32 ? Compute::Int64 : Compute::Int32;
}

struct Question {
  TreeOp op;
  Compute compute;
  Finish::Loop finish;
  bool counts = false;
};

Question question(Reduction kind, DType in, DType out) {
  auto sums = [&](TreeOp op, bool product = false) -> Question {
    const Compute compute = compute_of_sum(in, out, product);
    const Compute kept_in = compute == Compute::Int32 ? Compute::Int64 : compute;
    return {op, compute, finish_to<Ending::Plain>(kept_in, out)};
  };
  const Compute own = compute_of(in);
  auto counts = [](Finish::Loop finish) -> Question { return {TreeOp::Sum, Compute::Int32, finish, true}; };
  switch (kind) {
    case Reduction::Sum: return sums(TreeOp::Sum);
    case Reduction::Prod: return sums(TreeOp::Prod, true);
    case Reduction::NanSum: return sums(TreeOp::NanSum);
    case Reduction::SumOfSquares: return sums(TreeOp::SumOfSquares);
    case Reduction::SumOfAbs: return sums(TreeOp::SumOfAbs);
    case Reduction::Mean: {
      const Compute compute = compute_of_sum(in, out, false);
      return {TreeOp::Sum, compute, finish_to<Ending::Mean>(compute, out)};
    }
    case Reduction::EuclideanNorm: {
      const Compute compute = compute_of_sum(in, out, false);
      return {TreeOp::SumOfSquares, compute, finish_to<Ending::Root>(compute, out)};
    }
    case Reduction::Amax: return {TreeOp::Max, own, finish_to<Ending::Plain>(own, out)};
    case Reduction::Amin: return {TreeOp::Min, own, finish_to<Ending::Plain>(own, out)};
    case Reduction::Any: return counts(finish_any);
    case Reduction::All: return counts(finish_all);
    case Reduction::CountNonzero: return counts(finish_to<Ending::Plain>(Compute::Int64, out));
    case Reduction::ArgMax: return {TreeOp::ArgMax, own, finish_index};
    case Reduction::ArgMin: return {TreeOp::ArgMin, own, finish_index};
    case Reduction::MaxWithIndex: return {TreeOp::ArgMax, own, finish_found_to(own, out)};
    case Reduction::MinWithIndex: return {TreeOp::ArgMin, own, finish_found_to(own, out)};
  }
  __builtin_unreachable();
}

const TreeKernel& kernel_of(TreeOp op, Compute compute) {
  return reduce_table().kernels[static_cast<int>(op)][static_cast<int>(compute)];
}

void fill_input(ReducePlan& plan, DType in, Compute compute, const Strided& outer, int reduced_ndim,
                const int64_t* reduced_sizes, const int64_t* reduced_strides) {
  plan.convert = convert_table().loads(in, compute);
  plan.in_size = item_size(in);
  plan.compute_size = size_of(compute);
  plan.needs_convert = !is_stored_as(in, compute);
  plan.data = outer.data;
  coalesce(outer.ndim, outer.sizes, outer.strides, plan.kept);
  coalesce(reduced_ndim, reduced_sizes, reduced_strides, plan.reduced);
}

int64_t product(int ndim, const int64_t* sizes) {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= sizes[d];
  return n;
}

bool is_contiguous(int ndim, const int64_t* sizes, const int64_t* strides, int64_t item) {
  for (int d = ndim - 1; d >= 0; --d) {
    if (strides[d] != item && sizes[d] != 1) return false;
    item *= sizes[d];
  }
  return true;
}

}  // namespace

void reduce(Reduction kind, DType in, DType out, void* out_data, Strided outer, int reduced_ndim,
            const int64_t* reduced_sizes, const int64_t* reduced_strides, int64_t* out_index) {
  const Question asked = question(kind, in, out);
  const TreeKernel& kernel = kernel_of(asked.op, asked.compute);
  const int64_t n = product(reduced_ndim, reduced_sizes);
  const Finish finish{asked.finish, item_size(out), n, 0};
  const bool converts = asked.counts || !is_stored_as(in, asked.compute);
  // A few short sequences that can be read in place: all that small tensors need.
  constexpr int64_t kFew = 64;
  const int64_t rows = outer.ndim == 0 ? 1 : outer.sizes[0];
  if (outer.ndim <= 1 && rows <= kFew && rows * n <= 4 * reduction::kChunk && n <= reduction::kChunk && !converts &&
      is_contiguous(reduced_ndim, reduced_sizes, reduced_strides, item_size(in))) {
    alignas(16) char accumulators[kFew * kMaxComputeSize];
    kernel.rows(outer.data, outer.ndim == 0 ? 0 : outer.strides[0], rows, n, nullptr, 0, 0, accumulators);
    return finish.loop(finish, accumulators, rows, out_data, 1, out_index);
  }
  ReducePlan plan;
  plan.kernel = &kernel;
  plan.around = nullptr;
  plan.finish = finish;
  plan.out = out_data;
  plan.mean_out = nullptr;
  plan.out_index = out_index;
  fill_input(plan, in, asked.compute, outer, reduced_ndim, reduced_sizes, reduced_strides);
  if (asked.counts) {
    plan.convert = convert_table().nonzero[static_cast<int>(in)];
    plan.needs_convert = true;
  }
  run(plan);
}

void moments(DType in, DType out, void* mean, void* spread, Spread kind, double correction, Strided outer,
             int reduced_ndim, const int64_t* reduced_sizes, const int64_t* reduced_strides) {
  const int64_t n = product(reduced_ndim, reduced_sizes);
  const Compute compute = compute_of_sum(in, out, false);
  const double left = static_cast<double>(n) - correction;
  const auto spread_to = kind == Spread::SumOfSquares ? finish_to<Ending::Plain>
                         : kind == Spread::Variance   ? finish_to<Ending::Spread>
                                                      : finish_to<Ending::SpreadRoot>;
  ReducePlan plan;
  plan.kernel = &kernel_of(TreeOp::Sum, compute);
  plan.around = &kernel_of(TreeOp::SumOfSquaresAround, compute);
  plan.finish = {spread_to(compute, out), item_size(out), n, left > 0 ? left : 0};
  plan.finish_mean = {finish_to<Ending::Plain>(compute, out), item_size(out), n, 0};
  plan.out = spread;
  plan.mean_out = mean;
  plan.out_index = nullptr;
  fill_input(plan, in, compute, outer, reduced_ndim, reduced_sizes, reduced_strides);
  run(plan);
}

}  // namespace weft::cpu

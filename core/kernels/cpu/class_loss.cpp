#include "core/kernels/cpu/class_loss.h"

#include <cstring>
#include <type_traits>

#include "core/kernels/cpu/lines.h"
#include "core/math/types.h"

namespace weft::cpu {

namespace {

template <class Visit> TargetStatus with_float_type(DType type, Visit visit) {
  switch (type) {
    case DType::Float16: return visit(Half{});
    case DType::BFloat16: return visit(BFloat16{});
    case DType::Float64: return visit(double{});
    default: return visit(float{});
  }
}

template <class T> using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// body(place, where its classes begin, its class) for every place that is not ignored.
template <class Body>
TargetStatus for_each_place(const Lines<1>& lines, const int64_t* target, int64_t ignored, Body body) {
  for (int64_t i = 0; i < lines.count; ++i) {
    const int64_t t = target[i];
    if (t == ignored) continue;
    if (t < 0 || t >= lines.length) return {false, t};
    body(i, lines.ndim <= 1 ? lines.data[0] + i * lines.neighbour_stride(0) : lines.line(0, i), t);
  }
  return {};
}

}  // namespace

TargetStatus class_losses(DType type, Strided x, int dim, const int64_t* target, const void* weight, int64_t ignored,
                          void* losses, void* weights) {
  const Lines<1> lines({&x}, dim);
  return with_float_type(type, [&](auto element) {
    using T = decltype(element);
    using W = Wide<T>;
    W* loss = static_cast<W*>(losses);
    W* used = static_cast<W*>(weights);
    std::memset(loss, 0, sizeof(W) * static_cast<size_t>(lines.count));
    std::memset(used, 0, sizeof(W) * static_cast<size_t>(lines.count));
    return for_each_place(lines, target, ignored, [&](int64_t i, const char* classes, int64_t t) {
      used[i] = weight ? math::cast<W>(static_cast<const T*>(weight)[t]) : W(1);
      loss[i] = -used[i] * math::cast<W>(*reinterpret_cast<const T*>(classes + t * lines.step[0]));
    });
  });
}

TargetStatus class_losses_backward(DType type, Strided grad_x, int dim, const int64_t* target, const void* weight,
                                   int64_t ignored, const void* grad, int64_t grad_step, double divisor) {
  const Lines<1> lines({&grad_x}, dim);
  return with_float_type(type, [&](auto element) {
    using T = decltype(element);
    using W = Wide<T>;
    std::memset(grad_x.data, 0, sizeof(T) * static_cast<size_t>(lines.count * lines.length));
    const T* g = static_cast<const T*>(grad);
    return for_each_place(lines, target, ignored, [&](int64_t i, char* classes, int64_t t) {
      const W used = weight ? math::cast<W>(static_cast<const T*>(weight)[t]) : W(1);
      const W share = -used * math::cast<W>(g[i * grad_step]) / static_cast<W>(divisor);
      *reinterpret_cast<T*>(classes + t * lines.step[0]) = math::cast<T>(share);
    });
  });
}

}  // namespace weft::cpu

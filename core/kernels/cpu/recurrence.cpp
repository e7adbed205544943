#include "core/kernels/cpu/recurrence.h"

#include <algorithm>

#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceElements = 32768;

enum : int { kX, kA, kY };

template <class T> void run(const Lines<3>& lines) {
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / lines.length);
  parallel((lines.count + per_piece - 1) / per_piece, [&](int64_t piece) {
    const int64_t end = std::min(lines.count, (piece + 1) * per_piece);
    for (int64_t line = piece * per_piece; line < end; ++line) {
      const char *x = lines.line(kX, line), *a = lines.line(kA, line);
      char* y = lines.line(kY, line);
      T before = *reinterpret_cast<const T*>(x);
      *reinterpret_cast<T*>(y) = before;
      for (int64_t i = 1; i < lines.length; ++i) {
        x += lines.step[kX], a += lines.step[kA], y += lines.step[kY];
        before = *reinterpret_cast<const T*>(x) + *reinterpret_cast<const T*>(a) * before;
        *reinterpret_cast<T*>(y) = before;
      }
    }
  });
}

}  // namespace

void linear_recurrence(DType type, Strided x, Strided a, Strided y, int dim) {
  const Lines<3> lines({&x, &a, &y}, dim);
  if (lines.count == 0 || lines.length == 0) return;
  if (type == DType::Float64) run<double>(lines);
  else run<float>(lines);
}

}  // namespace weft::cpu

#include "core/kernels/cpu/svd.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "core/kernels/cpu/isa/svd_table.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int kMostSweeps = 60;            // ten are many
constexpr int64_t kPieceElements = 32768;  // about what one piece of parallel work should touch

// Columns next to each other, each padded with zeros.
class Columns {
 public:
  Columns(int64_t count, int64_t length)
      : padded_((length + kSvdLanes - 1) / kSvdLanes * kSvdLanes),
        data_(new double[static_cast<size_t>(count * padded_)]()) {}
  double* operator[](int64_t column) const { return data_.get() + column * padded_; }
  int64_t padded() const { return padded_; }

 private:
  int64_t padded_;
  std::unique_ptr<double[]> data_;
};

// Note [Singular values by rotations]
// For a tall matrix A (a wide one is transposed first):
//
//   1. A P = Q R, by reflections, taking the longest remaining column first. Only the square R is
//      worked on from here, and because its rows shrink from the first to the last, the rotations
//      that follow need a few sweeps only.
//   2. Pairs of columns of R^T are rotated until each is orthogonal to all others. With the
//      rotations collected in W, R^T W = V S: the columns' lengths are the singular values.
//   3. Hence A = (Q W) S (P V)^T. The missing columns of Q W, for a full decomposition, come from
//      the reflections; those of V, where singular values are zero, are unit vectors made orthogonal.
//
// The pairs of one sweep are played like a tournament: in every round each column meets one other, so
// a round's pairs do not touch each other and are shared out among threads.
class Decomposition {
 public:
  // m >= n.
  Decomposition(int64_t m, int64_t n, bool vectors)
      : m_(m), n_(n), vectors_(vectors), reflectors_(n, m), r_(n, n), w_(vectors ? n : 0, n) {}

  // element(row, column) of the tall matrix
  template <class Element> SvdFailure run(Element element) {
    double largest = 0;
    for (int64_t j = 0; j < n_; ++j) {
      for (int64_t i = 0; i < m_; ++i) {
        const double x = element(i, j);
        if (!std::isfinite(x)) return SvdFailure::NotFinite;
        largest = std::max(largest, std::fabs(x));
        reflectors_[j][i] = x;
      }
    }
    // By a power of two, so that nothing overflows or vanishes when it is squared.
    if (largest > 0) std::frexp(largest, &exponent_);
    const double scale = std::ldexp(1.0, -std::clamp(exponent_, -1000, 1000));
    for (int64_t j = 0; j < n_; ++j) {
      for (int64_t i = 0; i < m_; ++i) reflectors_[j][i] *= scale;
    }
    factor();
    if (!rotate_until_orthogonal()) return SvdFailure::NoConvergence;
    sort();
    return SvdFailure::None;
  }

  int64_t rank_order(int64_t k) const { return order_[static_cast<size_t>(k)]; }
  double singular_value(int64_t k) const {
    return std::ldexp(lengths_[static_cast<size_t>(rank_order(k))], std::clamp(exponent_, -1000, 1000));
  }

  // Column k of the tall side, of m elements: for k >= n, of those that complete the basis.
  void tall_vector(int64_t k, double* to) const {
    std::fill_n(to, reflectors_.padded(), 0.0);
    if (k < n_) std::copy_n(w_[rank_order(k)], n_, to);
    else to[k] = 1;
    for (int64_t j = n_; j-- > 0;) {
      const double* v = reflectors_[j];
      const double f = factors_[static_cast<size_t>(j)];
      if (f != 0) table_.subtract(to, f * table_.dot(v, to, reflectors_.padded()), v, reflectors_.padded());
    }
  }
  int64_t tall_padded() const { return reflectors_.padded(); }

  // The columns of the short side, of n elements each, in order. Called once.
  void make_short_vectors() {
    for (int64_t k = 0; k < n_; ++k) {
      double* x = r_[rank_order(k)];
      const double length = lengths_[static_cast<size_t>(rank_order(k))];
      if (length > 0) {
        for (int64_t i = 0; i < n_; ++i) x[i] /= length;
      } else {
        complete(k);
      }
    }
  }
  double short_element(int64_t k, int64_t i) const { return r_[rank_order(k)][place_[static_cast<size_t>(i)]]; }

 private:
  // Step 1. Row j of R becomes column j of r_; rows that are done are zero in what remains.
  void factor() {
    const int64_t padded = reflectors_.padded();
    std::vector<int64_t> column(static_cast<size_t>(n_));  // what stands at each place
    std::iota(column.begin(), column.end(), int64_t{0});
    std::vector<double> squares(static_cast<size_t>(n_));
    factors_.assign(static_cast<size_t>(n_), 0.0);
    for (int64_t j = 0; j < n_; ++j) {
      int64_t longest = j;
      for (int64_t c = j; c < n_; ++c) {
        squares[static_cast<size_t>(c)] = table_.dot(reflectors_[c], reflectors_[c], padded);
        if (squares[static_cast<size_t>(c)] > squares[static_cast<size_t>(longest)]) longest = c;
      }
      if (longest != j) {
        std::swap_ranges(reflectors_[j], reflectors_[j] + padded, reflectors_[longest]);
        std::swap(column[static_cast<size_t>(j)], column[static_cast<size_t>(longest)]);
        for (int64_t row = 0; row < j; ++row) std::swap(r_[row][j], r_[row][longest]);
      }
      double* v = reflectors_[j];
      const double norm = std::sqrt(squares[static_cast<size_t>(longest)]);
      if (norm == 0) break;  // nothing but zeros is left
      const double head = v[j];
      const double reflected = head > 0 ? -norm : norm;
      v[j] = head - reflected;
      const double f = 1 / (norm * (norm + std::fabs(head)));
      factors_[static_cast<size_t>(j)] = f;
      r_[j][j] = reflected;
      for (int64_t c = j + 1; c < n_; ++c) {
        double* x = reflectors_[c];
        table_.subtract(x, f * table_.dot(v, x, padded), v, padded);
        r_[j][c] = x[j];
        x[j] = 0;
      }
    }
    place_.resize(static_cast<size_t>(n_));
    for (int64_t j = 0; j < n_; ++j) place_[static_cast<size_t>(column[static_cast<size_t>(j)])] = j;
  }

  // Step 2.
  bool rotate_until_orthogonal() {
    if (vectors_) {
      for (int64_t j = 0; j < n_; ++j) w_[j][j] = 1;
    }
    const int64_t players = n_ + n_ % 2;  // with an odd number, one column rests in every round
    const int64_t pairs = players / 2;
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, 4 * r_.padded()));
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      std::atomic<bool> rotated{false};
      for (int64_t round = 0; round + 1 < players; ++round) {
        parallel((pairs + per_piece - 1) / per_piece, [&](int64_t piece) {
          bool any = false;
          for (int64_t k = piece * per_piece; k < std::min(pairs, (piece + 1) * per_piece); ++k) {
            // The last player stays; the others sit in a circle that turns by one each round.
            const int64_t circle = players - 1;
            const int64_t a = k == 0 ? circle : (round + k) % circle, b = (round + circle - k) % circle;
            if (a < n_ && b < n_) any |= rotate_pair(std::min(a, b), std::max(a, b));
          }
          if (any) rotated.store(true, std::memory_order_relaxed);
        });
      }
      if (!rotated.load(std::memory_order_relaxed)) return true;
    }
    return false;
  }

  // False if the two were orthogonal already.
  bool rotate_pair(int64_t p, int64_t q) {
    const int64_t padded = r_.padded();
    double products[3];
    table_.products(r_[p], r_[q], padded, products);
    const double pp = products[0], qq = products[1], pq = products[2];
    constexpr double kPrecision = 0x1p-52;
    const double tolerance = kPrecision * std::sqrt(static_cast<double>(n_));
    if (!(std::fabs(pq) > tolerance * std::sqrt(pp) * std::sqrt(qq))) return false;
    const double zeta = (qq - pp) / (2 * pq);
    const double t = (zeta < 0 ? -1.0 : 1.0) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
    if (t == 0) return false;  // one is so much shorter that the other does not feel it
    const double c = 1 / std::sqrt(1 + t * t), s = c * t;
    table_.rotate(r_[p], r_[q], padded, c, s);
    if (vectors_) table_.rotate(w_[p], w_[q], padded, c, s);
    return true;
  }

  void sort() {
    lengths_.resize(static_cast<size_t>(n_));
    for (int64_t j = 0; j < n_; ++j) {
      lengths_[static_cast<size_t>(j)] = std::sqrt(table_.dot(r_[j], r_[j], r_.padded()));
    }
    order_.resize(static_cast<size_t>(n_));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return lengths_[static_cast<size_t>(a)] > lengths_[static_cast<size_t>(b)];
    });
  }

  // A unit vector orthogonal to the short vectors before k: of all axes, one that lies well outside
  // their space.
  void complete(int64_t k) {
    double* x = r_[rank_order(k)];
    for (int64_t axis = 0; axis < n_; ++axis) {
      std::fill_n(x, r_.padded(), 0.0);
      x[axis] = 1;
      for (int again = 0; again < 2; ++again) {
        for (int64_t before = 0; before < k; ++before) {
          const double* other = r_[rank_order(before)];
          table_.subtract(x, table_.dot(x, other, r_.padded()), other, r_.padded());
        }
      }
      const double length = std::sqrt(table_.dot(x, x, r_.padded()));
      // The squares of what is left of all axes add up to n - k, so one of them has this much.
      if (length * length * static_cast<double>(n_) < 0.5) continue;
      for (int64_t i = 0; i < n_; ++i) x[i] /= length;
      return;
    }
  }

  const SvdTable& table_ = svd_table();
  const int64_t m_, n_;
  const bool vectors_;
  Columns reflectors_, r_, w_;
  std::vector<double> factors_, lengths_;
  std::vector<int64_t> place_;  // of each column of the matrix in A P
  std::vector<int64_t> order_;  // columns by falling singular value
  int exponent_ = 0;
};

template <class T>
SvdFailure svd_of_matrix(int64_t rows, int64_t columns, const T* a, bool full, T* u, T* s, T* vh) {
  const bool wide = rows < columns;
  const int64_t m = std::max(rows, columns), n = std::min(rows, columns);
  Decomposition decomposition(m, n, u != nullptr);
  const SvdFailure failure = decomposition.run(
      [&](int64_t i, int64_t j) { return static_cast<double>(wide ? a[j * columns + i] : a[i * columns + j]); });
  if (failure != SvdFailure::None) return failure;
  for (int64_t k = 0; k < n; ++k) s[k] = static_cast<T>(decomposition.singular_value(k));
  if (u == nullptr) return failure;
  // The tall side is U, or, of a wide matrix, V: its vectors are columns of u or rows of vh.
  const int64_t tall_count = full ? m : n;
  std::unique_ptr<double[]> vector(new double[static_cast<size_t>(decomposition.tall_padded())]);
  for (int64_t k = 0; k < tall_count; ++k) {
    decomposition.tall_vector(k, vector.get());
    for (int64_t i = 0; i < m; ++i) {
      (wide ? vh[k * columns + i] : u[i * tall_count + k]) = static_cast<T>(vector[static_cast<size_t>(i)]);
    }
  }
  decomposition.make_short_vectors();
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < n; ++i) {
      (wide ? u[i * n + k] : vh[k * n + i]) = static_cast<T>(decomposition.short_element(k, i));
    }
  }
  return failure;
}

template <class T>
SvdStatus svd_of_type(int64_t batch, int64_t rows, int64_t columns, const T* a, bool full, T* u, T* s, T* vh) {
  const int64_t k = std::min(rows, columns);
  const int64_t u_size = rows * (full ? rows : k), vh_size = (full ? columns : k) * columns;
  std::vector<SvdFailure> failures(static_cast<size_t>(batch), SvdFailure::None);
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, 16 * rows * columns));
  parallel((batch + per_piece - 1) / per_piece, [&](int64_t piece) {
    for (int64_t i = piece * per_piece; i < std::min(batch, (piece + 1) * per_piece); ++i) {
      failures[static_cast<size_t>(i)] =
          svd_of_matrix(rows, columns, a + i * rows * columns, full, u ? u + i * u_size : nullptr, s + i * k,
                        vh ? vh + i * vh_size : nullptr);
    }
  });
  for (int64_t i = 0; i < batch; ++i) {
    if (failures[static_cast<size_t>(i)] != SvdFailure::None) return {failures[static_cast<size_t>(i)], i};
  }
  return {};
}

}  // namespace

SvdStatus svd(DType type, int64_t batch, int64_t rows, int64_t columns, const void* a, bool full, void* u, void* s,
              void* vh) {
  const auto of_type = [&](auto zero) {
    using T = decltype(zero);
    return svd_of_type<T>(batch, rows, columns, static_cast<const T*>(a), full, static_cast<T*>(u), static_cast<T*>(s),
                          static_cast<T*>(vh));
  };
  return type == DType::Float32 ? of_type(float{}) : of_type(double{});
}

}  // namespace weft::cpu

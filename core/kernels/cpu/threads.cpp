#include "core/kernels/cpu/threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace weft::cpu {

namespace {

// Long enough to bridge the gap between two kernels of one model, short enough not to be noticed
// as load when Python does something else.
constexpr auto kSpin = std::chrono::microseconds(10);

// A batch's pieces are counted in the low half of one 64-bit word.
constexpr int64_t kLargestBatch = int64_t{1} << 30;

// True on the pool's threads, and on a caller while it is inside run_pieces.
thread_local bool inside_pieces = false;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns true as soon as ready() holds, false when the spinning time is over.
template <class Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// Note [How a piece is claimed]
// `claims_` holds the batch's number in its high half and the count of pieces nobody has taken yet
// in its low half. A thread reads claims_, then the batch's description, and takes pieces by
// exchanging claims_ for the same word less their number. While a piece of a batch is not taken its
// caller is waiting, so the description cannot have changed if the exchange succeeds; if it has
// changed, the batch's number has too, and the exchange fails. Hence a thread that comes late needs
// no lock and does no harm.
// A thread takes a run of neighbours, of which there are fewer the less is left: memory is streamed
// through in long stretches (a large addition on two threads: 455 -> 340 us), and yet nobody waits
// long for the last one. Which thread does a piece never shows in the result.
class Pool {
 public:
  explicit Pool(int workers) : threads_(static_cast<uint32_t>(workers) + 1) {
    workers_.reserve(static_cast<size_t>(workers));
    for (int i = 0; i < workers; ++i) {
      try {
        workers_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        break;  // The machine gives no more threads: go on with those there are.
      }
    }
  }

  ~Pool() {
    stopping_.store(true, std::memory_order_relaxed);
    wake_workers();
    for (std::thread& worker : workers_) worker.join();
  }

  // Called by one thread at a time.
  void run(int64_t first, int64_t pieces, void (*body)(void*, int64_t), void* context) {
    body_.store(body, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    end_.store(first + pieces, std::memory_order_relaxed);
    unfinished_.store(static_cast<uint32_t>(pieces), std::memory_order_relaxed);
    claims_.store(++batch_ << 32 | static_cast<uint64_t>(pieces), std::memory_order_release);
    wake_workers();
    take_pieces();
    const auto finished = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
    if (spin_until(finished)) return;
    for (uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) {
      unfinished_.wait(left, std::memory_order_acquire);
    }
  }

 private:
  void wake_workers() {
    wakes_.fetch_add(1, std::memory_order_release);
    wakes_.notify_all();
  }

  void take_pieces() noexcept {
    uint64_t claims = claims_.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(claims) != 0) {
      const auto body = body_.load(std::memory_order_relaxed);
      void* const context = context_.load(std::memory_order_relaxed);
      const int64_t end = end_.load(std::memory_order_relaxed);
      const auto left = static_cast<uint32_t>(claims);
      const uint32_t run = std::max<uint32_t>(1, left / (2 * threads_));
      if (!claims_.compare_exchange_weak(claims, claims - run, std::memory_order_acq_rel, std::memory_order_acquire)) {
        continue;
      }
      const int64_t first = end - static_cast<int64_t>(left);
      for (int64_t piece = first; piece < first + run; ++piece) body(context, piece);
      if (unfinished_.fetch_sub(run, std::memory_order_acq_rel) == run) unfinished_.notify_all();
      claims = claims_.load(std::memory_order_acquire);
    }
  }

  void work() noexcept {
    leave_signals_to_callers();
    inside_pieces = true;
    uint32_t seen = 0;  // wakes_ before any batch, so that one handed over meanwhile is not missed
    for (;;) {
      const auto woken = [&] { return wakes_.load(std::memory_order_acquire) != seen; };
      if (!spin_until(woken)) wakes_.wait(seen, std::memory_order_acquire);
      seen = wakes_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      take_pieces();
    }
  }

  // Python handles its signals on its own threads; faults stay where they happen.
  static void leave_signals_to_callers() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  }

  const uint32_t threads_;
  alignas(64) std::atomic<uint64_t> claims_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  alignas(64) std::atomic<uint32_t> wakes_{0};
  std::atomic<void (*)(void*, int64_t)> body_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int64_t> end_{0};
  std::atomic<bool> stopping_{false};
  uint64_t batch_ = 0;  // wraps around with the word it is shifted into
  std::vector<std::thread> workers_;
};

// The processors this process may use, counting those that share a core once.
int usable_cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    std::set<std::string> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      const std::string file = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
      std::string siblings;
      std::ifstream(file) >> siblings;
      cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
    }
    if (!cores.empty()) return static_cast<int>(cores.size());
  }
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int default_threads() {
  if (const char* wanted = std::getenv("OMP_NUM_THREADS")) {
    const int threads = std::atoi(wanted);
    if (threads >= 1) return threads;
  }
  return usable_cores();
}

std::atomic<int> wanted_threads{0};  // 0: not asked for yet

// Held while a batch runs on the pool; a caller that does not get it at once works alone.
std::mutex pool_in_use;
std::unique_ptr<Pool> pool;
int pool_threads = 0;  // that `pool` was made for, the caller included

// Note [Fork]
// Only the forking thread exists in the child, so the parent's pool is forgotten there, not
// destroyed, and the lock that another thread may hold is made anew. The child works alone until it
// asks for threads itself: data loaders fork as many children as there are processors.
void forget_pool_in_child() {
  new (&pool_in_use) std::mutex;
  static_cast<void>(pool.release());
  pool_threads = 0;
  wanted_threads.store(1, std::memory_order_relaxed);
}

struct AtExit {
  ~AtExit() {
    wanted_threads.store(1, std::memory_order_relaxed);
    const std::lock_guard lock(pool_in_use);
    pool.reset();
  }
};

Pool& pool_for(int threads) {
  if (pool_threads != threads) {
    static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
    static_cast<void>(registered);
    static const AtExit at_exit;
    pool.reset();
    pool = std::make_unique<Pool>(threads - 1);
    pool_threads = threads;
  }
  return *pool;
}

void run_alone(int64_t pieces, void (*body)(void*, int64_t), void* context) {
  for (int64_t piece = 0; piece < pieces; ++piece) body(context, piece);
}

}  // namespace

int num_threads() {
  int threads = wanted_threads.load(std::memory_order_relaxed);
  if (threads == 0) {
    static const int by_default = default_threads();
    int none = 0;
    wanted_threads.compare_exchange_strong(none, by_default, std::memory_order_relaxed);
    threads = wanted_threads.load(std::memory_order_relaxed);
  }
  return threads;
}

void set_num_threads(int n) { wanted_threads.store(std::max(1, n), std::memory_order_relaxed); }

void run_pieces(int64_t pieces, void (*body)(void* context, int64_t piece), void* context) {
  const int threads = num_threads();
  if (pieces <= 1 || threads == 1 || inside_pieces) return run_alone(pieces, body, context);
  const std::unique_lock lock(pool_in_use, std::try_to_lock);
  if (!lock.owns_lock()) return run_alone(pieces, body, context);
  Pool& workers = pool_for(threads);
  inside_pieces = true;
  for (int64_t first = 0; first < pieces; first += kLargestBatch) {
    workers.run(first, std::min(kLargestBatch, pieces - first), body, context);
  }
  inside_pieces = false;
}

}  // namespace weft::cpu

// Where in the user's Python something happened: a code object and an instruction offset. File and line
// are worked out only when somebody asks. The core holds code objects without knowing what they are.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct Node;
struct TensorImpl;

struct CallSite {
  void* code = nullptr;
  int32_t instruction = 0;
};

// Filled in by bind/ when the extension is loaded; the defaults do nothing.
struct PythonHooks {
  void (*retain)(void*) = [](void*) {};
  void (*release)(void*) = [](void*) {};
  // The line of the user's program that is running now. The code object is retained for the caller.
  CallSite (*current_site)() = [] { return CallSite{}; };
  std::string (*site_text)(void* code, int32_t instruction) = [](void*, int32_t) { return std::string(); };
  void* (*release_lock)() = []() -> void* { return nullptr; };
  void (*acquire_lock)(void*) = [](void*) {};
  // A gradient that an optimiser step has already used is being added to.
  void (*stale_gradient)(TensorImpl* leaf) = [](TensorImpl*) {};
  // The first gradient of a leaf that belongs to no optimiser.
  void (*unoptimised_leaf)(TensorImpl* leaf) = [](TensorImpl*) {};
  // Backward begins at a loss made by an operation that blew both of its arguments up.
  void (*suspicious_broadcast)(Node* n) = [](Node*) {};
  // Backward was asked for where there is no history.
  void (*no_history)(TensorImpl* root) = [](TensorImpl*) {};
  // Adds a note to the Python exception that is set.
  void (*annotate)(const std::string& note) = [](const std::string&) {};
  // Ctrl-C: throws PythonError when the interpreter has a signal waiting.
  void (*check_signals)() = [] {};
  // A Python warning at the user's line; throws PythonError where warnings are errors.
  void (*warn)(const char* text) = [](const char*) {};
};
extern constinit PythonHooks python;

inline void release_code(void* code) { python.release(code); }

inline thread_local constinit bool keeps_lock = false;
inline thread_local constinit uint32_t times_unlocked = 0;  // tells that something large has run

// While it lives, kernels of this thread keep the interpreter lock, however large: other threads must
// not come in between (two backward passes that add to one `.grad`).
class Locked {
 public:
  Locked() : before_(keeps_lock) { keeps_lock = true; }
  ~Locked() { keeps_lock = before_; }
  Locked(const Locked&) = delete;

 private:
  bool before_;
};

// What other threads must not free while a kernel works without the lock: see retire() in storage.h.
uint64_t kernel_begins();
void kernel_ended(uint64_t ticket);

// Lets other Python threads run while a large kernel works.
class Unlocked {
 public:
  explicit Unlocked(bool worthwhile) : state_(nullptr) {
    if (!worthwhile || keeps_lock) return;
    ++times_unlocked;
    ticket_ = kernel_begins();
    state_ = python.release_lock();
  }
  ~Unlocked() {
    if (!state_) return;
    python.acquire_lock(state_);
    kernel_ended(ticket_);
  }
  Unlocked(const Unlocked&) = delete;

 private:
  void* state_;
  uint64_t ticket_ = 0;
};

}  // namespace weft

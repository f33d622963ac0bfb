// ScopeExit: runs an undo step at the end of the scope unless it was cancelled.
#pragma once

#include <type_traits>
#include <utility>

namespace sbx {

/// `ScopeExit undo([&] { ... });` then `undo.cancel();` once the work has succeeded.
/// The function must not fail: there is nobody to tell.
template <typename F>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(F undo) noexcept(std::is_nothrow_move_constructible_v<F>)
      : undo_(std::move(undo)) {}
  ~ScopeExit() {
    if (armed_) undo_();
  }
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ScopeExit(ScopeExit&&) = delete;
  ScopeExit& operator=(ScopeExit&&) = delete;

  void cancel() { armed_ = false; }

 private:
  F undo_;
  bool armed_ = true;
};

}  // namespace sbx

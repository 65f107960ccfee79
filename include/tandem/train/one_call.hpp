// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OneCall: a trainer does one thing at a time, and says so to who asks for another meanwhile.

#include <atomic>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/own_process.hpp>

namespace tandem {

/// The call that a trainer is in. A second one, by another thread or by what the first calls (a
/// dataset is read by a thread of its own), would mix two runs of the ranks.
class OneCall {
 public:
  enum Kind {
    reads,   ///< as save() and evaluate(): what a call lends itself to
    trains,  ///< or loads
  };

  /// While it lives, calls that only read may be made: what a watcher of train() does.
  class [[nodiscard]] Lent {
   public:
    Lent(Lent const&) = delete;
    Lent& operator=(Lent const&) = delete;
    ~Lent() {
      call_.verb_.store(call_.lender_.load(), std::memory_order_release);
      call_.lender_ = nullptr;
    }

   private:
    friend class OneCall;
    explicit Lent(OneCall& call) : call_{call} {
      call_.lender_ = call_.verb_.load(std::memory_order_relaxed);
      call_.verb_.store(nullptr, std::memory_order_release);
    }
    OneCall& call_;
  };

  /// Ends the call. Inside it the trainer's own parts may call each other, not its public verbs.
  class [[nodiscard]] Scope {
   public:
    Scope(Scope const&) = delete;
    Scope& operator=(Scope const&) = delete;
    ~Scope() { call_.verb_.store(nullptr, std::memory_order_release); }
    [[nodiscard]] Lent lend() const { return Lent{call_}; }

   private:
    friend class OneCall;
    explicit Scope(OneCall& call) : call_{call} {}
    OneCall& call_;
  };

  /// @param verb  a literal
  /// @throws ContractError  another call has not returned yet; or this is a child of fork()
  TANDEM_ONCE Scope begin(char const* verb, Kind kind = reads);

 private:
  TANDEM_ONCE [[noreturn]] static void refuse(char const* verb, std::string const& running);

  detail::OwnProcess process_;
  std::atomic<char const*> verb_{nullptr};
  std::atomic<char const*> lender_{nullptr};
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void OneCall::refuse(char const* verb, std::string const& running) {
  throw ContractError{std::string{verb} + ": " + running +
                      " of this trainer has not returned yet; a trainer does one thing at a time, "
                      "so do not call it from another thread, nor from a dataset or a function "
                      "that it calls: call one after the other, or make a Trainer for each"};
}

TANDEM_ONCE OneCall::Scope OneCall::begin(char const* verb, Kind kind) {
  process_.expect_own(verb, "Trainer or Predictor");
  char const* running = nullptr;
  if (kind == trains && lender_ != nullptr) {
    refuse(verb, lender_.load());
  }
  if (!verb_.compare_exchange_strong(running, verb, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    refuse(verb, running);
  }
  return Scope{*this};
}

}  // namespace tandem

#endif

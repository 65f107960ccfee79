// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GroupTransport: what a WorkerGroup asks of a RankTransport, whatever its type is; the ranks'
/// communicators are not among it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include <tandem/comm/transport.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>

namespace tandem {

/// RankTransport says what each does; those that not every transport has do nothing by default.
class GroupTransport {
 public:
  GroupTransport() = default;
  GroupTransport(GroupTransport const&) = delete;
  GroupTransport& operator=(GroupTransport const&) = delete;
  virtual ~GroupTransport() = default;

  [[nodiscard]] virtual int first_rank() const = 0;
  [[nodiscard]] virtual int local_ranks() const = 0;
  [[nodiscard]] virtual int device_of(int local) const = 0;
  virtual std::atomic<std::uint64_t>* progress(int rank) = 0;
  virtual void abort(int rank, std::string_view reason) = 0;
  virtual void poll(int rank, std::chrono::steady_clock::duration waited) = 0;
  virtual void at_step(std::int64_t /*step*/) {}
  virtual void enter() {}
  virtual void leave() {}
  virtual void begin_work() {}
  virtual void leave_in_order() {}
};

/// @tparam T  models RankTransport
template <class T>
class GroupTransportOf final : public GroupTransport {
 public:
  explicit GroupTransportOf(TransportOptions const& options) : own{options} {}
  TANDEM_COLD static std::unique_ptr<GroupTransport> make(TransportOptions const& options) {
    return std::make_unique<GroupTransportOf>(options);
  }

  [[nodiscard]] int first_rank() const override { return own.first_rank(); }
  [[nodiscard]] int local_ranks() const override { return own.local_ranks(); }
  [[nodiscard]] int device_of(int local) const override { return own.device_of(local); }
  std::atomic<std::uint64_t>* progress(int rank) override { return own.progress(rank); }
  void abort(int rank, std::string_view reason) override { own.abort(rank, reason); }
  void poll(int rank, std::chrono::steady_clock::duration waited) override {
    own.poll(rank, waited);
  }
  void at_step([[maybe_unused]] std::int64_t step) override {
    if constexpr (requires { own.at_step(step); }) {
      own.at_step(step);
    }
  }
  void enter() override {
    if constexpr (requires { own.enter(); }) {
      own.enter();
    }
  }
  void leave() override {
    if constexpr (requires { own.leave(); }) {
      own.leave();
    }
  }
  void begin_work() override {
    if constexpr (requires { own.begin_work(); }) {
      own.begin_work();
    }
  }
  void leave_in_order() override {
    if constexpr (requires { own.leave_in_order(); }) {
      own.leave_in_order();
    }
  }

  T own;
};

}  // namespace tandem

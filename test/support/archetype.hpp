// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Archetypes: a backend and a transport that have what the library's concepts ask for, and nothing
/// else. Whatever else the engine should ask of one does not compile with them.
///
/// They compute with the portable kernels, in the order of the calls; a stream does its work at
/// once. A device counts the calls of each of its verbs.

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/rank_set.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/transport_options.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/ops/host/all.hpp>
#include <tandem/runtime/device_spec.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem::test {

/// The verbs of a device.
enum class Verb { make_stream, begin, mark, await, stamp, finish, share, debug, settle };

/// Calls of a verb by all devices of the program.
inline std::array<std::atomic<int>, 9> verb_calls{};
inline void count(Verb verb) { ++verb_calls[static_cast<std::size_t>(verb)]; }

/// Models ComputeBackend.
struct Archetype {
  using Scalar = float;
  using Master = float;

  /// Nothing but a type: what is queued on it is done when the call returns.
  struct Stream {};

  class Device {
   public:
    struct Mark {};
    struct Stamp {
      std::chrono::steady_clock::time_point at{};
    };

    explicit Device(DeviceSpec const& spec) : kernels_{spec} {}
    Device(Device const&) = delete;
    Device& operator=(Device const&) = delete;

    Stream communication;
    std::byte* scratch = nullptr;
    std::int64_t scratch_bytes = 0;

    std::unique_ptr<Stream> make_stream() {
      count(Verb::make_stream);
      return std::make_unique<Stream>();
    }
    Mark make_mark() { return {}; }
    Stamp make_stamp() { return {}; }
    void begin_on(Stream&) { count(Verb::begin); }
    void mark_on(Stream&, Mark&) { count(Verb::mark); }
    void await_on(Stream&, Mark&) { count(Verb::await); }
    void stamp(Stamp& stamp) {
      count(Verb::stamp);
      stamp.at = std::chrono::steady_clock::now();
    }
    void stamp_on(Stream&, Stamp& stamp) { stamp.at = std::chrono::steady_clock::now(); }
    double microseconds(Stamp const& from, Stamp const& to) {
      return std::chrono::duration<double, std::micro>(to.at - from.at).count();
    }
    void finish() { count(Verb::finish); }
    void share_with(DeviceSpec const&) { count(Verb::share); }
    template <class Wait, class F>
    void debug(std::string const&, Wait const&, F const& f) {
      count(Verb::debug);
      f();
    }
    void settle(Stream&) { count(Verb::settle); }

    /// Of the archetype's ops and verbs, not of the engine.
    host::Device& kernels() {
      kernels_.scratch = scratch;
      return kernels_;
    }

   private:
    host::Device kernels_;
  };

  class Buffer {
   public:
    Buffer(Device&, std::size_t bytes) : memory_{bytes} {}
    Buffer(Buffer const&) = delete;
    Buffer& operator=(Buffer const&) = delete;
    std::byte* data() const { return memory_.data(); }
    template <class T>
    T* as() const {
      return memory_.as<T>();
    }
    std::size_t bytes() const { return memory_.bytes(); }

   private:
    host::Buffer memory_;
  };
};

using ArchetypePass = Pass<Archetype::Device>;
using ArchetypeKernels = BasicHost<Portable>;

/// The pass as the portable kernels know it.
inline Pass<host::Device> kernel_pass(ArchetypePass const& p) {
  return {.device = p.device.kernels(),
          .batch = p.batch,
          .first_sample = p.first_sample,
          .share = p.share,
          .state = p.state,
          .training = p.training,
          .accumulate = p.accumulate};
}

/// What the ranks of one group have in common.
class Meeting {
 public:
  explicit Meeting(int ranks) : parts_(static_cast<std::size_t>(ranks)) {}

  /// Sums in the order of the ranks.
  template <class T>
  void all_reduce(int rank, std::span<T const> in, std::span<T> out) {
    std::unique_lock lock{mutex_};
    parts_[static_cast<std::size_t>(rank)] = in.data();
    std::uint64_t const round = round_;
    if (++arrived_ < parts_.size()) {
      wait(lock, [&] { return round_ != round; });
    } else {
      sum_.resize(in.size_bytes());
      for (std::size_t i = 0; i < in.size(); ++i) {
        T sum = static_cast<T const*>(parts_[0])[i];
        for (std::size_t r = 1; r < parts_.size(); ++r) {
          sum += static_cast<T const*>(parts_[r])[i];
        }
        std::memcpy(sum_.data() + i * sizeof(T), &sum, sizeof(T));
      }
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    if (!in.empty()) {
      std::memcpy(out.data(), sum_.data(), out.size_bytes());
    }
  }

  void send(int to, void const* data, std::size_t bytes) {
    std::lock_guard const lock{mutex_};
    auto const* const first = static_cast<std::byte const*>(data);
    boxes_[to].emplace_back(first, first + bytes);
    changed_.notify_all();
  }
  void receive(int rank, void* data, std::size_t bytes) {
    std::unique_lock lock{mutex_};
    auto& box = boxes_[rank];
    wait(lock, [&] { return !box.empty(); });
    std::memcpy(data, box.front().data(), bytes);
    box.pop_front();
  }

  void abort() {
    std::lock_guard const lock{mutex_};
    aborted_ = true;
    changed_.notify_all();
  }

 private:
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Done const& done) {
    changed_.wait(lock, [&] { return aborted_ || done(); });
    if (!done()) {
      throw Error{"another rank has failed"};
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void const*> parts_;
  std::vector<std::byte> sum_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
  std::map<int, std::deque<std::vector<std::byte>>> boxes_;  // of the ranks of a link: two at most
  bool aborted_ = false;
};

/// Models RankTransport: all ranks are threads of this process.
template <int Ranks>
class ArchetypeTransport {
 public:
  class Communicator {
   public:
    using Stream = Archetype::Stream;
    Communicator(Meeting& meeting, int rank, int size)
        : meeting_{&meeting}, rank_{rank}, size_{size} {}
    Communicator(Communicator&&) = default;

    void all_reduce(std::span<float const> in, std::span<float> out, Sum, Stream&, Label label) {
      check(label);
      meeting_->all_reduce(rank_, in, out);
    }
    void all_reduce(std::span<double const> in, std::span<double> out, Sum, Stream&, Label label) {
      check(label);
      meeting_->all_reduce(rank_, in, out);
    }
    void send(std::span<float const> data, int peer, Stream&, Label) {
      meeting_->send(peer, data.data(), data.size_bytes());
    }
    void receive(std::span<float> data, int, Stream&, Label) {
      meeting_->receive(rank_, data.data(), data.size_bytes());
    }
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

   private:
    void check(Label label) const {
      if (rank_ == 0 && fails && label.text == std::string_view{"bucket"}) {
        throw Error{"this communicator was told to fail"};
      }
    }
    Meeting* meeting_;
    int rank_;
    int size_;
  };

  /// Whether rank 0 of a group throws in place of its next reduction of gradients.
  static inline std::atomic<bool> fails = false;

  explicit ArchetypeTransport(TransportOptions const& options) : sets_{options.groups} {
    for (RankSet const& set : sets_) {
      groups_.push_back(std::make_unique<Meeting>(static_cast<int>(set.ranks.size())));
    }
  }

  int first_rank() const { return 0; }
  int local_ranks() const { return Ranks; }
  int device_of(int local) const { return local; }
  Communicator communicator(int rank) { return {all_, rank, Ranks}; }
  Communicator communicator(int rank, int group) {
    auto const g = static_cast<std::size_t>(group);
    return {*groups_[g], detail::position_of(sets_[g], rank),
            static_cast<int>(sets_[g].ranks.size())};
  }
  std::atomic<std::uint64_t>* progress(int) { return nullptr; }
  void abort(int, std::string_view) {
    all_.abort();
    for (auto const& group : groups_) {
      group->abort();
    }
  }
  void poll(int, std::chrono::steady_clock::duration) {}

 private:
  Meeting all_{Ranks};
  std::vector<RankSet> sets_;
  std::vector<std::unique_ptr<Meeting>> groups_;
};

}  // namespace tandem::test

namespace tandem {

/// Models NodeOp, BackwardOp and ParameterOp, as the portable op does.
template <class L>
class Op<L, test::Archetype> {
  using Kernels = Op<L, test::ArchetypeKernels>;

 public:
  explicit Op(OpSetup const& setup) : kernels_{setup} {}
  OpNeeds needs() { return kernels_.needs(); }
  void forward(Operands<float> const& o, test::ArchetypePass const& p) {
    kernels_.forward(o, test::kernel_pass(p));
  }
  void input_gradient(Operands<float> const& o, test::ArchetypePass const& p) requires
      BackwardOp<Kernels, test::ArchetypeKernels> {
    kernels_.input_gradient(o, test::kernel_pass(p));
  }
  void weight_gradient(Operands<float> const& o, test::ArchetypePass const& p) requires
      ParameterOp<Kernels, test::ArchetypeKernels> {
    kernels_.weight_gradient(o, test::kernel_pass(p));
  }

 private:
  Kernels kernels_;
};

template <class L>
class LossOp<L, test::Archetype> {
 public:
  LossOp(Shape output, int batch) : kernels_{output, batch} {}
  std::int64_t scratch_bytes() const { return kernels_.scratch_bytes(); }
  void forward(test::ArchetypePass const& p, float const* output, typename L::Target const* targets,
               double* loss) {
    kernels_.forward(test::kernel_pass(p), output, targets, loss);
  }
  void gradient(test::ArchetypePass const& p, float const* output,
                typename L::Target const* targets, double scale, float* dy) {
    kernels_.gradient(test::kernel_pass(p), output, targets, scale, dy);
  }

 private:
  LossOp<L, test::ArchetypeKernels> kernels_;
};

template <class M, class L>
class MetricOp<M, L, test::Archetype> {
 public:
  explicit MetricOp(Shape output) : kernels_{output} {}
  void count(test::ArchetypePass const& p, float const* output, typename L::Target const* targets,
             double* sum) {
    kernels_.count(test::kernel_pass(p), output, targets, sum);
  }

 private:
  MetricOp<M, L, test::ArchetypeKernels> kernels_;
};

/// Models HasVerbs.
template <>
struct Verbs<test::Archetype> {
  using Kernels = Verbs<test::ArchetypeKernels>;
  using Device = test::Archetype::Device;
  static void zero(Device& d, float* y, std::int64_t n) { Kernels::zero(d.kernels(), y, n); }
  static void copy(Device& d, float const* x, float* y, std::int64_t n) {
    Kernels::copy(d.kernels(), x, y, n);
  }
  static void add(Device& d, float const* x, float* y, std::int64_t n) {
    Kernels::add(d.kernels(), x, y, n);
  }
  static void sum(Device& d, float const* const* in, int k, float* y, std::int64_t n,
                  Rounding /*float is not narrow*/) {
    Kernels::sum(d.kernels(), in, k, y, n);
  }
  static double sum_of_squares(Device& d, float const* x, std::int64_t n) {
    return Kernels::sum_of_squares(d.kernels(), x, n);
  }
  template <class Functor>
  static void each(Device& d, std::int64_t n, Functor const& functor) {
    Kernels::each(d.kernels(), n, functor);
  }
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Profiled<Backend>: a Host backend whose devices keep the time of each node's passes.
///
/// It is another backend to the engine, whose ops and verbs call those of Backend between two looks
/// at the clock; so any program can be profiled and the engine has nothing for it. Nothing is
/// computed otherwise. Not for devices that are told what to do and do it later.

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// Seconds of one node's passes.
struct NodeSeconds {
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
  double added_gradient = 0;  ///< the same where it is added to that of earlier microbatches
};

/// Seconds of one device, added up until clear().
struct PassClock {
  std::vector<NodeSeconds> node{};  ///< by the index in the network's graph
  double update = 0;                ///< of parameters, and making them ready to be read
  double forks = 0;                 ///< sums of gradients whose node's backward pass comes next

  TANDEM_ONCE NodeSeconds& of(int index);
  void clear() { *this = {.node = std::vector<NodeSeconds>(node.size())}; }
};

/// A BasicHost that is slower by two looks at the clock a pass.
template <class Backend>
struct Profiled;

template <class Kernels, class Precision>
struct Profiled<BasicHost<Kernels, Precision>> : BasicHost<Kernels, Precision> {
  struct Device : host::Device {
    using host::Device::Device;
    PassClock clock{};
  };
  using KernelsType = Kernels;
  using PrecisionType = Precision;
};

namespace detail {

/// Seconds that f() takes.
template <class F>
double seconds_of(F const& f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The pass as the ops of Host know it.
template <class Device>
Pass<host::Device> host_pass(Pass<Device> const& p) {
  return {.device = p.device,
          .batch = p.batch,
          .first_sample = p.first_sample,
          .share = p.share,
          .state = p.state,
          .training = p.training,
          .accumulate = p.accumulate,
          .time = p.time,
          .lengths = p.lengths,
          .criterion = {.targets = p.criterion.targets, .row_scale = p.criterion.row_scale}};
}

}  // namespace detail

template <class L, class Backend>
struct Op<L, Profiled<Backend>> : Op<L, Backend> {
  using Base = Op<L, Backend>;

  template <class... Device>
    requires std::is_constructible_v<Base, OpSetup const&, Device&...>
  explicit Op(OpSetup const& setup, Device&... device)
      : Base{setup, device...}, index_{setup.index} {}

  template <class O, class P>
  void forward(O const& o, P const& p) {
    p.device.clock.of(index_).forward +=
        detail::seconds_of([&] { Base::forward(o, detail::host_pass(p)); });
  }
  template <class O, class P>
  void input_gradient(O const& o, P const& p) {
    p.device.clock.of(index_).input_gradient +=
        std::exchange(p.device.clock.forks, 0.0) +
        detail::seconds_of([&] { Base::input_gradient(o, detail::host_pass(p)); });
  }
  template <class O, class P>
  void weight_gradient(O const& o, P const& p) {
    double const seconds = std::exchange(p.device.clock.forks, 0.0) + detail::seconds_of([&] {
                             Base::weight_gradient(o, detail::host_pass(p));
                           });
    NodeSeconds& own = p.device.clock.of(index_);
    (p.accumulate ? own.added_gradient : own.weight_gradient) += seconds;
  }
  template <class O, class Device>
    requires requires(Base& base, O const& o, Device& device) { base.pack(o, device); }
  void pack(O const& o, Device& device) {
    device.clock.update += detail::seconds_of([&] { Base::pack(o, device); });
  }

 private:
  int index_;
};

template <class L, class Backend>
struct LossOp<L, Profiled<Backend>> : LossOp<L, Backend> {
  using Base = LossOp<L, Backend>;
  using Base::Base;

  template <class P, class... A>
  void forward(P const& p, A... a) const {
    Base::forward(detail::host_pass(p), a...);
  }
  template <class P, class... A>
  void gradient(P const& p, A... a) const {
    Base::gradient(detail::host_pass(p), a...);
  }
};

template <class M, class L, class Backend>
struct MetricOp<M, L, Profiled<Backend>> : MetricOp<M, L, Backend> {
  using Base = MetricOp<M, L, Backend>;
  using Base::Base;

  template <class P, class... A>
  void count(P const& p, A... a) const {
    Base::count(detail::host_pass(p), a...);
  }
};

template <class Backend>
struct Verbs<Profiled<Backend>> : Verbs<Backend> {
  template <class Device, class... A>
  static void sum(Device& device, A... a) {
    device.clock.forks += detail::seconds_of([&] { Verbs<Backend>::sum(device, a...); });
  }
  template <class Device, class Functor>
  static void each(Device& device, std::int64_t n, Functor const& functor) {
    device.clock.update += detail::seconds_of([&] { Verbs<Backend>::each(device, n, functor); });
  }
};

template <class Backend>
struct Border<Profiled<Backend>> : Border<Backend> {};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE NodeSeconds& PassClock::of(int index) {
  auto const place = static_cast<std::size_t>(index);
  if (place >= node.size()) {
    node.resize(place + 1);
  }
  return node[place];
}

}  // namespace tandem

#endif

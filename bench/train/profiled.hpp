// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Profiled<Backend>: a Host backend that keeps the time of each node's passes.
///
/// It is another backend to the engine, whose ops and verbs call those of Backend between two looks
/// at the clock; so any program can be profiled and the engine has nothing for it. One rank only.

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/graph/graph.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>

#include "rounds.hpp"

namespace tandem::bench {

/// Seconds by what was done, of all Profiled backends of the process.
class Profile {
 public:
  static Profile& instance() {
    static Profile profile;
    return profile;
  }

  void add(std::string const& kind, char const* pass, std::string const& place, double seconds) {
    kinds_[kind + " " + pass] += seconds;
    nodes_[place + " " + pass] += seconds;
  }
  /// Also says by which clock: the process's CPU time, which other jobs disturb less, or the
  /// wall's.
  void clear(bool cpu) {
    cpu_ = cpu;
    kinds_.clear();
    nodes_.clear();
  }

  [[nodiscard]] double seconds(Stopwatch const& watch) const {
    return cpu_ ? watch.cpu_s() : watch.wall_s();
  }

  /// A table of milliseconds a step: kinds, what is left of @p step_s, and the dearest nodes.
  void print(int steps, double step_s) const {
    double sum = 0.0;
    std::printf("%-44s %9s %7s\n", cpu_ ? "kind and pass, CPU time" : "kind and pass, wall time",
                "ms/step", "share");
    for (auto const& [name, seconds] : sorted(kinds_)) {
      row(name, seconds / steps, step_s);
      sum += seconds / steps;
    }
    row("engine, communication", step_s - sum, step_s);
    row("step", step_s, step_s);
    std::printf("\n%-44s %9s %7s\n", "dearest nodes", "ms/step", "share");
    int left = 20;
    for (auto const& [name, seconds] : sorted(nodes_)) {
      if (left-- > 0) {
        row(name, seconds / steps, step_s);
      }
    }
  }

 private:
  using Times = std::map<std::string, double>;

  static std::vector<std::pair<std::string, double>> sorted(Times const& times) {
    std::vector<std::pair<std::string, double>> list{times.begin(), times.end()};
    std::stable_sort(list.begin(), list.end(),
                     [](auto const& a, auto const& b) { return a.second > b.second; });
    return list;
  }
  static void row(std::string const& name, double seconds, double step_s) {
    std::printf("%-44s %9.3f %6.1f%%\n", name.c_str(), 1e3 * seconds, 100.0 * seconds / step_s);
  }

  bool cpu_ = false;
  Times kinds_;
  Times nodes_;
};

template <class Backend>
struct Profiled : Backend {};

/// f() on the clock.
template <class F>
void timed(std::string const& kind, char const* pass, std::string const& place, F const& f) {
  Stopwatch const watch;
  f();
  Profile& profile = Profile::instance();
  profile.add(kind, pass, place, profile.seconds(watch));
}

/// "Conv2d 3", the last being the kernel's width where the layer has one; and where it stands.
struct Place {
  std::string kind;
  std::string node;
};

template <class L>
Place place_of(OpSetup const& setup) {
  std::string kind = setup.node.name.empty() ? "join" : std::string{setup.node.name};
  if constexpr (requires { L::geometry(setup.node.in).window; }) {
    kind += " " + std::to_string(L::geometry(setup.node.in).window.kernel.width);
  }
  return {kind, to_string(setup.node.path) + " " + kind};
}

}  // namespace tandem::bench

namespace tandem {

template <class L, class Backend>
struct Op<L, bench::Profiled<Backend>> : Op<L, Backend> {
  using Base = Op<L, Backend>;

  template <class... A>
    requires std::is_constructible_v<Base, OpSetup const&, A&...>
  explicit Op(OpSetup const& setup, A&... device)
      : Base{setup, device...}, place{bench::place_of<L>(setup)} {}

  template <class O, class P>
  void forward(O const& o, P const& p) {
    bench::timed(place.kind, "forward", place.node, [&] { Base::forward(o, p); });
  }
  template <class O, class P>
  void input_gradient(O const& o, P const& p) {
    bench::timed(place.kind, "input gradient", place.node, [&] { Base::input_gradient(o, p); });
  }
  template <class O, class P>
  void weight_gradient(O const& o, P const& p) {
    bench::timed(place.kind, "weight gradient", place.node, [&] { Base::weight_gradient(o, p); });
  }
  template <class O, class Device>
    requires requires(Base& base, O const& o, Device& device) { base.pack(o, device); }
  void pack(O const& o, Device& device) {
    bench::timed(place.kind, "packing", place.node, [&] { Base::pack(o, device); });
  }

  bench::Place place;
};

template <class L, class Backend>
struct LossOp<L, bench::Profiled<Backend>> : LossOp<L, Backend> {
  using LossOp<L, Backend>::LossOp;
};

template <class M, class L, class Backend>
struct MetricOp<M, L, bench::Profiled<Backend>> : MetricOp<M, L, Backend> {
  using MetricOp<M, L, Backend>::MetricOp;
};

template <class Backend>
struct Verbs<bench::Profiled<Backend>> : Verbs<Backend> {
  template <class... A>
  static void sum(A&&... a) {
    bench::timed("forks", "sum of gradients", "forks",
                 [&] { Verbs<Backend>::sum(std::forward<A>(a)...); });
  }
  template <class... A>
  static void each(A&&... a) {
    bench::timed("update", "of parameters", "update",
                 [&] { Verbs<Backend>::each(std::forward<A>(a)...); });
  }
};

template <class Backend>
struct Border<bench::Profiled<Backend>> : Border<Backend> {
  template <class... A>
  static void load(A&&... a) {
    bench::timed("batch", "loading", "batch",
                 [&] { Border<Backend>::load(std::forward<A>(a)...); });
  }
};

}  // namespace tandem

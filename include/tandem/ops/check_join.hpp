// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_join: the gradients of a Join's rule against finite differences, in double. For tests of a
/// program's own.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tandem/core/finite.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/graph/network.hpp>
#include <tandem/ops/check_layer.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace detail {

/// A rule with random inputs, and L = Σ r y for a random r, whose gradients are compared.
template <class Rule>
class JoinChecker {
  using Backend = BasicHost<Portable, Fp64>;

 public:
  JoinChecker(std::vector<Shape> const& in, LayerCheckOptions const& options)
      : options_{options},
        in_{in},
        time_{options.time > 0 ? options.time : in[0][0]},
        node_{.edges = static_cast<int>(in.size()), .in = in[0], .out = Rule::output(in)},
        device_{1},
        op_{OpSetup{node_, 1, in_.data(), options.batch, 1}} {
    Pass<host::Device> const pass = this->pass();
    for (Shape const& shape : in_) {
      x_.push_back(random(pass.elements(shape)));
      dx_.emplace_back(x_.back().size(), poison);
    }
    for (std::size_t i = 0; i < in_.size(); ++i) {
      values_.push_back(x_[i].data());
      gradients_.push_back(dx_[i].data());
    }
    weights_ = random(pass.elements(node_.out));
    y_.resize(weights_.size());
    scratch_ = host::Buffer{static_cast<std::size_t>(op_.needs().scratch_bytes)};
    device_.scratch = scratch_.data();
  }

  LayerCheck run() {
    static_cast<void>(objective());
    check_written(y_, "forward leaves an element of y unwritten, or makes it not finite");
    op_.input_gradient(operands(), pass());
    for (std::size_t i = 0; i < in_.size(); ++i) {
      std::string const name = "input " + std::to_string(i);
      check_written(dx_[i], "input_gradient leaves an element of that of " + name +
                                " unwritten, or makes it not finite");
      compare(dx_[i], x_[i], "the gradient of " + name);
    }
    return result_;
  }

 private:
  static constexpr double poison = std::numeric_limits<double>::quiet_NaN();

  std::vector<double> random(std::int64_t n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (double& value : values) {
      value =
          2.0 * double{uniform(philox(options_.seed, RandomUse::user, drawn_++, 0).word[0])} - 1;
    }
    return values;
  }
  [[nodiscard]] Pass<host::Device> pass() {
    return {.device = device_, .batch = options_.batch, .time = time_};
  }
  Operands<double> operands() {
    return {.x = values_.data(), .y = y_.data(), .dy = weights_.data(), .dx = gradients_.data()};
  }

  double objective() {
    y_.assign(y_.size(), poison);
    op_.forward(operands(), pass());
    double sum = 0.0;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      sum += weights_[i] * y_[i];
    }
    return sum;
  }

  void check_written(std::vector<double> const& values, std::string const& problem) {
    for (double const value : values) {
      if (!is_finite(value) && result_.ok()) {
        result_.problem = problem;
      }
    }
  }

  // Central differences of the objective over `variable`, against `computed`.
  void compare(std::vector<double> const& computed, std::vector<double>& variable,
               std::string const& name) {
    auto const stride =
        std::max<std::size_t>(1, variable.size() / static_cast<std::size_t>(options_.elements));
    for (std::size_t i = 0; i < variable.size() && result_.ok(); i += stride) {
      double const middle = variable[i];
      variable[i] = middle + options_.step;
      double const above = objective();
      variable[i] = middle - options_.step;
      double const expected = (above - objective()) / (2.0 * options_.step);
      variable[i] = middle;
      double const error =
          std::abs(computed[i] - expected) / (1.0 + std::abs(computed[i]) + std::abs(expected));
      result_.worst = std::max(result_.worst, error);
      if (!(error <= options_.tolerance)) {
        result_.problem = name + " at element " + std::to_string(i) + " is " +
                          std::to_string(computed[i]) + ", but finite differences give " +
                          std::to_string(expected);
      }
    }
  }

  LayerCheckOptions options_;
  std::vector<Shape> in_;
  int time_;
  Node node_;
  host::Device device_;
  Op<Rule, Backend> op_;
  std::vector<std::vector<double>> x_, dx_;
  std::vector<double const*> values_;
  std::vector<double*> gradients_;
  std::vector<double> weights_, y_;
  host::Buffer scratch_;
  std::uint64_t drawn_ = 0;
  LayerCheck result_;
};

}  // namespace detail

/// Checks the passes of @p Rule on branches that give @p Inputs, such as Image<C, H, W>: every
/// element is written, and each dx is what finite differences of the outputs give.
///
/// Cost: two forward passes an element that is looked at.
template <JoinRule Rule, NetworkInput... Inputs>
  requires(sizeof...(Inputs) >= 2)
LayerCheck check_join(LayerCheckOptions const& options = {}) {
  std::vector<Shape> const in{Inputs::shape...};
  if (!Rule::output(in).valid()) {
    return {.problem = "the rule's output() is no shape for these branches"};
  }
  return detail::JoinChecker<Rule>{in, options}.run();
}

}  // namespace tandem

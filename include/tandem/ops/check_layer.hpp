// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// check_layer: a layer's gradients against finite differences, in double. For tests, the library's
/// and its users'.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <tandem/core/finite.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

/// What check_layer found; `problem` is one sentence, empty if all is well.
struct LayerCheck {
  std::string problem;
  double worst = 0.0;  ///< largest error seen, relative to 1 + |computed| + |expected|

  [[nodiscard]] bool ok() const { return problem.empty(); }
};

struct LayerCheckOptions {
  int batch = 3;
  int time = 0;             ///< rows of each sample of a sequence; 0: as many as there may be
  double step = 1e-5;       ///< of the central differences
  double tolerance = 1e-6;  ///< relative to 1 + |computed| + |expected|
  int elements = 64;        ///< checked of each tensor, spread evenly
  std::uint64_t seed = 1;
};

namespace detail {

/// A layer with random inputs, and L = Σ r y for a random r, whose gradients are compared.
template <class L>
class LayerChecker {
  using Backend = BasicHost<Portable, Fp64>;

 public:
  /// @param limit  of an input of indices: they are in [0, limit)
  LayerChecker(Shape in, int limit, LayerCheckOptions const& options)
      : options_{options},
        time_{options.time > 0 ? options.time : in[0]},
        node_{.kind = NodeKind::layer,
              .needs_gradient = true,
              .edges = 1,
              .in = in,
              .out = L::output(in)},
        list_{parameters_of<L>(in)},
        device_{1},
        op_{OpSetup{node_, 1, &node_.in, options.batch, 1}} {
    Pass<host::Device> const whole = pass(false);
    if constexpr (takes_indices<L>()) {
      for (double const place : random(whole.elements(in), 0.0, 1.0)) {
        indices_.push_back(static_cast<std::int32_t>(place * limit));
      }
    } else {
      x_ = random(whole.elements(in), -1.0, 1.0);
    }
    y_ = std::vector<double>(size(whole.elements(node_.out)));
    weights_ = random(whole.elements(node_.out), -1.0, 1.0);
    for (int p = 0; p < list_.count; ++p) {
      bool const statistic = list_.item[p].role == Role::statistic;
      parameters_.push_back(
          random(list_.item[p].shape.elements(), statistic ? 0.5 : -1.0, statistic ? 1.5 : 1.0));
      gradients_.emplace_back(parameters_.back().size(), poison);
    }
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      parameter_.push_back(parameters_[p].data());
      gradient_.push_back(gradients_[p].data());
    }
    saved_ = Buffer{static_cast<std::size_t>(op_.needs().saved_bytes)};
    scratch_ = Buffer{static_cast<std::size_t>(op_.needs().scratch_bytes)};
    device_.scratch = scratch_.data();
  }

  LayerCheck run() {
    std::vector<double> dx(x_.size(), poison);
    double const* const x = input();
    double* const dx_memory = dx.data();
    static_cast<void>(objective());
    check_written(y_, "forward leaves an element of y unwritten, or makes it not finite");
    Operands<double> const o = operands(&x, &dx_memory);
    if constexpr (!takes_indices<L>()) {
      op_.input_gradient(o, pass(false));
      check_written(dx, "input_gradient leaves an element of dx unwritten, or makes it not finite");
      compare(dx, x_, "x");
    }
    if constexpr (requires { op_.weight_gradient(o, pass(false)); }) {
      if (list_.count > 0) {
        check_parameters(o);
      }
    } else if (list_.count > 0 && result_.ok()) {
      result_.problem =
          "the layer has parameters, but no weight_gradient(call) that takes this call";
    }
    return result_;
  }

 private:
  using Buffer = host::Buffer;
  static constexpr double poison = std::numeric_limits<double>::quiet_NaN();
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  std::vector<double> random(std::int64_t n, double low, double high) {
    std::vector<double> values(size(n));
    for (double& value : values) {
      auto const word = philox(options_.seed, RandomUse::user, drawn_++, 0).word[0];
      value = low + (high - low) * double{uniform(word)};
    }
    return values;
  }

  [[nodiscard]] Pass<host::Device> pass(bool accumulate) {
    return {.device = device_,
            .batch = options_.batch,
            .state = &state_,
            .accumulate = accumulate,
            .time = time_};
  }
  Operands<double> operands(double const* const* x, double* const* dx) {
    return {.x = x,
            .y = y_.data(),
            .dy = weights_.data(),
            .dx = dx,
            .parameter = parameter_.data(),
            .gradient = gradient_.data(),
            .saved = saved_.data()};
  }

  // What an op gets as its input: numbers, or indices that it takes for what they are.
  [[nodiscard]] double const* input() const {
    if constexpr (takes_indices<L>()) {
      return reinterpret_cast<double const*>(indices_.data());
    } else {
      return x_.data();
    }
  }

  double objective() {
    double const* const x = input();
    for (double& y : y_) {
      y = poison;
    }
    op_.forward(operands(&x, nullptr), pass(false));
    double sum = 0.0;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      sum += weights_[i] * y_[i];
    }
    return sum;
  }

  void check_parameters(Operands<double> const& o) {
    if constexpr (!takes_indices<L>()) {
      op_.input_gradient(o, pass(false));  // which may leave something for the weights' gradients
    }
    op_.weight_gradient(o, pass(false));
    std::vector<std::vector<double>> const once = gradients_;
    op_.weight_gradient(o, pass(true));
    for (std::size_t p = 0; p < once.size(); ++p) {
      std::string const name = list_.item[p].name;
      check_written(once[p], "weight_gradient leaves an element of the gradient of " + name +
                                 " unwritten, or makes it not finite");
      for (std::size_t i = 0; i < once[p].size(); ++i) {
        note(gradients_[p][i], 2.0 * once[p][i], "a second, accumulating gradient of " + name, i);
      }
      if (list_.item[p].role == Role::weight) {
        compare(once[p], parameters_[p], name);
      }
    }
  }

  // Central differences of the objective over `variable`, against `computed`.
  void compare(std::vector<double> const& computed, std::vector<double>& variable,
               std::string const& name) {
    auto const stride = std::max<std::size_t>(1, variable.size() / size(options_.elements));
    for (std::size_t i = 0; i < variable.size(); i += stride) {
      double const middle = variable[i];
      variable[i] = middle + options_.step;
      double const above = objective();
      variable[i] = middle - options_.step;
      double const below = objective();
      variable[i] = middle;
      note(computed[i], (above - below) / (2.0 * options_.step), "the gradient of " + name, i);
    }
    static_cast<void>(objective());  // y and saved as they were
  }

  void check_written(std::vector<double> const& values, std::string const& problem) {
    for (double const value : values) {
      if (!is_finite(value) && result_.ok()) {
        result_.problem = problem;
      }
    }
  }

  void note(double computed, double expected, std::string const& what, std::size_t element) {
    double const error =
        std::abs(computed - expected) / (1.0 + std::abs(computed) + std::abs(expected));
    bool const known = is_finite(error);
    result_.worst = known && error <= result_.worst ? result_.worst : error;
    if ((!known || error > options_.tolerance) && result_.ok()) {
      result_.problem = what + " at element " + std::to_string(element) + " is " +
                        std::to_string(computed) + ", but finite differences give " +
                        std::to_string(expected);
    }
  }

  LayerCheckOptions options_;
  int time_;
  StepState state_{.seed = options_.seed};
  Node node_;
  Parameters list_;
  host::Device device_;
  Op<L, Backend> op_;
  std::uint64_t drawn_ = 0;
  std::vector<double> x_;
  std::vector<std::int32_t> indices_;
  std::vector<double> y_;
  std::vector<double> weights_;
  std::vector<std::vector<double>> parameters_;
  std::vector<std::vector<double>> gradients_;
  std::vector<double*> parameter_;
  std::vector<double*> gradient_;
  Buffer saved_;
  Buffer scratch_;
  LayerCheck result_;
};

}  // namespace detail

/// Checks layer L on random inputs of type @p Input: forward writes all of y, gradients of x and of
/// every weight equal central differences, and gradients accumulate when asked to.
///
///   REQUIRE(check_layer<MyLayer, Image<3, 8, 8>>().ok());
///
/// Of a layer that takes indices, on Tokens, the weights' gradients only.
///
/// Cost: two forward passes an element checked. A kink (as ReLU's) hit by chance is an error that
/// another seed does not have.
template <Layer L, class Input>
LayerCheck check_layer(LayerCheckOptions const& options = {}) {
  int limit = 0;
  if constexpr (requires { Input::limit; }) {
    limit = Input::limit;
  }
  return detail::LayerChecker<L>{Input::shape, limit, options}.run();
}

}  // namespace tandem

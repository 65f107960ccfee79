// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the tests of the channels-last ops share: images in memory with canaries around and between
/// their channels, and one node's passes on either Host backend.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

#include "../kernels/support.hpp"

namespace tandem::test {

/// @p n numbers in [-1, 1) that T holds exactly.
template <class T>
std::vector<float> exact(std::int64_t n, std::uint64_t seed) {
  auto x = random<float>(n, seed);
  for (float& value : x) {
    value = static_cast<float>(static_cast<T>(value));
  }
  return x;
}

/// As T would store them.
template <class T>
std::vector<float> rounded(std::vector<float> x) {
  for (float& value : x) {
    value = static_cast<float>(static_cast<T>(value));
  }
  return x;
}

/// (B, C, pixels) in memory as (B, pixels, stride), of which C channels from `first` on are it.
/// What stands elsewhere must never be written.
template <class T>
class Stored {
 public:
  Stored(int batch, int channels, std::int64_t pixels, int stride, int first)
      : batch_{batch}, channels_{channels}, pixels_{pixels}, stride_{stride}, first_{first} {
    memory_.assign(static_cast<std::size_t>(batch * pixels * stride + 2 * margin), canary());
  }

  [[nodiscard]] T* data() { return memory_.data() + margin + first_; }

  void set(std::vector<float> const& x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      memory_[place(i)] = static_cast<T>(x[i]);
    }
  }
  [[nodiscard]] std::vector<float> get() const {
    std::vector<float> x(static_cast<std::size_t>(batch_ * channels_ * pixels_));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(memory_[place(i)]);
    }
    return x;
  }

  /// Whether nothing but the first @p samples was written.
  [[nodiscard]] bool canaries_live(int samples) const {
    std::vector<bool> own(memory_.size());
    for (std::int64_t i = 0; i < samples * channels_ * pixels_; ++i) {
      own[place(static_cast<std::size_t>(i))] = true;
    }
    for (std::size_t i = 0; i < own.size(); ++i) {
      T const expected = canary();
      if (!own[i] && std::memcmp(&memory_[i], &expected, sizeof(T)) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr int margin = 80;
  static T canary() { return static_cast<T>(-7.125F); }

  [[nodiscard]] std::size_t place(std::size_t i) const {
    auto const pixels = static_cast<std::size_t>(pixels_);
    auto const channels = static_cast<std::size_t>(channels_);
    std::size_t const p = i % pixels;
    std::size_t const c = i / pixels % channels;
    std::size_t const s = i / pixels / channels;
    return (s * pixels + p) * static_cast<std::size_t>(stride_) + c +
           static_cast<std::size_t>(first_ + margin);
  }

  int batch_;
  int channels_;
  std::int64_t pixels_;
  int stride_;
  int first_;
  std::vector<T> memory_;
};

template <class T>
Stored<T> stored(int batch, Shape shape, int stride = 0, int first = 0) {
  return {batch, shape[0], shape.elements() / shape[0], stride > 0 ? stride : shape[0], first};
}

/// One node and what its passes are given, in user order.
struct Case {
  std::vector<Shape> inputs;
  Shape out;
  int samples = 2;  ///< of a microbatch; the op is prepared for one more
  int x_gap = 0;    ///< channels of a stored pixel that are not the op's
  int y_gap = 0;
  int index = 3;
  bool training = true;
  bool in_place = false;  ///< y is x and dx is dy
  StepState state{};
  std::int64_t first_sample = 5;
  int nan_every = 0;  ///< so many elements of x one is a NaN; 0: none

  [[nodiscard]] OpSetup setup() const {
    return {.node = {.edges = static_cast<int>(inputs.size()), .in = inputs[0], .out = out},
            .index = index,
            .inputs = inputs.data(),
            .batch = samples + 1,
            .x_stride = inputs[0][0] + x_gap,
            .y_stride = out[0] + y_gap};
  }
  template <class T>
  [[nodiscard]] std::vector<float> x(std::size_t i) const {
    auto values = exact<T>(samples * inputs[i].elements(), i + 1);
    for (std::size_t at = 0; nan_every > 0 && at < values.size(); ++at) {
      values[at] = at % static_cast<std::size_t>(nan_every) == 5 ? nan<float> : values[at];
    }
    return values;
  }
  template <class T>
  [[nodiscard]] std::vector<float> dy() const {
    return exact<T>(samples * out.elements(), 77);
  }
};

/// y and the gradients of the inputs, one behind another, in user order; those of parameters.
struct Result {
  std::vector<float> y;
  std::vector<float> dx;
  std::vector<float> gradients = {};
};

/// Of a layer that has any.
struct ParameterMemory {
  std::vector<std::vector<float>> value, gradient;
  std::vector<float*> at, gradient_at;

  explicit ParameterMemory(Parameters const& list) {
    for (int p = 0; p < list.count; ++p) {
      std::int64_t const n = list.item[p].shape.elements();
      value.push_back(random<float>(n, 200 + static_cast<std::uint64_t>(p)));
      gradient.emplace_back(value.back().size(), nan<float>);
    }
    for (std::size_t p = 0; p < value.size(); ++p) {
      at.push_back(value[p].data());
      gradient_at.push_back(gradient[p].data());
    }
  }
  [[nodiscard]] std::vector<float> gradients() const {
    std::vector<float> all;
    for (auto const& each : gradient) {
      all.insert(all.end(), each.begin(), each.end());
    }
    return all;
  }
};

template <class L>
ParameterMemory parameters_for(Case const& c) {
  if constexpr (requires { L::parameters(c.inputs[0]); }) {
    return ParameterMemory{L::parameters(c.inputs[0])};
  } else {
    return ParameterMemory{{}};
  }
}

template <class O, class Op, class Device>
void run_passes(Op& op, O const& operands, Pass<Device> const& pass) {
  op.forward(operands, pass);
  if constexpr (requires { op.input_gradient(operands, pass); }) {
    op.input_gradient(operands, pass);
  }
  if constexpr (requires { op.weight_gradient(operands, pass); }) {
    op.weight_gradient(operands, pass);
  }
}

/// What the portable op computes from numbers that T holds exactly.
template <class L, class T = float>
Result portable(Case const& c) {
  host::Device device{1};
  Op<L, BasicHost<Portable, Fp32>> op{c.setup()};
  host::Buffer const scratch{static_cast<std::size_t>(op.needs().scratch_bytes)};
  device.scratch = scratch.data();
  std::vector<std::vector<float>> x, dx;
  std::vector<float const*> x_pointers;
  std::vector<float*> dx_pointers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    x.push_back(c.x<T>(i));
    dx.emplace_back(x.back().size());
  }
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    x_pointers.push_back(x[i].data());
    dx_pointers.push_back(dx[i].data());
  }
  auto const dy = c.dy<T>();
  Result result{.y = std::vector<float>(dy.size()), .dx = {}};
  std::vector<std::byte> saved(static_cast<std::size_t>(op.needs().saved_bytes));
  Pass<host::Device> const pass{.device = device,
                                .batch = c.samples,
                                .first_sample = c.first_sample,
                                .state = &c.state,
                                .training = c.training};
  ParameterMemory parameters = parameters_for<L>(c);
  Operands<float> const operands{.x = x_pointers.data(),
                                 .y = result.y.data(),
                                 .dy = dy.data(),
                                 .dx = dx_pointers.data(),
                                 .parameter = parameters.at.data(),
                                 .gradient = parameters.gradient_at.data(),
                                 .saved = saved.data()};
  run_passes(op, operands, pass);
  for (auto const& part : dx) {
    result.dx.insert(result.dx.end(), part.begin(), part.end());
  }
  result.gradients = parameters.gradients();
  return result;
}

/// What the channels-last op computes; checks that it writes nothing else.
template <class L, class Precision>
Result channels_last(Case const& c, int threads = 1) {
  using T = typename Precision::Scalar;
  host::Device device{threads};
  Op<L, BasicHost<OneDnn, Precision>> op{c.setup()};
  host::Buffer const scratch{static_cast<std::size_t>(op.needs().scratch_bytes)};
  host::Buffer const packed{static_cast<std::size_t>(op.needs().packed_bytes)};
  device.scratch = scratch.data();
  int const batch = c.samples + 1;
  std::vector<Stored<T>> x, dx;
  std::vector<T const*> x_pointers;
  std::vector<T*> dx_pointers;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    int const stride = c.inputs[i][0] + c.x_gap;
    x.push_back(stored<T>(batch, c.inputs[i], stride, c.x_gap / 2));
    x.back().set(c.x<T>(i));
    dx.push_back(stored<T>(batch, c.inputs[i], stride, c.x_gap / 2));
  }
  auto y = stored<T>(batch, c.out, c.out[0] + c.y_gap, c.y_gap / 2);
  auto dy = y;
  dy.set(c.dy<T>());
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    x_pointers.push_back(x[i].data());
    dx_pointers.push_back(c.in_place ? dy.data() : dx[i].data());
  }
  auto const bytes = static_cast<std::size_t>(op.needs().saved_bytes);
  std::vector<std::byte> saved(bytes + 64, std::byte{0x5A});
  Pass<host::Device> const pass{.device = device,
                                .batch = c.samples,
                                .first_sample = c.first_sample,
                                .state = &c.state,
                                .training = c.training};
  ParameterMemory parameters = parameters_for<L>(c);
  Operands<T, float> const operands{.x = x_pointers.data(),
                                    .y = c.in_place ? x[0].data() : y.data(),
                                    .dy = dy.data(),
                                    .dx = dx_pointers.data(),
                                    .parameter = parameters.at.data(),
                                    .gradient = parameters.gradient_at.data(),
                                    .saved = saved.data(),
                                    .packed = packed.data()};
  if constexpr (requires { op.pack(operands, device); }) {
    op.pack(operands, device);
  }
  run_passes(op, operands, pass);
  auto const& written = c.in_place ? x[0] : y;
  CHECK(written.canaries_live(c.samples));
  for (std::size_t i = bytes; i < saved.size(); ++i) {
    CHECK(saved[i] == std::byte{0x5A});
  }
  auto const own = [&](std::vector<float> all, Shape shape) {
    all.resize(static_cast<std::size_t>(c.samples * shape.elements()));
    return all;
  };
  Result result{.y = own(written.get(), c.out), .dx = {}};
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    auto const& gradient = c.in_place ? dy : dx[i];
    CHECK(gradient.canaries_live(c.samples));
    auto const part = own(gradient.get(), c.inputs[i]);
    result.dx.insert(result.dx.end(), part.begin(), part.end());
  }
  result.gradients = parameters.gradients();
  return result;
}

/// The same with one thread and with three, which must give the same bits.
template <class L, class Precision>
Result on_threads(Case const& c) {
  Result const one = channels_last<L, Precision>(c, 1);
  Result const three = channels_last<L, Precision>(c, 3);
  CHECK(same_bits(one.y, three.y));
  CHECK(same_bits(one.dx, three.dx));
  CHECK(same_bits(one.gradients, three.gradients));
  return one;
}

/// Checks that an op gives the portable op's bits, rounded once to the type of activations.
template <class L, class Precision>
void check_same(Case const& c) {
  using T = typename Precision::Scalar;
  Result const expected = portable<L, T>(c);
  Result const result = on_threads<L, Precision>(c);
  CHECK(same_bits(result.y, rounded<T>(expected.y)));
  CHECK(same_bits(result.dx, rounded<T>(expected.dx)));
}

/// Checks |a - b| <= relative |b| + absolute for all elements of y and of dx.
template <class L, class Precision>
void check_near(Case const& c, double relative, double absolute) {
  using T = typename Precision::Scalar;
  Result const expected = portable<L, T>(c);
  Result const result = on_threads<L, Precision>(c);
  auto const near = [=](std::vector<float> const& a, std::vector<float> const& b) {
    std::vector<double> exact_b(b.begin(), b.end()), bound;
    for (float const value : b) {
      bound.push_back(relative * std::abs(static_cast<double>(value)) + absolute);
    }
    return within(a, exact_b, bound);
  };
  CHECK(near(result.y, expected.y));
  CHECK(near(result.dx, expected.dx));
  CHECK(near(result.gradients, expected.gradients));
}

}  // namespace tandem::test

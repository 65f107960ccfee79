// SPDX-License-Identifier: Apache-2.0
// Additive attention against a slow reference and finite differences, with lengths, of two times.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <unit/golden/golden.hpp>

namespace tandem {
namespace bahdanau_test {

using Double = BasicHost<Portable, Fp64>;

constexpr int batch = 3;
constexpr int hidden = 5;
constexpr int queries = 4;
constexpr int keys = 6;
constexpr int query_size = 3;
constexpr int memory_size = 7;
using Layer = Bahdanau<hidden, InitUniform<1, 10>>;

template <class T>
std::vector<T> random(std::int64_t n, std::uint64_t seed) {
  std::vector<T> values(static_cast<std::size_t>(n));
  std::uint64_t i = 0;
  for (T& value : values) {
    value = static_cast<T>(static_cast<float>(
        BFloat16{2.0F * uniform(philox(seed, RandomUse::user, i++, 0).word[0]) - 1.0F}));
  }
  return values;
}

/// One op with inputs of the longest times but for @p q and @p k, which a step may have. All
/// numbers are such as BFloat16 holds.
template <class T,
          class Backend = BasicHost<Portable, std::conditional_t<sizeof(T) == 8, Fp64, Fp32>>>
struct Setting {
  using P = typename Backend::Master;
  static Shape of_clock(Shape shape, int clock) {
    shape.clock = static_cast<std::int8_t>(clock);
    return shape;
  }
  Shape in[2] = {of_clock(timed_shape(queries, query_size), 1), timed_shape(keys, memory_size)};
  int q = queries;
  int k = keys;
  std::vector<std::int32_t> lengths{keys, 2, 5};
  Parameters list = Layer::parameters(in[0], in[1]);
  Node node{.edges = 2, .in = in[0], .out = Layer::output(in[0], in[1])};
  host::Device device{2};
  Op<Layer, Backend> op{OpSetup{.node = node, .inputs = in, .batch = batch, .threads = 2}};
  std::vector<T> x[2] = {random<T>(batch * q * query_size, 1), random<T>(batch* k* memory_size, 2)};
  std::vector<T> dx[2] = {std::vector<T>(x[0].size()), std::vector<T>(x[1].size())};
  std::vector<T> weights = random<T>(batch * q * memory_size, 3);
  std::vector<T> y = std::vector<T>(weights.size());
  std::vector<std::vector<P>> parameter{}, gradient{};
  std::vector<P*> parameters{}, gradients{};
  host::Buffer saved{static_cast<std::size_t>(op.needs().saved_bytes)};
  host::Buffer scratch{static_cast<std::size_t>(op.needs().scratch_bytes)};
  host::Buffer packed{static_cast<std::size_t>(op.needs().packed_bytes)};

  explicit Setting(int q_time = queries, int k_time = keys) : q{q_time}, k{k_time} {
    for (int p = 0; p < list.count; ++p) {
      parameter.push_back(random<P>(list.item[p].shape.elements(), 10 + std::uint64_t(p)));
      gradient.emplace_back(parameter.back().size());
    }
    for (std::size_t p = 0; p < parameter.size(); ++p) {
      parameters.push_back(parameter[p].data());
      gradients.push_back(gradient[p].data());
    }
    device.scratch = scratch.data();
  }

  [[nodiscard]] Pass<host::Device> pass(bool accumulate = false) {
    return {.device = device,
            .batch = batch,
            .accumulate = accumulate,
            .time = q,
            .other_clock = {k, lengths.data()}};
  }
  template <class F>
  void with(F const& f) {
    T const* const values[] = {x[0].data(), x[1].data()};
    T* const given[] = {dx[0].data(), dx[1].data()};
    f(Operands<T, P>{.x = values,
                     .y = y.data(),
                     .dy = weights.data(),
                     .dx = given,
                     .parameter = parameters.data(),
                     .gradient = gradients.data(),
                     .saved = saved.data(),
                     .packed = packed.data()});
  }
  T objective() {
    with([&](Operands<T> const& o) { op.forward(o, pass()); });
    T sum{0};
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum += weights[i] * y[i];
    }
    return sum;
  }
};

/// Of row (b, t), what it takes of each key, by the formula.
std::vector<double> shares(Setting<double> const& s, int b, int t) {
  auto const at = [](std::vector<double> const& v, int i) {
    return v[static_cast<std::size_t>(i)];
  };
  double norm = 0.0;
  for (double const v : s.parameter[2]) {
    norm += v * v;
  }
  double total = 0.0;
  std::vector<double> list;
  for (int j = 0; j < std::min(s.k, int{s.lengths[static_cast<std::size_t>(b)]}); ++j) {
    double score = 0.0;
    for (int h = 0; h < hidden; ++h) {
      double inner = at(s.parameter[3], h);
      for (int i = 0; i < query_size; ++i) {
        inner +=
            at(s.parameter[0], h * query_size + i) * at(s.x[0], (b * s.q + t) * query_size + i);
      }
      for (int i = 0; i < memory_size; ++i) {
        inner +=
            at(s.parameter[1], h * memory_size + i) * at(s.x[1], (b * s.k + j) * memory_size + i);
      }
      score += s.parameter[4][0] / std::sqrt(norm) * at(s.parameter[2], h) * std::tanh(inner);
    }
    list.push_back(std::exp(score));
    total += list.back();
  }
  for (double& each : list) {
    each /= total;
  }
  return list;
}

/// Element (b, t, c) of the output.
double expected(Setting<double> const& s, int b, int t, int c) {
  std::vector<double> const list = shares(s, b, t);
  double sum = 0.0;
  for (std::size_t j = 0; j < list.size(); ++j) {
    auto const row = static_cast<std::size_t>(b * s.k) + j;
    sum += list[j] * s.x[1][row * memory_size + static_cast<std::size_t>(c)];
  }
  return sum;
}

TEST_CASE("the output is that of the formula, of all rows and of a shorter step") {
  for (int const shorter : {0, 1}) {
    Setting<double> s{queries - shorter, keys - shorter};
    static_cast<void>(s.objective());
    double worst = 0.0;
    for (int b = 0; b < batch; ++b) {
      for (int t = 0; t < s.q; ++t) {
        for (int c = 0; c < memory_size; ++c) {
          std::size_t const i = static_cast<std::size_t>((b * s.q + t) * memory_size + c);
          worst = std::max(worst, std::fabs(s.y[i] - expected(s, b, t, c)));
        }
      }
    }
    CHECK(worst <= 1e-14);
  }
}

TEST_CASE("rows that come one by one, after the keys came with the first, give the same") {
  Setting<double> s{queries, keys - 1};
  std::int64_t const each = s.op.needs().carried_bytes;
  CHECK(each % 8 == 0);
  host::Buffer carry{static_cast<std::size_t>(batch * each)};
  std::vector<float> coverage(batch * keys, -1.0F);
  std::vector<double> taken(batch * keys);
  double worst = 0.0;
  for (int t = 0; t < s.q; ++t) {
    std::vector<double> row(batch * query_size);
    std::vector<double> y(batch * memory_size);
    for (int b = 0; b < batch; ++b) {
      std::copy_n(s.x[0].begin() + (b * s.q + t) * query_size, query_size,
                  row.begin() + b * query_size);
    }
    Pass<host::Device> pass = s.pass();
    pass.training = false;
    pass.time = 1;
    pass.sequence.position = t;
    pass.sequence.coverage = coverage.data();
    pass.other_clock.time = t == 0 ? s.k : 0;
    pass.other_clock.lengths = t == 0 ? s.lengths.data() : nullptr;
    s.with([&](Operands<double> o) {
      double const* const values[] = {row.data(), t == 0 ? s.x[1].data() : nullptr};
      o.x = values;
      o.y = y.data();
      o.sequence.carry = carry.data();
      s.op.forward(o, pass);
    });
    for (int b = 0; b < batch; ++b) {
      for (int c = 0; c < memory_size; ++c) {
        worst = std::max(worst, std::fabs(y[static_cast<std::size_t>(b * memory_size + c)] -
                                          expected(s, b, t, c)));
      }
      std::vector<double> const list = shares(s, b, t);
      for (std::size_t j = 0; j < list.size(); ++j) {
        taken[static_cast<std::size_t>(b * keys) + j] += list[j];
      }
    }
    for (std::size_t i = 0; i < taken.size(); ++i) {
      worst = std::max(worst, std::fabs(double{coverage[i]} - taken[i]) * 1e-7);
    }
  }
  CHECK(worst <= 1e-13);
}

TEST_CASE("gradients of both inputs and all parameters equal finite differences") {
  Setting<double> s;
  static_cast<void>(s.objective());
  s.with([&](Operands<double> const& o) {
    s.op.input_gradient(o, s.pass());
    s.op.weight_gradient(o, s.pass());
    s.op.weight_gradient(o, s.pass(true));  // twice the gradient
  });
  double worst = 0.0;
  auto const check = [&](std::vector<double>& variable, std::vector<double> const& computed,
                         double times) {
    for (std::size_t i = 0; i < variable.size(); ++i) {
      double const middle = variable[i];
      variable[i] = middle + 1e-5;
      double const above = s.objective();
      variable[i] = middle - 1e-5;
      double const below = s.objective();
      variable[i] = middle;
      worst = std::max(worst, std::fabs(computed[i] / times - (above - below) / 2e-5));
    }
  };
  for (int i = 0; i < 2; ++i) {
    auto const computed = s.dx[i];
    check(s.x[i], computed, 1.0);
  }
  for (std::size_t p = 0; p < s.parameter.size(); ++p) {
    auto const computed = s.gradient[p];
    check(s.parameter[p], computed, 2.0);
  }
  CHECK(worst <= 1e-8);
}

TEST_CASE("PyTorch's output and gradients") {
  test::Golden const golden{"bahdanau"};
  Setting<double> s;
  s.x[0] = golden.values("query");
  s.x[1] = golden.values("memory");
  s.lengths = golden.values<std::int32_t>("lengths");
  s.weights = golden.values("weights");
  for (int p = 0; p < s.list.count; ++p) {
    auto const value = golden.values(s.list.item[p].name);
    auto& own = s.parameter[static_cast<std::size_t>(p)];
    REQUIRE(value.size() == own.size());
    std::copy(value.begin(), value.end(), own.begin());
  }
  static_cast<void>(s.objective());
  s.with([&](Operands<double> const& o) {
    s.op.input_gradient(o, s.pass());
    s.op.weight_gradient(o, s.pass());
  });
  auto const check = [&](std::string const& name, std::vector<double> const& own) {
    INFO(name);
    auto const other = golden.values(name);
    REQUIRE(own.size() == other.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      worst = std::max(worst, std::fabs(own[i] - other[i]));
    }
    CHECK(worst <= 1e-14);
  };
  check("output", s.y);
  check("gradient.query", s.dx[0]);
  check("gradient.memory", s.dx[1]);
  for (int p = 0; p < s.list.count; ++p) {
    check("gradient." + std::string{s.list.item[p].name}, s.gradient[static_cast<std::size_t>(p)]);
  }
}

TEST_CASE("floats are as near as their rounding allows") {
  Setting<double> exact;
  Setting<float> s;
  static_cast<void>(exact.objective());
  static_cast<void>(s.objective());
  double worst = 0.0;
  for (std::size_t i = 0; i < s.y.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(s.y[i]) - exact.y[i]));
  }
  CHECK(worst <= 1e-6);
}

#if defined(TANDEM_ONEDNN)
/// The largest error of @p values, of all magnitudes the largest being 1.
template <class T>
double error(std::vector<T> const& values, std::vector<double> const& exact) {
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double const each = std::fabs(static_cast<double>(static_cast<float>(values[i])) - exact[i]);
    worst = each <= worst ? worst : each;
    largest = std::max(largest, std::fabs(exact[i]));
  }
  return worst / largest;
}

/// Against double. Between the inputs and dx of the second stand six roundings: q and k, dk, the
/// product of dk, its sum with what the values gave, and y, which others have instead. No sum here
/// magnifies what it is given (norms are about 1, tanh and softmax flatten), so each moves a result
/// by u of the largest at most: 2⁻⁹ in bf16, 2⁻²⁴ in fp32, whose sums of ten terms lie within.
template <class T, class Backend>
void near_double(double bound) {
  Setting<double> exact{queries - 1, keys};
  Setting<T, Backend> s{queries - 1, keys};
  static_cast<void>(exact.objective());
  exact.with([&](Operands<double> const& o) {
    exact.op.input_gradient(o, exact.pass());
    exact.op.weight_gradient(o, exact.pass());
  });
  s.with([&](auto const& o) {
    s.op.pack(o, s.device);
    s.op.forward(o, s.pass());
    s.op.input_gradient(o, s.pass());
    s.op.weight_gradient(o, s.pass());
  });
  CHECK(error(s.y, exact.y) <= bound);
  CHECK(error(s.dx[0], exact.dx[0]) <= bound);
  CHECK(error(s.dx[1], exact.dx[1]) <= bound);
  for (std::size_t p = 0; p < s.parameter.size(); ++p) {
    INFO(s.list.item[p].name);
    CHECK(error(s.gradient[p], exact.gradient[p]) <= bound);
  }
}

TEST_CASE("by oneDNN, in fp32 and in bf16, it is the portable one") {
  near_double<float, BasicHost<OneDnn, Fp32>>(6 * 0x1p-24);
  if (onednn::detail::has_avx512()) {
    near_double<BFloat16, BasicHost<OneDnn, Bf16>>(6 * 0x1p-9);
  }
}
#endif

struct Query;
struct Memory;
struct Attends : Bahdanau<6> {};
struct Net
    : Network<
          Inputs<Tokens<7, 11>, Tokens<5, 9>>,
          Sequential<Sequential<Input<0>, Embedding<11, 8>, Linear<8>>, Tanh, Let<Memory>,
                     Sequential<Input<1>, Embedding<9, 6>>, Let<Query>,
                     Join<Attends, Use<Query>, Use<Memory>>, Tanh, Concat<Use<Query>, Sequential<>>,
                     Linear<6>, Join<Bahdanau<4>, Sequential<>, Use<Memory>>, LastRow, Linear<3>>> {
};
static_assert(graph<Net>.parameter_elements() == 11 * 8 + 8 * 8 + 8 + 9 * 6 + 6 * (6 + 8) + 2 * 6 +
                                                     1 + 6 * 14 + 6 + 4 * (6 + 8) + 2 * 4 + 1 +
                                                     3 * 8 + 3);

struct Pairs {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 24; }
  [[nodiscard]] Shape shape() const { return tokens_shape(7); }
  [[nodiscard]] Shape second_shape() const { return tokens_shape(5); }
  [[nodiscard]] int targets() const { return 1; }
  [[nodiscard]] int length(std::int64_t index) const { return 1 + static_cast<int>(index % 6); }
  [[nodiscard]] int second_length(std::int64_t index) const {
    return 1 + static_cast<int>(index * 3 % 4);
  }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> second,
            std::span<std::int32_t> y) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      x[t] = static_cast<std::int32_t>((index + static_cast<std::int64_t>(t) * 3) % 11);
    }
    for (std::size_t t = 0; t < second.size(); ++t) {
      second[t] = static_cast<std::int32_t>((index * 2 + static_cast<std::int64_t>(t)) % 9);
    }
    y[0] = static_cast<std::int32_t>((x[0] + second[0]) % 3);
  }
};

template <class S, class Backend>
std::vector<double> trained() {
  test::Watchdog const watchdog{"attention to another input, stages away"};
  Trainer<Net, S, Backend> trainer{{.batch = 8,
                                    .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
                                    .seed = 3,
                                    .threads_per_device = 1}};
  std::vector<double> all;
  for (Epoch const epoch : epochs(2)) {
    all.push_back(trainer.train(Pairs{}, epoch).loss);
    all.push_back(trainer.evaluate(Pairs{}).loss);
  }
  for (auto const& p : trainer.parameters()) {
    all.insert(all.end(), p.value.begin(), p.value.end());
  }
  return all;
}

TEST_CASE("attention to another input gives the bits of one device where the network is cut") {
  auto const one = trained<SingleDevice<Microbatches<2>, Reproducible<>>, Host>();
  using Pipe = Pipeline<OneFOneB, 2, Split<2>, Split<2>, Split<3>, Split<3>, Reproducible<>>;
  CHECK(trained<Pipe, Host>() == one);
  using Apart = Pipeline<ZeroBubbleH1, 2, Split<2>, Split<4>, Split<4>, Reproducible<>>;
  CHECK(trained<Apart, Host>() == one);
}

}  // namespace bahdanau_test
}  // namespace tandem

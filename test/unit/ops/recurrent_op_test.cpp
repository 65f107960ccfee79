// SPDX-License-Identifier: Apache-2.0
// Lstm and Gru against plain loops, one number at a time, in double.
#include <tandem/ops/host/recurrent.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/layers/recurrent.hpp>
#if defined(TANDEM_ONEDNN)
#include <tandem/ops/onednn/recurrent.hpp>
#endif

#include "../kernels/support.hpp"
#include "sequence_op.hpp"

namespace recurrent_op_test {

using namespace tandem;
using test::Numbers;
using test::OpTask;

using Double = BasicHost<Portable, Fp64>;
using Small = Lstm<5>;
using Projected = Lstm<5, OneBias, Projection<3>, ForgetBias<1>, Bidirectional>;
using SmallGru = Gru<4>;
using WideGru = Gru<20, OneBias, Bidirectional>;

constexpr Shape rows = timed_shape(7, 6);

static_assert(Layer<Small> && Layer<Projected> && Layer<SmallGru>);
static_assert(Small::output(rows) == timed_shape(7, 5));
static_assert(Projected::output(rows) == timed_shape(7, 6));
static_assert(Small::fault(rows) == Fault::none && Small::fault(tokens_shape(7)) != Fault::none);
static_assert(Small::fault(vector_shape(7)) == Fault::not_timed);
static_assert(Small::macs(rows) == 7 * 4 * 5 * (6 + 5));
static_assert(Projected::macs(rows) == 2 * 7 * (4 * 5 * (6 + 3) + 3 * 5));
static_assert(SmallGru::macs(rows) == 7 * 3 * 4 * (6 + 4));
static_assert(LstmOption<Projection<2>> && !GruOption<Projection<2>> && !LstmOption<int>);

/// One direction's numbers of a sample, (time, in), in the order in which they come.
struct Cell {
  detail::RecurrentOptions const& o;
  Numbers const* weight;  // the first of this direction's
  int inputs;
  Numbers h = Numbers(static_cast<std::size_t>(o.handed()));
  Numbers c = Numbers(static_cast<std::size_t>(o.hidden));

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  [[nodiscard]] double product(Numbers const& w, Numbers const& with, int row) const {
    double sum = 0;
    for (std::size_t k = 0; k < with.size(); ++k) {
      sum += w[static_cast<std::size_t>(row) * with.size() + k] * with[k];
    }
    return sum;
  }
  [[nodiscard]] double bias(int which, int row) const {
    return which < o.biases ? weight[2 + which][static_cast<std::size_t>(row)] : 0;
  }

  void step(Numbers const& x) {
    Numbers next(static_cast<std::size_t>(o.hidden));
    for (int j = 0; j < o.hidden; ++j) {
      auto const at = static_cast<std::size_t>(j);
      auto const of_x = [&](int gate) {
        return product(weight[0], x, gate * o.hidden + j) + bias(0, gate * o.hidden + j);
      };
      auto const of_h = [&](int gate) {
        return product(weight[1], h, gate * o.hidden + j) + bias(1, gate * o.hidden + j);
      };
      if (o.gates == 4) {
        c[at] = sigmoid(of_x(1) + of_h(1) + o.forget_bias) * c[at] +
                sigmoid(of_x(0) + of_h(0)) * std::tanh(of_x(2) + of_h(2));
        next[at] = sigmoid(of_x(3) + of_h(3)) * std::tanh(c[at]);
      } else {
        double const z = sigmoid(of_x(1) + of_h(1));
        double const r = sigmoid(of_x(0) + of_h(0));
        next[at] = (1 - z) * std::tanh(of_x(2) + r * of_h(2)) + z * h[at];
      }
    }
    h = next;
    if (o.projection > 0) {
      h.assign(static_cast<std::size_t>(o.projection), 0);
      for (int i = 0; i < o.projection; ++i) {
        h[static_cast<std::size_t>(i)] = product(weight[2 + o.biases], next, i);
      }
    }
  }
};

/// What a sample has left.
struct State {
  Numbers h, c;
};

/// @param states  of each sample, of the first direction: what it begins with, and then what it
///                leaves; null: 0
template <class L>
Numbers reference(Shape in, OpTask const& task, Numbers const& x,
                  std::vector<Numbers> const& weights, std::vector<State>* states = nullptr) {
  constexpr detail::RecurrentOptions o = L::options;
  Numbers y(static_cast<std::size_t>(task.batch * task.time * o.out()));
  for (int b = 0; b < task.batch; ++b) {
    int const length = task.lengths.empty() ? task.time : task.lengths[static_cast<std::size_t>(b)];
    for (int d = 0; d < o.directions; ++d) {
      Cell cell{o, &weights[static_cast<std::size_t>(d * o.parameters())], in[1]};
      if (states != nullptr && !(*states)[static_cast<std::size_t>(b)].h.empty()) {
        cell.h = (*states)[static_cast<std::size_t>(b)].h;
        cell.c = (*states)[static_cast<std::size_t>(b)].c;
      }
      for (int i = 0; i < length; ++i) {
        int const t = d == 0 ? i : length - 1 - i;
        auto const row = x.begin() + (b * task.time + t) * in[1];
        cell.step({row, row + in[1]});
        std::copy(cell.h.begin(), cell.h.end(),
                  y.begin() + (b * task.time + t) * o.out() + d * o.handed());
      }
      if (states != nullptr) {
        (*states)[static_cast<std::size_t>(b)] = {cell.h, cell.c};
      }
    }
  }
  return y;
}

template <class L>
struct Case {
  Numbers x, dy;
  std::vector<Numbers> weights{};

  Case(Shape in, OpTask const& task)
      : x{test::random<double>(task.batch * in.elements(task.time), 1)},
        dy{test::random<double>(task.batch * L::output(in).elements(task.time), 2)} {
    Parameters const list = L::parameters(in);
    for (int p = 0; p < list.count; ++p) {
      weights.push_back(
          test::random<double>(list.item[p].shape.elements(), 3 + static_cast<std::uint64_t>(p)));
    }
  }
};

template <class L, class Backend = Double>
test::OpResult run(Shape in, OpTask const& task, Case<L> const& c) {
  return test::run_op<L, Backend>(in, task, c.x, c.weights, c.dy);
}

/// Outputs, and each gradient by differences of the plain loops' outputs.
template <class L>
void is_the_reference() {
  OpTask task{.batch = 3, .time = 5, .lengths = {5, 2, 4}};
  Case<L> c{rows, task};
  auto const found = run<L>(rows, task, c);
  Numbers const y = reference<L>(rows, task, c.x, c.weights);
  CHECK(test::within(found.y, y, test::constant(y.size(), 64 * test::eps<double>)));
  auto const objective = [&] { return test::dot(reference<L>(rows, task, c.x, c.weights), c.dy); };
  auto const of = [&](Numbers& variable) {
    return test::finite_differences(variable, [&](Numbers const& moved) {
      Numbers const old = variable;
      variable = moved;
      double const result = objective();
      variable = old;
      return result;
    });
  };
  CHECK(test::within(found.dx, of(c.x), test::constant(c.x.size(), 1e-8)));
  for (std::size_t p = 0; p < c.weights.size(); ++p) {
    CHECK(test::within(found.gradients[p], of(c.weights[p]),
                       test::constant(c.weights[p].size(), 1e-8)));
  }
  task.twice = true;
  task.wants_input_gradient = false;
  task.twice = false;
  auto const alone = run<L>(rows, task, c);  // nobody wants dx: weight_gradient goes through time
  for (std::size_t p = 0; p < c.weights.size(); ++p) {
    CHECK(test::same_bits(alone.gradients[p], found.gradients[p]));
  }
  task.wants_input_gradient = true;
  task.twice = true;
  auto const twice = run<L>(rows, task, c);
  for (std::size_t p = 0; p < c.weights.size(); ++p) {
    Numbers both = found.gradients[p];
    for (double& value : both) {
      value *= 2;
    }
    CHECK(test::within(twice.gradients[p], both, test::constant(both.size(), 1e-14)));
  }
}

TEST_CASE("Lstm and Gru are plain loops, and their gradients the loops' differences") {
  is_the_reference<Small>();
  is_the_reference<Projected>();
  is_the_reference<Lstm<3, NoBias, Bidirectional>>();
  is_the_reference<Lstm<4, Projection<4>>>();
  is_the_reference<SmallGru>();
  is_the_reference<Gru<3, NoBias>>();
  is_the_reference<Gru<3, OneBias, Bidirectional>>();
}

/// Where some samples end earlier than others, a time has fewer rows: of each sample what it has
/// alone.
template <class L>
void samples_end_apart(std::vector<std::int32_t> const& lengths = {2, 7, 1, 3, 7, 5, 1, 6, 2},
                       Shape in = rows) {
  auto const batch = static_cast<int>(lengths.size());
  auto const time = static_cast<int>(in[0]);
  OpTask task{.batch = batch, .time = time, .lengths = lengths};
  Case<L> const c{in, task};
  auto const found = run<L>(in, task, c);
  Numbers const y = reference<L>(in, task, c.x, c.weights);
  CHECK(test::within(found.y, y, test::constant(y.size(), 64 * test::eps<double>)));
  Numbers dx;
  std::vector<Numbers> gradients;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    OpTask const one{.batch = 1, .time = time, .lengths = {lengths[b]}};
    Case<L> alone = c;
    auto const part = [=](Numbers const& all) {
      auto const each = static_cast<std::ptrdiff_t>(all.size()) / batch;
      auto const first = all.begin() + static_cast<std::ptrdiff_t>(b) * each;
      return Numbers(first, first + each);
    };
    alone.x = part(c.x);
    alone.dy = part(c.dy);
    auto const own = run<L>(in, one, alone);
    dx.insert(dx.end(), own.dx.begin(), own.dx.end());
    gradients.resize(own.gradients.size());
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      gradients[p].resize(own.gradients[p].size());
      for (std::size_t i = 0; i < gradients[p].size(); ++i) {
        gradients[p][i] += own.gradients[p][i];
      }
    }
  }
  CHECK(test::within(found.dx, dx, test::constant(dx.size(), 1e-13)));
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    CHECK(
        test::within(found.gradients[p], gradients[p], test::constant(gradients[p].size(), 1e-13)));
  }
  task.training = false;
  CHECK(test::within(run<L>(in, task, c).y, y, test::constant(y.size(), 1e-13)));
}

TEST_CASE("samples that end apart are each as if they were alone") {
  samples_end_apart<Small>();
  samples_end_apart<Projected>();
  samples_end_apart<Gru<3, OneBias, Bidirectional>>();
  // What products round up to is longer where the first time is left out.
  samples_end_apart<Small>({18, 4, 5, 6, 7, 3, 2, 1, 8}, timed_shape(18, 6));
}

template <class L>
void evaluates_in_parts() {
  Shape const in = timed_shape(200, 6);
  OpTask task{.batch = 9, .time = 190, .lengths = {190, 60, 131, 1, 7, 44, 45, 46, 110}};
  Case<L> const c{in, task};
  Numbers const whole = run<L>(in, task, c).y;
  task.training = false;
  CHECK(test::within(run<L>(in, task, c).y, whole, test::constant(whole.size(), 1e-13)));
}

TEST_CASE("an evaluation, which goes through long samples in parts, is a training's outputs") {
  evaluates_in_parts<Projected>();
  evaluates_in_parts<SmallGru>();
}

template <class L>
void pieces_are_the_whole() {
  OpTask const task{.batch = 1, .time = 7};
  Case<L> const c{rows, task};
  Numbers const whole = run<L>(rows, task, c).y;
  Node const node{.kind = NodeKind::layer, .edges = 1, .in = rows, .out = L::output(rows)};
  Op<L, Double> op{OpSetup{node, 3, &node.in, 1, 1}};
  host::Device device{1};
  test::GuardedBytes const scratch{op.needs().scratch_bytes};
  test::GuardedBytes const carry{op.needs().carried_bytes};
  device.scratch = scratch.data();
  std::vector<double*> parameter;
  std::vector<Numbers> weights = c.weights;
  for (Numbers& weight : weights) {
    parameter.push_back(weight.data());
  }
  Numbers y(whole.size());
  for (int done = 0, count = 4; done < 7; done += count, count = 1) {
    double const* const x = c.x.data() + done * rows[1];
    op.forward(Operands<double>{.x = &x,
                                .y = y.data() + done * L::output(rows)[1],
                                .parameter = parameter.data(),
                                .sequence = {.carry = carry.data()}},
               Pass<host::Device>{.device = device,
                                  .batch = 1,
                                  .training = false,
                                  .time = count,
                                  .sequence = {.position = done}});
  }
  CHECK(test::within(y, whole, test::constant(y.size(), 1e-14)));
}

TEST_CASE("a sequence that comes in pieces carries its state") {
  pieces_are_the_whole<Small>();
  pieces_are_the_whole<Lstm<5, Projection<2>>>();
  pieces_are_the_whole<SmallGru>();
}

/// Three steps, the second of several lengths: outputs are those of loops that go on, and gradients
/// the loops' differences with what the step before left held as it is.
template <class L>
void lives_on() {
  constexpr CarriedState carried = L::carried;
  constexpr std::size_t each = carried.bytes(sizeof(double), sizeof(double));
  std::vector<State> states(3);
  alignas(64) std::byte memory[2][3 * each] = {};
  Case<L> c{rows, OpTask{.batch = 3, .time = 5}};
  for (int step = 0; step < 3; ++step) {
    OpTask task{.batch = 3, .time = 5, .carry = memory[0], .carried_on = memory[1]};
    if (step == 1) {
      task.lengths = {5, 1, 4};
    }
    c.x = test::random<double>(task.batch * rows.elements(task.time), 20 + std::uint64_t(step));
    std::vector<State> const before = states;
    Numbers const y = reference<L>(rows, task, c.x, c.weights, &states);
    auto const found = run<L>(rows, task, c);
    CHECK(test::within(found.y, y, test::constant(y.size(), 64 * test::eps<double>)));
    auto const of = [&](Numbers& variable) {
      return test::finite_differences(variable, [&](Numbers const& moved) {
        Numbers const old = std::exchange(variable, moved);
        std::vector<State> begun = before;
        double const result = test::dot(reference<L>(rows, task, c.x, c.weights, &begun), c.dy);
        variable = old;
        return result;
      });
    };
    CHECK(test::within(found.dx, of(c.x), test::constant(c.x.size(), 1e-8)));
    for (std::size_t p = 0; p < c.weights.size(); ++p) {
      CHECK(test::within(found.gradients[p], of(c.weights[p]),
                         test::constant(c.weights[p].size(), 1e-8)));
    }
    CHECK(test::same_bits(run<L>(rows, task, c).all(), found.all()));  // computed again
    Numbers left;
    Numbers has;
    auto const take = [&](std::vector<double> const& state, int numbers, std::byte const* at) {
      left.insert(left.end(), state.begin(), state.begin() + numbers);
      auto const* const numbers_at = reinterpret_cast<double const*>(at);
      has.insert(has.end(), numbers_at, numbers_at + numbers);
    };
    for (std::size_t b = 0; b < 3; ++b) {
      take(states[b].c, carried.c, memory[1] + b * each);
      take(states[b].h, carried.h, memory[1] + b * each + carried.h_at(sizeof(double)));
    }
    CHECK(test::within(has, left, test::constant(left.size(), 64 * test::eps<double>)));
    task.training = false;  // in place
    task.carried_on = task.carry;
    CHECK(test::within(run<L>(rows, task, c).y, y, test::constant(y.size(), 1e-13)));
    CHECK(std::memcmp(memory[0], memory[1], sizeof memory[0]) == 0);
  }
}

TEST_CASE("a Stateful layer goes on where the step before has ended, and no gradient goes back") {
  lives_on<Lstm<5, Stateful>>();
  lives_on<Lstm<5, Stateful, OneBias, Projection<3>, ForgetBias<1>>>();
  lives_on<Gru<4, Stateful>>();
}

TEST_CASE("what a Stateful layer leaves in parts is what it leaves at once") {
  using L = Gru<4, Stateful>;
  Shape const in = timed_shape(200, 6);
  std::byte memory[2][3 * 4 * sizeof(double)] = {};
  OpTask task{.batch = 3,
              .time = 190,
              .lengths = {190, 60, 131},
              .carry = memory[0],
              .carried_on = memory[1]};
  Case<L> const c{in, task};
  run<L>(in, task, c);
  task.training = false;
  task.carried_on = task.carry;
  run<L>(in, task, c);
  Numbers left[2] = {Numbers(12), Numbers(12)};
  for (int i = 0; i < 2; ++i) {
    std::memcpy(left[i].data(), memory[i], sizeof memory[i]);
  }
  CHECK(test::within(left[0], left[1], test::constant(12, 1e-13)));
}

/// On one row of time weights of the state are of no use, whatever they are.
template <class L, class Backend = Double>
void knows_no_state() {
  OpTask const task{.batch = 3, .time = 1};
  Case<L> c{rows, task};
  std::fill(c.weights[1].begin(), c.weights[1].end(), 0.0);
  auto const without = run<L, Backend>(rows, task, c);
  std::fill(c.weights[1].begin(), c.weights[1].end(), std::numeric_limits<double>::quiet_NaN());
  auto const with = run<L, Backend>(rows, task, c);
  CHECK(test::same_bits(with.all(), without.all()));
  CHECK(with.gradients[1] == Numbers(c.weights[1].size()));
}

TEST_CASE("nothing is multiplied with the states before the first row, which are 0") {
  knows_no_state<Small>();
  knows_no_state<Lstm<4, Projection<3>>>();
  knows_no_state<SmallGru>();
#if defined(TANDEM_ONEDNN)
  knows_no_state<Small, BasicHost<OneDnn, Fp32>>();
  if (onednn::detail::has_avx512()) {
    knows_no_state<SmallGru, BasicHost<OneDnn, Bf16>>();
  }
#endif
}

TEST_CASE("threads change no bit, and a microbatch of none has gradients of 0") {
  OpTask task{.batch = 5, .time = 7, .lengths = {7, 1, 3, 7, 6}};
  Case<WideGru> const gru{rows, task};
  Case<Projected> const lstm{rows, task};
  auto const one = run<WideGru>(rows, task, gru).all();
  auto const other = run<Projected>(rows, task, lstm).all();
  task.threads = 3;
  CHECK(test::same_bits(run<WideGru>(rows, task, gru).all(), one));
  CHECK(test::same_bits(run<Projected>(rows, task, lstm).all(), other));
  OpTask const none{.batch = 0, .time = 7};
  for (Numbers const& gradient :
       run<Projected>(rows, none, Case<Projected>{rows, none}).gradients) {
    CHECK(gradient == Numbers(gradient.size()));
  }
}

#if defined(TANDEM_ONEDNN)

/// As far from double as sums of some ten roundings are; those of gradients are of more terms.
template <class L, class Backend>
void is_near(double most) {
  OpTask const task{.batch = 4, .time = 7, .lengths = {7, 2, 4, 7}};
  Case<L> c{rows, task};
  auto const round = [](Numbers& list) {
    for (double& value : list) {
      value = static_cast<double>(static_cast<float>(BFloat16{static_cast<float>(value)}));
    }
  };
  round(c.x);
  round(c.dy);
  for (Numbers& weight : c.weights) {
    round(weight);
  }
  auto const exact = run<L>(rows, task, c).all();
  auto const found = run<L, Backend>(rows, task, c).all();
  CHECK(test::within(found, exact, test::constant(exact.size(), most)));
}

TEST_CASE("Lstm and Gru by oneDNN are the portable ones") {
  is_near<Small, BasicHost<OneDnn, Fp32>>(1e-5);
  is_near<Projected, BasicHost<OneDnn, Fp32>>(1e-5);
  is_near<Lstm<20, Bidirectional>, BasicHost<OneDnn, Fp32>>(1e-5);
  is_near<SmallGru, BasicHost<OneDnn, Fp32>>(1e-5);
  is_near<WideGru, BasicHost<OneDnn, Fp32>>(1e-5);
  if (!onednn::detail::has_avx512()) {
    return;
  }
  is_near<Projected, BasicHost<OneDnn, Bf16>>(0.1);
  is_near<Lstm<20>, BasicHost<OneDnn, Bf16>>(0.1);
  is_near<WideGru, BasicHost<OneDnn, Bf16>>(0.1);
}

#endif

}  // namespace recurrent_op_test

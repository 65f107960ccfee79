// SPDX-License-Identifier: Apache-2.0
// Optimizers of any type: what they must have, and the library's own against PyTorch's and the
// equations of their papers, whose numbers test/golden/optimizers.py wrote.

#include <doctest/doctest.h>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/io/safetensors/all.hpp>
#include <tandem/ops/bound_optimizer.hpp>
#include <tandem/optim/adagrad.hpp>
#include <tandem/optim/clip_sets.hpp>
#include <tandem/optim/lamb.hpp>
#include <tandem/optim/lion.hpp>
#include <tandem/optim/rmsprop.hpp>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace own_optimizer_test {

static_assert(ElementOptimizer<RMSprop> && ElementOptimizer<Adagrad> && ElementOptimizer<Lion>);
static_assert(TensorOptimizer<Lamb> && !ElementOptimizer<Lamb> && !TensorOptimizer<Lion>);
static_assert(!ElementOptimizer<Sgd> && !TensorOptimizer<Adam> && !ElementOptimizer<int>);

/// Has just what is asked.
struct Archetype {
  float learning_rate = 0.5F;
  static constexpr char const* name = "Archetype";
  static constexpr char const* state_names[] = {"first", "second"};
  template <std::floating_point V>
  V next(V p, V g, V (&state)[2], auto const& settings) const {
    state[0] += g;
    state[1] = static_cast<V>(settings.step);
    return p - settings.learning_rate * g;
  }
};
struct Stateless {
  double learning_rate = 0.5;
  static constexpr std::string_view name = "Stateless";
  template <class V>
  V next(V p, V g, auto const& settings) const {
    return p - V{settings.learning_rate} * g;
  }
};
struct Directed : Stateless {
  template <class V>
  void move(V, V, V (&)[1], auto const&) const {}
  template <class V>
  V direction(V p, V const (&)[1], auto const&) const {
    return p;
  }
  double ratio(double, double) const { return 1.0; }

 private:
  using Stateless::next;
};
static_assert(ElementOptimizer<Archetype> && ElementOptimizer<Stateless>);
static_assert(TensorOptimizer<Directed>);

struct NoName : Archetype {
 private:
  using Archetype::name;
};
struct NumberName : Archetype {
  static constexpr int name = 1;
};
struct NoRate : Archetype {
 private:
  using Archetype::learning_rate;
};
struct NoBytes : Archetype {
  std::string note{};
};
struct NoNext : Archetype {
 private:
  using Archetype::next;
};
struct OneState : Archetype {
  static constexpr char const* state_names[] = {"first"};
};
struct UnnamedStates : Stateless {
  template <class V>
  V next(V p, V, V (&)[1], auto const&) const {
    return p;
  }
};
struct FloatsOnly : Archetype {
  float next(float p, float, float (&)[2], auto const&) const { return p; }
};
struct AlikeStates : Archetype {
  static constexpr char const* state_names[] = {"first", "first"};
};
struct NamelessState : Archetype {
  static constexpr char const* state_names[] = {"first", ""};
};
struct DottedState : Archetype {
  static constexpr char const* state_names[] = {"first", "a.b"};
};
struct NineStates : Archetype {
  static constexpr char const* state_names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
  template <class V>
  V next(V p, V, V (&)[9], auto const&) const {
    return p;
  }
};
struct NoMove : Directed {
 private:
  using Directed::move;
};
struct NoDirection : Directed {
 private:
  using Directed::direction;
};
struct NoRatio : Directed {
 private:
  using Directed::ratio;
};
static_assert(!HasOptimizerName<NoName> && !HasOptimizerName<NumberName>);
static_assert(!HasLearningRate<NoRate> && !CopiesAsBytes<NoBytes>);
static_assert(!NamesStates<AlikeStates> && !NamesStates<NamelessState>);
static_assert(!NamesStates<DottedState> && !NamesStates<NineStates>);
static_assert(!UpdatesElements<UnnamedStates, float> && !ElementOptimizer<UnnamedStates>);
static_assert(!UpdatesElements<NoNext, float> && !UpdatesElements<OneState, float>);
static_assert(UpdatesElements<FloatsOnly, float> && !UpdatesElements<FloatsOnly, double>);
static_assert(!ElementOptimizer<NoName> && !ElementOptimizer<NoRate> && !ElementOptimizer<NoBytes>);
static_assert(!ElementOptimizer<NoNext> && !ElementOptimizer<AlikeStates>);
static_assert(!TensorOptimizer<NoMove> && !TensorOptimizer<NoDirection>);
static_assert(!TensorOptimizer<NoRatio>);

template <class P>
using Backend = BasicHost<Portable, P>;

/// test/data/golden/optimizers.safetensors.
class Numbers {
 public:
  template <class T>
  std::vector<T> of(std::string const& name) const {
    TensorView const& tensor = file_.at(name);
    std::vector<T> values;
    std::size_t const size = tensor.dtype == Dtype::F64 ? sizeof(double) : sizeof(float);
    for (std::size_t at = 0; at < tensor.data.size(); at += size) {
      double wide = 0.0;
      float narrow = 0.0F;
      if (size == sizeof wide) {
        std::memcpy(&wide, tensor.data.data() + at, size);
      } else {
        std::memcpy(&narrow, tensor.data.data() + at, size);
      }
      values.push_back(static_cast<T>(size == sizeof wide ? wide : double{narrow}));
    }
    return values;
  }

 private:
  Safetensors file_ =
      Safetensors::read(std::string{TANDEM_TEST_DATA} + "/golden/optimizers.safetensors");
};

/// A parameter with its states.
template <class T>
struct Trained {
  std::vector<T> value;
  std::vector<std::vector<T>> states{};
};

double worst(auto const& own, auto const& golden, std::size_t from = 0) {
  double most = 0.0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    double const off = std::abs(double{own[i]} - double{golden[from + i]});
    most = off <= most ? most : off;  // a NaN counts
  }
  return most;
}

/// Six steps of each parameter, against the file's; of @p most roundings a step.
template <class Precision, class O>
void check(std::string const& name, O const& made, double most, UpdateSettings settings,
           double clip_norm = 0.0) {
  using T = typename Precision::Master;
  Numbers const golden;
  Optimizer const optimizer = detail::optimizer_for<Backend<Precision>>(made);
  host::Device device{DeviceSpec{.threads = 2}};
  double const bound = most * static_cast<double>(std::numeric_limits<T>::epsilon());
  settings.learning_rate = learning_rate_of(optimizer);
  settings.weight_decay =
      std::visit([](auto const& o) { return double{o.weight_decay}; }, optimizer);
  std::vector<Trained<T>> all;
  for (char const* const p : {"a", "b"}) {
    all.push_back({golden.of<T>(p)});
    for (int s = 0; s < states_of(optimizer); ++s) {
      all.back().states.emplace_back(
          all.back().value.size(),
          static_cast<T>(initial_state(optimizer, static_cast<std::size_t>(s))));
    }
  }
  for (int step = 0; step < 6; ++step) {
    double square = 0.0;
    for (std::string const p : {"a", "b"}) {
      std::vector<T> const gradients = golden.of<T>("gradient." + p);
      std::size_t const each = gradients.size() / 6;
      for (std::size_t i = 0; i < each; ++i) {
        double const g{gradients[static_cast<std::size_t>(step) * each + i]};
        square += g * g;
      }
    }
    settings.gradient_scale = clip_scale(std::sqrt(square), clip_norm);
    settings.step = step + 1;
    for (std::string const p : {"a", "b"}) {
      Trained<T>& own = all[p == "a" ? 0 : 1];
      std::vector<T> const gradients = golden.of<T>("gradient." + p);
      std::size_t const at = static_cast<std::size_t>(step) * own.value.size();
      std::visit(
          [&](auto const& o) {
            update_weights<Backend<Precision>>(
                device, o, own.value.data(), gradients.data() + at,
                [&](int s) { return own.states[static_cast<std::size_t>(s)].data(); },
                static_cast<std::int64_t>(own.value.size()), settings);
          },
          optimizer);
      INFO(name << "." << p << ", step " << step);
      CHECK(worst(own.value, golden.of<double>(name + "." + p), at) <= bound);
    }
  }
  std::vector<std::string> const states = state_names(optimizer);
  for (std::string const p : {"a", "b"}) {
    for (std::size_t s = 0; s < states.size(); ++s) {
      auto const wanted = golden.of<double>(std::string{name}.append(".") + states[s] + "." + p);
      INFO(name << "." << states[s] << "." << p);
      CHECK(worst(all[p == "a" ? 0 : 1].states[s], wanted) <= bound);
    }
  }
}

/// In double and, in vectors, in float.
template <class O>
void check(std::string const& name, O const& optimizer, UpdateSettings const& settings = {},
           double clip_norm = 0.0) {
  check<Fp64>(name, optimizer, 64, settings, clip_norm);
  check<Fp32>(name, optimizer, 64, settings, clip_norm);
}

TEST_CASE("RMSprop is PyTorch's: plain, with momentum and decay, centred") {
  check("rmsprop", RMSprop{});
  check("rmsprop_momentum", RMSprop{.learning_rate = 0.02F,
                                    .alpha = 0.9F,
                                    .epsilon = 1e-3F,
                                    .weight_decay = 0.1F,
                                    .momentum = 0.8F});
  check("rmsprop_centered", RMSprop{.learning_rate = 0.02F,
                                    .alpha = 0.9F,
                                    .epsilon = 1e-3F,
                                    .momentum = 0.8F,
                                    .centered = true});
}

TEST_CASE("Adagrad is PyTorch's: plain, and with a beginning and decays") {
  check("adagrad", Adagrad{.learning_rate = 0.1F});
  check("adagrad_decay", Adagrad{.learning_rate = 0.1F,
                                 .lr_decay = 0.25F,
                                 .weight_decay = 0.1F,
                                 .initial_accumulator_value = 0.5F,
                                 .epsilon = 1e-3F});
}

TEST_CASE("Lion and Lamb are their papers' equations") {
  check("lion", Lion{.learning_rate = 0.01F, .weight_decay = 0.1F});
  check("lamb", Lamb{.learning_rate = 0.01F});
}

TEST_CASE("clipping by value is PyTorch's, alone and behind a norm") {
  Sgd const sgd{.learning_rate = 0.1F, .momentum = 0.9F};
  check("clip_value", sgd, {.clip_value = 0.5});
  check("clip_both", sgd, {.clip_value = 0.25}, 2.0);
}

TEST_CASE("an optimizer keeps the states that it needs, by their names") {
  auto const names = [](auto const& o) {
    return state_names(detail::optimizer_for<Backend<Fp32>>(o));
  };
  using Names = std::vector<std::string>;
  CHECK(names(RMSprop{}) == Names{"square_avg"});
  CHECK(names(RMSprop{.centered = true}) == Names{"square_avg", "grad_avg"});
  CHECK(names(RMSprop{.momentum = 0.5F, .centered = true}) ==
        Names{"square_avg", "momentum_buffer", "grad_avg"});
  CHECK(names(Stateless{}).empty());
  CHECK(optimizer_name(own_optimizer<Backend<Fp32>>(Lion{})) == "Lion");
  CHECK(learning_rate_of(own_optimizer<Backend<Fp32>>(Stateless{})) == 0.5);
}

TEST_CASE("an optimizer of numbers, and one without states, are updated in every place") {
  host::Device device{DeviceSpec{.threads = 2}};
  for (std::size_t const n : {0, 1, 15, 40, 1030}) {
    std::vector<float> p(n, 2.0F), first(n, 1.0F), second(n), q(n, 2.0F);
    std::vector<float> const g(n, 0.5F);
    auto const update = [&](auto const& o, std::vector<float>& to) {
      update_weights<Backend<Fp32>>(device, own_optimizer<Backend<Fp32>>(o), to.data(), g.data(),
                                    [&](int s) { return s == 0 ? first.data() : second.data(); },
                                    static_cast<std::int64_t>(n),
                                    {.learning_rate = 0.5, .gradient_scale = 2.0, .step = 7});
    };
    update(Archetype{}, p);
    update(Stateless{}, q);
    CHECK(p == std::vector<float>(n, 1.5F));
    CHECK(q == p);
    CHECK(first == std::vector<float>(n, 2.0F));
    CHECK(second == std::vector<float>(n, 7.0F));
  }
}

TEST_CASE("no bit of Lamb's norms depends on the threads") {
  auto const run = [](int threads) {
    host::Device device{DeviceSpec{.threads = threads}};
    std::vector<float> p(5003), m(5003), v(5003), g(5003);
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] = std::sin(static_cast<float>(i));
      g[i] = std::cos(static_cast<float>(3 * i));
    }
    for (int step = 1; step <= 3; ++step) {
      update_weights<Backend<Fp32>>(device, own_optimizer<Backend<Fp32>>(Lamb{}), p.data(),
                                    g.data(), [&](int s) { return s == 0 ? m.data() : v.data(); },
                                    5003,
                                    {.learning_rate = 0.1, .weight_decay = 0.01, .step = step});
    }
    return p;
  };
  CHECK(run(1) == run(3));
  CHECK(Lamb{}.ratio(0.0, 2.0) == 1.0);
  CHECK(Lamb{}.ratio(3.0, 0.0) == 1.0);
  CHECK(Lamb{}.ratio(3.0, 2.0) == 1.5);
}

TEST_CASE("settings out of range, and another backend's updates, are refused with a sentence") {
  auto const refusal = [](auto const& o) {
    return test::message<ContractError>([&] { own_optimizer<Backend<Fp32>>(o); });
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(refusal(RMSprop{.alpha = 1.0F}) ==
        "TrainerOptions: alpha is 1; give a number from 0 to less than 1");
  CHECK(test::contains(refusal(RMSprop{.epsilon = -1.0F}), ": epsilon is -1;"));
  CHECK(test::contains(refusal(RMSprop{.momentum = nan}), ": momentum is nan;"));
  CHECK(test::contains(refusal(Adagrad{.lr_decay = -1.0F}), ": lr_decay is"));
  CHECK(test::contains(refusal(Adagrad{.initial_accumulator_value = -1.0F}),
                       ": initial_accumulator_value is"));
  CHECK(test::contains(refusal(Adagrad{.epsilon = nan}), ": epsilon is"));
  CHECK(test::contains(refusal(Lion{.beta1 = 1.0F}), ": beta1 is"));
  CHECK(test::contains(refusal(Lion{.beta2 = -0.5F}), ": beta2 is"));
  CHECK(test::contains(refusal(Lamb{.beta1 = nan}), ": beta1 is"));
  CHECK(test::contains(refusal(Lamb{.beta2 = 1.0F}), ": beta2 is"));
  CHECK(test::contains(refusal(Lamb{.epsilon = nan}), ": epsilon is"));
  OwnOptimizer const own = own_optimizer<Backend<Fp64>>(Lion{});
  CHECK_NOTHROW(bound_to<Backend<Fp64>>(own));
  CHECK(test::contains(test::message<ContractError>([&] { bound_to<Backend<Fp32>>(own); }),
                       ".optimizer was made for another backend than the trainer's"));
}

}  // namespace own_optimizer_test
}  // namespace tandem

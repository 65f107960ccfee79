// SPDX-License-Identifier: Apache-2.0
// Networks train with oneDNN as they do with the portable kernels.

#if defined(TANDEM_ONEDNN)

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include <tandem/strategy/fits.hpp>

#include <inception_network.hpp>
#include <onednn_op.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace trainer_test {

using Fast = BasicHost<OneDnn>;
using Half = BasicHost<OneDnn, Bf16>;

/// A ReLU that overwrites a convolution's output, and a Flatten behind it.
struct PlainImages
    : Network<Image<3, 8, 8>, Sequential<Conv2d<4, Kernel<3>>, ReLU, Flatten, Linear<5>>> {};

/// A value that three others read, so that its gradient is a sum of three.
struct Named;
using WithNamed = Concat<Sequential<>, Use<Named>>;
struct NamedImages
    : Network<Image<3, 8, 8>,
              Sequential<Sequential<Conv2d<4>, Let<Named>>, Sequential<WithNamed, Conv2d<2>>,
                         Sequential<WithNamed, Conv2d<3>>, Sequential<WithNamed, Conv2d<2>>,
                         Flatten, Linear<5>>> {};

/// Sums one behind another, of which a named one alone is read elsewhere.
struct NamedSums
    : Network<
          Image<3, 8, 8>,
          Sequential<Conv2d<4>, Residual<Conv2d<4>>, Sequential<Residual<Conv2d<4>>, Let<Named>>,
                     Sequential<Residual<Conv2d<4>>, WithNamed, Conv2d<2>>, Flatten, Linear<5>>> {};

/// The largest difference of a parameter's gradients after one step, relative to its largest.
template <class Net, class S, class Backend, class One>
Difference first_gradients() {
  Watchdog const watchdog{"gradients of the first step"};
  Trainer<Net, One, Double> exact{parity_options()};
  Trainer<Net, S, Backend> fast{parity_options()};
  StepResult const a = parity_step(exact, 0);
  StepResult const b = parity_step(fast, 0);
  double const precision = sizeof(typename Backend::Scalar) == 2 ? 1.0 / 64 : 1e-5;
  CHECK(std::fabs(a.loss - b.loss) <= precision * a.loss);
  CHECK(b.samples == a.samples);
  return difference(fast.parameters(), exact.parameters(), Part::gradient);
}

template <class Net>
void check_gradients() {
  for (Difference const& off :
       {first_gradients<Net, SingleDevice<>, Fast, SingleDevice<>>(),
        first_gradients<Net, SingleDevice<Microbatches<3>>, Fast, SingleDevice<Microbatches<3>>>(),
        first_gradients<Net, DataParallel<2>, Fast, SingleDevice<Microbatches<2>>>()}) {
    INFO("gradient of " << off.name << " is off by " << off.error);
    CHECK(off.error <= 2.0 * largest_batch * 64 * std::numeric_limits<float>::epsilon());
    CHECK(off.error > 0.0);  // another precision: equal bits would be suspicious
  }
}

TEST_CASE("gradients are those of the portable kernels in double") {
  check_gradients<TinyNet>();
  check_gradients<InceptionNet>();
  check_gradients<PlainImages>();
}

TEST_CASE("bf16: gradients are those in double, rounded") {
  if (!test::computes<BFloat16>()) {
    return;
  }
  for (Difference const& off :
       {first_gradients<TinyNet, SingleDevice<>, Half, SingleDevice<>>(),
        first_gradients<InceptionNet, SingleDevice<>, Half, SingleDevice<>>()}) {
    INFO("gradient of " << off.name << " is off by " << off.error);
    CHECK(off.error <= 0.25);
    CHECK(off.error > std::ldexp(1.0, -12));  // it was rounded
  }
}

/// Losses, and everything else that a trainer has, after steps on batches of several sizes.
template <class Net, class S, class Backend>
std::vector<double> bits_of(int threads) {
  Watchdog const watchdog{"seven steps"};
  TrainerOptions options = parity_options();
  options.threads_per_device = threads;
  Trainer<Net, S, Backend> trainer{options};
  std::vector<double> numbers;
  for (int s = 0; s < 7; ++s) {
    StepResult const r = parity_step(trainer, s);
    numbers.insert(numbers.end(), {r.loss, r.metric, r.gradient_norm});
  }
  for (NamedParameter<float> const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

template <class Backend>
void check_bits() {
  for (int const threads : {1, 2}) {
    auto const one =
        bits_of<InceptionNet, SingleDevice<Microbatches<4>, Reproducible<>>, Backend>(threads);
    CHECK(one == bits_of<InceptionNet, DataParallel<2, Microbatches<2>, Reproducible<>>, Backend>(
                     threads));
    CHECK(one == bits_of<InceptionNet, DataParallel<4, Reproducible<>>, Backend>(threads));
    CHECK(one !=
          bits_of<InceptionNet, SingleDevice<Microbatches<2>, Reproducible<>>, Backend>(threads));
    CHECK(std::isfinite(one.front()));
  }
}

TEST_CASE("reproducible: the same bits on 1, 2 and 4 ranks of as many threads") {
  check_bits<Fast>();
  if (test::computes<BFloat16>()) {
    check_bits<Half>();
  }
}

TEST_CASE("reproducible: a named value's gradient has the same bits wherever it is cut") {
  if (!test::computes<BFloat16>()) {
    return;
  }
  auto const one = bits_of<NamedImages, SingleDevice<Reproducible<>>, Half>(1);
  CHECK(one == bits_of<NamedImages, ModelParallel<Split<2>, Split<4>, Reproducible<>>, Half>(1));
  CHECK(one == bits_of<NamedImages, ModelParallel<Split<3>, Split<3>, Reproducible<>>, Half>(1));
  auto const sums = bits_of<NamedSums, SingleDevice<Reproducible<>>, Half>(1);
  CHECK(sums == bits_of<NamedSums, ModelParallel<Split<2>, Split<4>, Reproducible<>>, Half>(1));
  CHECK(sums == bits_of<NamedSums, ModelParallel<Split<3>, Split<3>, Reproducible<>>, Half>(1));
}

TEST_CASE("evaluation and prediction are those of the portable kernels") {
  Trainer<InceptionNet, SingleDevice<>, Double> exact{parity_options()};
  Trainer<InceptionNet, SingleDevice<>, Fast> fast{parity_options()};
  for (int s = 0; s < 3; ++s) {
    parity_step(exact, s);
    parity_step(fast, s);
  }
  auto const data = dataset(decltype(exact)::input, 5, 31, 99);
  std::vector<float> const a = exact.predict(data);
  std::vector<float> const b = fast.predict(data);
  CHECK(std::fabs(exact.evaluate(data).loss - fast.evaluate(data).loss) <= 1e-3);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::fabs(a[i] - b[i]) <= 1e-3F * (1.0F + std::fabs(a[i])));
  }
}

TEST_CASE("a checkpoint of the portable backend goes on with oneDNN") {
  auto const path = std::filesystem::temp_directory_path() / "tandem_onednn_test.safetensors";
  Trainer<InceptionNet, SingleDevice<>, BasicHost<Portable>> portable{parity_options()};
  Trainer<InceptionNet, SingleDevice<>, Fast> fast{parity_options()};
  parity_step(portable, 0);
  portable.save(path.string());
  fast.load(path.string());
  CHECK(first_difference(fast.parameters(), portable.parameters()) == "");
  StepResult const a = parity_step(portable, 1);
  StepResult const b = parity_step(fast, 1);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-4 * a.loss);
  std::filesystem::remove(path);
}

TEST_CASE("a weight that is set is read by the portable backend and by oneDNN") {
  Trainer<InceptionNet, SingleDevice<>, BasicHost<Portable>> portable{parity_options()};
  Trainer<InceptionNet, SingleDevice<>, Fast> fast{parity_options()};
  for (auto const& p : portable.parameters()) {
    std::vector<float> values(p.value.begin(), p.value.end());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= 0.5F + 0.25F * static_cast<float>(i % 4);
    }
    portable.set_parameter(p.name, values);
    fast.set_parameter(p.name, values);
  }
  CHECK(first_difference(fast.parameters(), portable.parameters()) == "");
  StepResult const a = parity_step(portable, 0);
  StepResult const b = parity_step(fast, 0);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-4 * a.loss);
}

TEST_CASE("slices, merged and in-place outputs need less memory") {
  if (!test::computes<BFloat16>()) {
    return;
  }
  Trainer<InceptionNet, SingleDevice<>, BasicHost<Portable>> portable{parity_options()};
  Trainer<InceptionNet, SingleDevice<>, Fast> fast{parity_options()};
  Trainer<InceptionNet, SingleDevice<>, Half> half{parity_options()};
  auto const stored = [](MemoryReport const& r) { return r.kept + r.transient; };
  CHECK(stored(fast.memory()) < stored(portable.memory()));
  CHECK(stored(half.memory()) < stored(fast.memory()));
  CHECK(stored(fast.memory()) < fast.memory().logical);
  CHECK(fast.memory().weights > 0);  // packed
  DeviceMemory const most = device_memory<InceptionNet, SingleDevice<>, Adam, Fp32>(
      parity_options().batch, 0);  // with any backend
  for (MemoryReport const& has : {portable.memory(), fast.memory()}) {
    CHECK(has.transient <= most.activation_gradients);
    CHECK(most.activation_gradients < 2 * has.transient);
    CHECK(stored(has) <= most.kept + most.activation_gradients);
  }
}
}  // namespace trainer_test
}  // namespace tandem::test

#endif

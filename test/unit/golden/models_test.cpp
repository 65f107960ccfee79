// SPDX-License-Identifier: Apache-2.0
// The large models in evaluation mode against PyTorch, in double: a wrong kernel, stride, padding,
// epsilon or order of branches changes the outputs by far more than rounding does.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tandem/tandem.hpp>
#include <unit/golden/formula.hpp>
#include <unit/golden/golden.hpp>
#include <unit/models/affordable.hpp>

namespace tandem {
namespace models_test {

struct Vgg16Bn : models::Vgg16Bn<10> {};
struct Vgg16 : models::Vgg16<1000> {};
struct ResNet50 : models::ResNet50<1000> {};
struct InceptionV3 : models::InceptionV3<1000> {};

template <class Net>
void check_outputs(std::string const& name) {
  using TestTrainer = Trainer<Net, SingleDevice<>, BasicHost<Portable, Fp64>>;
  test::Golden const golden{name};
  std::vector<double> const expected = golden.values("outputs");
  auto const samples =
      static_cast<int>(static_cast<std::int64_t>(expected.size()) / TestTrainer::output.elements());
  TestTrainer trainer{{.batch = samples}};
  for (NamedParameter<double> const& p : trainer.parameters()) {
    std::vector<double> values(p.value.size());
    test::fill_by_formula<double>(p.name, p.shape, values);
    trainer.set_parameter(p.name, values);
  }
  std::vector<double> x(static_cast<std::size_t>(samples * TestTrainer::input.elements()));
  test::fill_by_formula<double>("x", TestTrainer::input, x);
  std::vector<double> outputs(expected.size());
  StepBatch<double, int> const batch{.x = x.data(), .outputs = outputs.data(), .size = samples};
  trainer.workers().run([&](auto& rank) { return rank.forward(StepState{}, batch); });
  test::check_close<double>(name, outputs, expected, golden.values("terms.outputs"),
                            golden.bound<double>());
}

auto const large = doctest::skip(!test::affords_large_models);

TEST_CASE("VGG-16 with batch norm gives PyTorch's outputs") { check_outputs<Vgg16Bn>("vgg16_bn"); }
TEST_CASE("VGG-16 gives PyTorch's outputs" * large) { check_outputs<Vgg16>("vgg16"); }
TEST_CASE("ResNet-50 gives PyTorch's outputs" * large) { check_outputs<ResNet50>("resnet50"); }
TEST_CASE("Inception-V3 gives PyTorch's outputs" * large) {
  check_outputs<InceptionV3>("inception_v3");
}

}  // namespace models_test
}  // namespace tandem

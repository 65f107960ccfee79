// SPDX-License-Identifier: Apache-2.0
// Two models whose gradients are averaged are one, in two places: the numbers of one device.

#include <pipeline_parity.hpp>

namespace tandem::test {
namespace cross_model_gradients_test {

template <class... Splits>
using Cross = CrossPipeline<4, AverageGradients, Splits..., Reproducible<>>;

template <class Many>
void check() {
  for_tables<OneDevice<Reproducible<>>, Many, BasicHost<Portable>>(
      {"cross_model"}, {2, 4, 8}, parity_options(),
      [](auto& one, auto& many) { compare_bits(one, many); });
}

TEST_CASE("three devices have the bits of one") { check<Cross<Split<4>, Split<4>, Split<4>>>(); }

TEST_CASE("four devices that compute each stage again have the bits of one") {
  check<Cross<Split<2>, Split<3>, Split<3>, Split<4>, Checkpoint<Boundaries>>>();
}

TEST_CASE("on four devices it is Chimera, with the same bits in both models") {
  Watchdog const watchdog{"cross model parallelism and Chimera"};
  Trainer<DeepNet, InFour<Chimera, 2>, Host> one{parity_options()};
  Trainer<DeepNet, CrossModelParallel<AverageGradients, Split<2>, Split<3>, Split<3>, Split<4>>,
          Host>
      many{parity_options()};
  compare_bits(one, many);
  CHECK(first_difference(many.parameters(0, 1), one.parameters()) == "");
}

}  // namespace cross_model_gradients_test
}  // namespace tandem::test

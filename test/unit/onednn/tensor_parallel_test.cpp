// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

// Devices that share layers in bf16: sums of rounded parts, and a loss that is not finite.

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <onednn_op.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace onednn_tensor_parallel_test {

using Narrow = BasicHost<OneDnn, Bf16>;
using Shared = TensorParallel<2, Microbatches<2>, SplitInputs<0>>;

// A layer's sum is rounded once more, to 2^-9 of itself.
TEST_CASE("in bf16 two devices that share each block, and the words, train nearly as one does") {
  if (!test::computes<BFloat16>()) {
    return;
  }
  test::TrainedGpt<SingleDevice<Microbatches<2>>, Narrow> const one;
  test::TrainedGpt<Shared, Narrow> const two{5};
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one.results[s].loss - two.results[s].loss) <= 0x1p-8 * one.results[s].loss);
    CHECK(std::fabs(one.results[s].gradient_norm - two.results[s].gradient_norm) <=
          0x1p-5 * one.results[s].gradient_norm);
  }
}

std::vector<std::vector<float>> values_of(auto const& trainer, int rank) {
  std::vector<std::vector<float>> all;
  for (auto const& p : trainer.parameters(rank)) {
    all.emplace_back(p.value.begin(), p.value.end());
  }
  return all;
}

TEST_CASE("a loss that is not finite changes nothing, on any of them") {
  if (!test::computes<BFloat16>()) {
    return;
  }
  test::Watchdog const watchdog{"a loss that is not finite"};
  Trainer<test::SmallGpt, Shared, Narrow> trainer{test::gpt_options()};
  trainer.set_learning_rate(1e30);
  test::gpt_step(trainer, 0);
  trainer.set_learning_rate(0.0);
  auto const before = values_of(trainer, 1);
  std::string const why =
      test::message<NonFiniteLoss>([&] { static_cast<void>(test::gpt_step(trainer, 1)); });
  CHECK(test::contains(why, "on rank 0 is not finite"));
  CHECK(values_of(trainer, 0) == before);
  CHECK(values_of(trainer, 1) == before);
}

}  // namespace onednn_tensor_parallel_test
}  // namespace tandem

#endif  // TANDEM_ONEDNN

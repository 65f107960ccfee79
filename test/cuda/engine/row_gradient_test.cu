// SPDX-License-Identifier: Apache-2.0
// Gradients of rows on a GPU: dense ones' bits, Host's numbers, recorded and walked.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tandem/strategy/fits.hpp>

#include <row_network.hpp>

#if defined(TANDEM_NCCL)
#include <tandem/comm/nccl/transport.hpp>
#endif

#include "cuda/engine/support.hpp"

namespace tandem {
namespace row_gradient_test {

using test::RowNet;
using test::TrainedRows;
using R = Reproducible<4>;
template <class Precision>
using Gpu = BasicCuda<Portable, Precision>;

TEST_CASE("gradients of rows on Cuda: the bits of dense ones, in a strategy's own order") {
  using S = DataParallel<2, Microbatches<2>>;
  for (TrainerOptions const& options : test::row_options<Gpu<Fp32>>()) {
    INFO(optimizer_name(options.optimizer));
    TrainedRows<RowNet<>, S, Gpu<Fp32>, VirtualTransport> const dense{options};
    TrainedRows<RowNet<RowGradient>, S, Gpu<Fp32>, VirtualTransport> const rows{options};
    test::check_same_rows(rows, dense);
    CHECK(rows.trainer.parameters()[0].gradient.empty());
  }
}

TEST_CASE("gradients of rows on Cuda: on 1, 2 and 4 ranks the bits of one device's dense one") {
  for (TrainerOptions const& options : test::row_options<Gpu<Fp32>>()) {
    INFO(optimizer_name(options.optimizer));
    TrainedRows<RowNet<>, SingleDevice<Microbatches<4>, R>, Gpu<Fp32>> const one{options};
    auto const has_bits = [&]<class S>() {
      test::check_same_rows(
          TrainedRows<RowNet<RowGradient>, S, Gpu<Fp32>, VirtualTransport>{options}, one);
    };
    has_bits.template operator()<SingleDevice<Microbatches<4>, R>>();
    has_bits.template operator()<DataParallel<2, Microbatches<2>, R>>();
    has_bits.template operator()<DataParallel<4, R>>();
  }
}

/// Weights, states, losses and norms.
std::vector<double> numbers_of(auto const& trained) {
  std::vector<double> numbers;
  for (StepResult const& r : trained.results) {
    numbers.insert(numbers.end(), {r.loss, r.gradient_norm});
  }
  for (auto const& p : trained.trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
    for (auto const state : p.states) {
      numbers.insert(numbers.end(), state.begin(), state.end());
    }
  }
  return numbers;
}

TEST_CASE("gradients of rows on Cuda: Host's numbers in double, walked as well as recorded") {
  using S = SingleDevice<Microbatches<2>>;
  auto const on_gpu = test::row_options<Gpu<Fp64>>();
  auto const on_host = test::row_options<BasicHost<Portable, Fp64>>();
  for (std::size_t i = 0; i < on_gpu.size(); ++i) {
    INFO(optimizer_name(on_gpu[i].optimizer));
    TrainerOptions walked = on_gpu[i];
    walked.record = false;
    TrainedRows<RowNet<RowGradient>, S, Gpu<Fp64>> recorded{on_gpu[i]};
    TrainedRows<RowNet<RowGradient>, S, BasicHost<Portable, Fp64>> host{on_host[i]};
    auto const numbers = numbers_of(recorded);
    CHECK(numbers_of(TrainedRows<RowNet<RowGradient>, S, Gpu<Fp64>>{walked}) == numbers);
    auto const expected = numbers_of(host);
    REQUIRE(expected.size() == numbers.size());
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      CHECK(!(std::abs(numbers[n] - expected[n]) > 1e-12 * (1 + std::abs(expected[n]))));
    }
  }
}

TEST_CASE("gradients of rows on Cuda: memory is what is said of it, and scratch") {
  using S = DataParallel<2, Microbatches<2>, R>;
  TrainerOptions const options = test::row_options<Gpu<Fp32>>()[0];
  TrainedRows<RowNet<RowGradient>, S, Gpu<Fp32>, VirtualTransport> const rows{options};
  TrainedRows<RowNet<>, S, Gpu<Fp32>, VirtualTransport> const dense{options};
  auto const said = [&]<class Net>() { return device_memory<Net, S, Sgd, Fp32>(12, 0).gradients; };
  CHECK(rows.trainer.memory().gradients == said.template operator()<RowNet<RowGradient>>());
  CHECK(dense.trainer.memory().gradients == said.template operator()<RowNet<>>());
  // Numbers of both replicas, and the rows of one that are moved.
  std::int64_t const most = RowsTouched{.of_sample = test::row_time}.most(test::row_words, 3, 2);
  CHECK(rows.trainer.memory().scratch >= gradient_rows_bytes(most, 20, 4) + 2 * most * 4 * 5);
}

TEST_CASE("gradients of rows on Cuda: in fp16 the same steps are skipped, with the bits of dense") {
  TrainerOptions options = test::row_options<Gpu<Fp16>>()[0];
  options.loss_scaling = LossScaling{.initial = 0x1p24, .every = 100};
  using S = DataParallel<2, Microbatches<2>>;
  TrainedRows<RowNet<>, S, Gpu<Fp16>, VirtualTransport> const dense{options};
  TrainedRows<RowNet<RowGradient>, S, Gpu<Fp16>, VirtualTransport> const rows{options};
  test::check_same_rows(rows, dense);
  CHECK(rows.results.front().skipped);
  CHECK(!rows.results.back().skipped);
  for (std::size_t s = 0; s < rows.results.size(); ++s) {
    CHECK(rows.results[s].skipped == dense.results[s].skipped);
  }
}

#if defined(TANDEM_NCCL)
TEST_CASE("gradients of rows on Cuda: gathered by NCCL, walked and recorded, one device's bits") {
  if (tandem::cuda::device_count() < 2) {
    MESSAGE("skipped: needs 2 GPUs");
    return;
  }
  for (bool const record : {false, true}) {
    TrainerOptions options = test::row_options<Gpu<Fp32>>()[0];
    options.record = record;
    TrainedRows<RowNet<>, SingleDevice<Microbatches<4>, R>, Gpu<Fp32>> const one{options};
    TrainedRows<RowNet<RowGradient>, DataParallel<2, Microbatches<2>, R>, Gpu<Fp32>,
                NcclTransport> const two{options};
    test::check_same_rows(two, one);
  }
}
#endif

}  // namespace row_gradient_test
}  // namespace tandem

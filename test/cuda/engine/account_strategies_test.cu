// SPDX-License-Identifier: Apache-2.0

/// @file
/// The account of a step on several GPUs is what each of them captures: passes of stages, messages
/// and collectives with their bytes, and what is computed again.

#include <doctest/doctest.h>

#include <tandem/cuda.cuh>
#include <tandem/measure/account/step_account.hpp>

#if defined(TANDEM_CUDA_EMULATED) && defined(TANDEM_CUDNN) && defined(TANDEM_NCCL)

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <emulator/nccl_control.hpp>

#include <shared_channels.hpp>
#include <support/watchdog.hpp>
#include <tandem/comm/nccl/transport.hpp>
#include <tiled_images.hpp>
#include <tiny_network.hpp>

#include "account_support.hpp"

namespace tandem::test {
namespace account_strategies_test {

double bytes_of(cuda_emulator::NcclCall const& call) {
  bool const wide = call.type == ncclFloat64;
  bool const narrow = call.type == ncclBfloat16 || call.type == ncclFloat16;
  return static_cast<double>(call.count) * (wide ? 8 : narrow ? 2 : 4);
}

/// Each device of the first replica; and, of all, the bytes that NCCL's calls are given.
template <class Net, class S, class Precision, class Step>
void check_devices(AccountOptions options, std::vector<std::string> const& exact,
                   Step const& step) {
  Watchdog const watchdog{"an account of several GPUs"};
  Idle const idle;
  Trainer<Net, S, BasicCuda<CuDnn, Precision>, DefaultLoss<Net>, DefaultMetric<DefaultLoss<Net>>,
          NcclTransport>
      trainer{{.batch = options.batch, .clip_norm = options.clips ? 1.0 : 0.0, .record = true}};
  step(trainer);
  cuda_emulator::clear_nccl_calls();
  step(trainer);
  std::map<std::string, double> sent;
  for (auto const& call : cuda_emulator::nccl_calls()) {
    sent[call.operation] += call.captured ? bytes_of(call) : 0;
  }
  std::map<std::string, double> counted;
  for (int rank = 0; rank < S::ranks; ++rank) {
    CAPTURE(rank);
    options.device = S::mesh.coordinate(rank, Axis::model);
    options.slice = S::mesh.coordinate(rank, Axis::tensor);
    StepAccount const account = step_account<Net, S, Precision>(options);
    bool const first = S::mesh.coordinate(rank, Axis::data) == 0;  // others have other samples
    check_account(account, first ? exact : std::vector<std::string>{}, rank);
    for (AccountRow const& row : account.row) {
      std::string_view const kernel = row.launch.kernel;
      if (kernel == "ncclGroup") {
        counted["ncclSend"] += row.launch.read;
        counted["ncclRecv"] += row.launch.written;
      } else if (row.communicates()) {
        bool const writes =
            kernel == "ncclRecv" || kernel == "ncclReduceScatter";  // what they count
        counted[std::string{kernel}] += writes ? row.launch.written : row.launch.read;
      }
    }
  }
  CHECK(counted == sent);
}

template <class Net, class S, class Precision>
void check_images(AccountOptions const& options) {
  check_devices<Net, S, Precision>(options, libraries, [&](auto& trainer) {
    int const classes = static_cast<int>(trainer.output.elements());
    Samples<float> const data{trainer.input, classes, options.batch, 1};
    trainer.step(data.x, data.y);
  });
}

struct Normed
    : Network<Image<3, 8, 8>,
              Sequential<SyncBatchNorm2d<>, Conv2d<8, Kernel<3>, Padding<1>>, SyncBatchNorm2d<>,
                         ReLU, Conv2d<8, NoBias>, SyncBatchNorm2d<>, GlobalAvgPool, Linear<10>>> {};
TEST_CASE("the account of statistics that replicas join, and of those of one device") {
  check_images<Normed, DataParallel<2>, Fp32>({.batch = 16});
  check_images<Normed, DataParallel<2, Microbatches<2>, Wire<BFloat16>>, Bf16>(
      {.batch = 16, .clips = true});
  check_images<Normed, SingleDevice<>, Bf16>({.batch = 8});
}

template <int Out, class... Options>
using Block = Sequential<Conv2d<Out, Options...>, BatchNorm2d<>, ReLU>;
struct Stages
    : Network<Image<3, 8, 8>,
              Sequential<Block<8, Kernel<3>, Padding<1>>, Residual<Block<8, Kernel<3>, Padding<1>>>,
                         Concat<Block<8>, Block<8, Kernel<3>, Padding<1>>>, MaxPool2d<Kernel<2>>,
                         Block<16>, GlobalAvgPool, Linear<10>>> {};

TEST_CASE("the account of stages, and of what is computed again") {
  check_images<Stages, Pipeline<OneFOneB, 4, Split<3>, Split<4>, Checkpoint<Boundaries>>, Bf16>(
      {.batch = 16, .clips = true});
  check_images<Stages, ModelParallel<Split<3>, Split<4>, Microbatches<2>, Checkpoint<Every<2>>>,
               Bf16>({.batch = 16});
  check_images<Stages, Pipeline<Interleaved<2>, 2, Split<2>, Split<1>, Split<2>, Split<2>>, Tf32>(
      {.batch = 8});
}

TEST_CASE("the account of gradients in two passes, and of two copies of a model") {
  check_images<Stages, Pipeline<ZeroBubbleH1, 2, Split<3>, Split<4>>, Bf16>({.batch = 8});
  check_images<Stages, Pipeline<Chimera, 4, Split<3>, Split<4>>, Bf16>({.batch = 16});
}

inline constexpr auto placed = place<Stages>({{"1.body", 1}, {"2.1", 1}, {"4", 1}});
TEST_CASE("the account of sums in a fixed order, and of branches on devices of their own") {
  check_images<Stages, ModelParallel<Placed<placed>, Microbatches<4>, Reproducible<>>, Fp32>(
      {.batch = 8});
  check_images<Stages,
               Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<GPipe, 2, Split<3>, Split<4>>>,
               Fp32>({.batch = 16, .clips = true});
}

TEST_CASE("the account of replicas that have a part of the states each") {
  check_images<Stages, DataParallel<2, ShardedState, Wire<BFloat16>>, Bf16>({.batch = 16});
  check_images<Stages, DataParallel<2, ShardedState>, Bf16>({.batch = 16, .clips = true});
  check_images<Stages, DataParallel<2, Reproducible<>, ShardedState>, Fp32>({.batch = 16});
}

TEST_CASE("the account of replicas that have a part of the gradients each") {
  using Small = BucketBytes<512, 2048>;
  check_images<Stages, DataParallel<2, Small, Microbatches<2>, ShardedGradients>, Bf16>(
      {.batch = 16, .clips = true});
  check_images<Stages,
               Hybrid<DataParallel<2, Small, ShardedGradients>,
                      Pipeline<ZeroBubbleH1, 2, Split<3>, Split<4>>>,
               Fp32>({.batch = 16});
}

TEST_CASE("the account of replicas that have a part of the parameters each") {
  using Small = BucketBytes<512, 2048>;
  check_images<Stages, DataParallel<2, Small, Microbatches<2>, ShardedParameters>, Bf16>(
      {.batch = 16, .clips = true});
  check_images<Stages, DataParallel<2, Small, Reproducible<>, ShardedParameters>, Fp32>(
      {.batch = 16});
  check_images<Stages,
               Hybrid<DataParallel<2, Small, ShardedParameters>,
                      Pipeline<OneFOneB, 2, Split<3>, Split<4>, Checkpoint<Every<2>>>>,
               Bf16>({.batch = 16});
}

struct Text : models::Gpt<64, 16, 32, 2, 2> {};
TEST_CASE("the account of stages whose ends share the words") {
  check_devices<Text, Pipeline<OneFOneB, 2, Split<3>, Split<3>>, Bf16>(
      {.batch = 4}, {"cublasLtMatmul"}, [](auto& trainer) {
        std::vector<std::int32_t> const tokens(4 * 16, 3);
        trainer.step(tokens, tokens);
      });
}

/// What is dropped, turned and gated in the middle of rows is what a GPU has of them.
struct Shared
    : Network<Tokens<16, 64>,
              Sequential<
                  Embedding<64, 32>,
                  Residual<Sequential<LayerNorm<>, Linear<128>, Dropout<Percent<30>>,
                                      RotaryPositions<4, KeyHeads<2>>,
                                      Attention<4, Causal, KeyHeads<2>, Percent<20>>, Linear<32>>>,
                  Residual<Sequential<RmsNorm<>, Linear<96, NoBias>, SwiGlu, Linear<32>>>,
                  Vocabulary<64>>> {};
/// Rows in chunks of 24, of which microbatches of 32 have two.
struct Pieces
    : Network<Tokens<16, 64>, Sequential<Embedding<64, 32>, LayerNorm<>,
                                         Vocabulary<64, Chunked<20>, Smoothing<Percent<10>>>>> {};
TEST_CASE("the account of logits that are made again, and of words that GPUs share") {
  auto const step = [](auto& trainer) {
    std::vector<std::int32_t> const tokens(4 * 16, 3);
    trainer.step(tokens, tokens);
  };
  std::vector<std::string> const exact{"cublasLtMatmul"};
  check_devices<Pieces, SingleDevice<Microbatches<2>>, Fp32>({.batch = 4}, exact, step);
  using InTwo = TensorParallel<2, Microbatches<2>, SplitInputs<0>, SplitOutputs<2>>;
  check_devices<Pieces, InTwo, Fp32>({.batch = 4}, exact, step);
  check_devices<Pieces, InTwo, Bf16>({.batch = 4, .clips = true}, exact, step);
}

TEST_CASE("the account of layers that GPUs share, and of what they add") {
  auto const step = [](auto& trainer) {
    std::vector<std::int32_t> const tokens(4 * 16, 3);
    trainer.step(tokens, tokens);
  };
  std::vector<std::string> const exact{"cublasLtMatmul"};
  check_devices<Text, TensorParallel<2, Microbatches<2>, Checkpoint<Every<2>>>, Bf16>(
      {.batch = 4, .clips = true}, exact, step);
  check_devices<Shared, TensorParallel<2>, Tf32>({.batch = 4}, exact, step);
  check_devices<Text, TensorParallel<2, Reproducible<>>, Bf16>({.batch = 4}, exact, step);
  check_devices<Text, SingleDevice<Slices<2>>, Bf16>({.batch = 4}, exact, step);
  check_devices<Text, TensorParallel<2, Microbatches<2>, SplitInputs<0>>, Bf16>(
      {.batch = 4, .clips = true}, exact, step);
  check_devices<Shared, Hybrid<DataParallel<2>, TensorParallel<2, SequenceRows>>, Bf16>(
      {.batch = 8, .clips = true}, exact, [](auto& trainer) {
        std::vector<std::int32_t> const tokens(8 * 16, 3);
        trainer.step(tokens, tokens);
      });
}

TEST_CASE("the account of tiles, whose halos GPUs exchange") {
  using Parts = Pipeline<OneFOneB, 2, Split<3>, Split<5>>;
  check_images<TiledBlocks, SpatialParallel<2, 2, Microbatches<2>>, Bf16>(
      {.batch = 8, .clips = true});
  check_images<Tiles, SpatialParallel<3, 1, Checkpoint<Every<2>>>, Fp32>({.batch = 4});
  check_images<TiledBlocks, Hybrid<DataParallel<2>, SpatialParallel<1, 2>>, Tf32>({.batch = 8});
  check_images<TiledBlocks, Hybrid<Parts, SpatialParallel<2, 1>>, Bf16>({.batch = 8});
}

struct Recurrent
    : Network<Tokens<16, 64>,
              Sequential<Embedding<64, 32>, Dropout<Percent<10>>, Lstm<24, Projection<16>>,
                         Gru<16, Stateful>, Lstm<16, Stateful>, Gru<8>, Vocabulary<64>>> {};
TEST_CASE("the account of chunks of time") {
  auto const step = [](auto& trainer) {
    std::vector<std::int32_t> const tokens(4 * 16, 3);
    trainer.step(tokens, tokens);
  };
  std::vector<std::string> const exact{"cublasLtMatmul"};
  check_devices<Recurrent, Pipeline<OneFOneB, 2, Chunks<4>, Split<3>, Split<4>>, Tf32>(
      {.batch = 4, .clips = true}, exact, step);
  check_devices<Text, Pipeline<ZeroBubbleH1, 2, Chunks<2>, Split<3>, Split<3>>, Bf16>({.batch = 4},
                                                                                      exact, step);
  check_devices<Shared,
                Hybrid<Pipeline<GPipe, 1, Chunks<2>, Split<2>, Split<2>>, TensorParallel<2>>, Tf32>(
      {.batch = 4}, exact, step);
}

TEST_CASE("the account of channels that GPUs share") {
  check_images<Blocks, ChannelParallel<2, Microbatches<2>>, Bf16>({.batch = 8});
}

}  // namespace account_strategies_test
}  // namespace tandem::test

#endif

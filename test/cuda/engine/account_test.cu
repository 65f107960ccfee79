// SPDX-License-Identifier: Apache-2.0

/// @file
/// The account of a step is what the step consists of: kernel by kernel, as the emulator has
/// captured it, and byte by byte where the emulator knows operands.

#include <doctest/doctest.h>

#include <tandem/cuda.cuh>
#include <tandem/measure/account/step_account.hpp>

#if defined(TANDEM_CUDA_EMULATED) && defined(TANDEM_CUDNN)

#include <cstdint>
#include <string>
#include <vector>

#include <tiny_network.hpp>

#include "account_support.hpp"

namespace tandem::test {
namespace account_test {

template <class Net, class S, class Precision>
void check_images(AccountOptions const& options, std::vector<std::string> const& exact) {
  Idle const idle;
  Trainer<Net, S, BasicCuda<CuDnn, Precision>> trainer{
      {.batch = options.batch, .clip_norm = options.clips ? 1.0 : 0.0}};
  Samples<float> const data{trainer.input, 10, options.batch, 1};
  for (int step = 0; step < 2; ++step) {
    trainer.step(data.x, data.y);
  }
  check_account(step_account<Net, S, Precision>(options), exact);
}

struct Small : models::SmallCnn<10> {};
TEST_CASE("the account of a small network, of whole batches and of microbatches") {
  check_images<Small, SingleDevice<>, Tf32>({.batch = 12, .clips = true}, libraries);
  check_images<Small, SingleDevice<Microbatches<3>>, Bf16>({.batch = 48}, libraries);
}

struct Res : models::ResNet20<10> {};
TEST_CASE("the account of a ResNet") {
  check_images<Res, SingleDevice<>, Bf16>({.batch = 64}, libraries);
}

/// Every layer of images that the table has and the models have not.
struct Layers
    : Network<Image<3, 8, 8>,
              Sequential<Conv2d<8, Kernel<3>, Padding<1>>, SiLU, AvgPool2d<Kernel<2>, Stride<2>>,
                         Concat<Conv2d<8>, Sequential<Conv2d<16>, ReLU>>, Gelu,
                         Residual<Sequential<Conv2d<24, NoBias>, Sigmoid>>, Flatten, Linear<16>,
                         GeluTanh, Linear<12>, Tanh, Dropout<Percent<10>>, Linear<10>>> {};
TEST_CASE("the account of other layers") {
  check_images<Layers, SingleDevice<>, Bf16>({.batch = 8}, libraries);
  check_images<Layers, SingleDevice<>, Fp32>({.batch = 8}, libraries);
}

struct Google : models::GoogLeNet<10> {};
TEST_CASE("the account of GoogLeNet on 128 images in bf16") {
  check_images<Google, SingleDevice<>, Bf16>({.batch = 128}, libraries);
}

template <class Net, class Precision>
void check_text(int time, std::vector<std::string> const& exact) {
  Idle const idle;
  constexpr int batch = 4;
  Trainer<Net, SingleDevice<>, BasicCuda<CuDnn, Precision>> trainer{
      {.batch = batch, .optimizer = AdamW{}, .clip_norm = 1.0}};
  std::vector<std::int32_t> const tokens(static_cast<std::size_t>(batch * time), 3);
  for (int step = 0; step < 2; ++step) {
    trainer.step(tokens, tokens);
  }
  check_account(step_account<Net, SingleDevice<>, Precision>(
                    {.batch = batch, .optimizer = AdamW{}, .clips = true}),
                exact);
}

struct Text : models::Gpt<64, 128, 32, 2, 2> {};
struct Dropped : models::Gpt<64, 16, 32, 2, 1, Percent<10>> {};
TEST_CASE("the account of a GPT, with cuDNN's attention and with products") {
  check_text<Text, Bf16>(128, {"cublasLtMatmul"});
  check_text<Text, Tf32>(128, {"cublasLtMatmul"});
  check_text<Dropped, Bf16>(16, {"cublasLtMatmul"});
}

struct Rows;
struct Query;
/// Recurrent layers and what attends between them: the first without an input gradient to give.
struct Reader
    : Network<
          Tokens<24, 64>,
          Sequential<Embedding<64, 32>, Lstm<24, OneBias, Projection<16>, Bidirectional>, Let<Rows>,
                     Gru<40, NoBias>, Let<Query>, Join<Bahdanau<16>, Use<Query>, Use<Rows>>,
                     Lstm<16>, Gru<8, Bidirectional>, Vocabulary<64>>> {};
TEST_CASE("the account of recurrent layers and of additive attention") {
  check_text<Reader, Tf32>(24, {"cublasLtMatmul"});
  check_text<Reader, Bf16>(24, {"cublasLtMatmul"});
}

/// States that live on, and one that does not.
struct Lasting
    : Network<Tokens<24, 64>,
              Sequential<Embedding<64, 32>, Lstm<24, Projection<16>, Stateful>, Gru<8, Stateful>,
                         Lstm<16, Stateful>, Lstm<8>, Vocabulary<64>>> {};
TEST_CASE("the account of layers whose states live on") {
  check_text<Lasting, Tf32>(24, {"cublasLtMatmul"});
}

/// Words whose gradient is of rows, in one microbatch and in two.
struct SparseWords
    : Network<Tokens<24, 640>,
              Sequential<Embedding<640, 32, RowGradient>, Linear<16>, Vocabulary<640>>> {};
template <class S, class Precision>
void check_rows() {
  Idle const idle;
  Trainer<SparseWords, S, BasicCuda<CuDnn, Precision>> trainer{{.batch = 4, .clip_norm = 1.0}};
  std::vector<std::int32_t> const tokens(4 * 24, 3);
  for (int step = 0; step < 2; ++step) {
    trainer.step(tokens, tokens);
  }
  check_account(step_account<SparseWords, S, Precision>({.batch = 4, .clips = true}),
                {"cublasLtMatmul"});
}
TEST_CASE("the account of an embedding whose gradient is of rows") {
  check_rows<SingleDevice<>, Bf16>();
  check_rows<SingleDevice<Microbatches<2>>, Tf32>();
}

/// What Llama has.
struct Turned : Sequential<RmsNorm<>, Linear<64, NoBias>, RotaryPositions<4, KeyHeads<2>>,
                           Attention<4, Causal, KeyHeads<2>>, Linear<32, NoBias>> {};
struct Gated : Sequential<RmsNorm<>, Linear<48, NoBias>, SwiGlu, Linear<32, NoBias>> {};
struct Llama : Network<Tokens<24, 64>, Sequential<Embedding<64, 32>, Residual<Turned>,
                                                  Residual<Gated>, RmsNorm<>, Vocabulary<64>>> {};
TEST_CASE("the account of rotary positions, RMS norms and SwiGLU") {
  check_text<Llama, Tf32>(24, {"cublasLtMatmul"});
}

struct Groups
    : Network<Image<3, 8, 8>, Sequential<GroupNorm<1>, Conv2d<16>, GroupNorm<4>,
                                         Multiply<Conv2d<16>, Sequential<Conv2d<16>, Sigmoid>>,
                                         Flatten, Linear<12>, Softmax, Linear<10>>> {};
TEST_CASE("the account of group norms, products and softmax") {
  check_images<Groups, SingleDevice<>, Bf16>({.batch = 8}, libraries);
}

}  // namespace account_test
}  // namespace tandem::test

#endif

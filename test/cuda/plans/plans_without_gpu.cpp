// SPDX-License-Identifier: Apache-2.0
// cuDNN's own library is asked for plans of what the models compute on an H100, which it knows from
// a description: heuristics, engines and the compilation of their kernels, without a GPU. Exit
// status 77, "skipped", where cuDNN is older than 9.8.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>

#include <cudnn.h>

#include <tandem/kernels/cudnn/attention_plans.hpp>

#include "described_gpu.hpp"

namespace {

using namespace tandem;
using namespace tandem::cuda;

using cuda::detail::CuDnnTarget;

/// The bytes of workspace of a task's engine; -1: there is none.
std::int64_t workspace(AttentionTask const& task) {
  auto const engine =
      cuda::detail::find_engine(CuDnnTarget{described_gpu()}, task, attention_workspace_limit);
  return engine ? engine->workspace_bytes : -1;
}

void check_attention(AttentionShape const& shape, std::int64_t batch, bool lengths,
                     cudnnDataType_t type = CUDNN_DATA_BFLOAT16) {
  CAPTURE(shape.heads);
  CAPTURE(shape.key_heads);
  CAPTURE(shape.width);
  CAPTURE(shape.longest);
  CAPTURE(lengths);
  std::int64_t const time = shape.longest;
  std::int64_t const forward =
      workspace({AttentionPass::forward, shape, batch, time, lengths, type});
  CHECK(forward >= 0);
  CHECK(forward <= std::int64_t{64} << 10);
  std::int64_t const piece = attention_piece(shape, batch, time, attention_workspace_limit);
  std::int64_t const gradient =
      workspace({AttentionPass::gradient, shape, piece, time, lengths, type});
  CHECK(gradient >= 0);
  CHECK(gradient <= piece * attention_sample_bytes(shape, time));
}

TEST_CASE("cuDNN compiles attention: GPT-2's, and an encoder's with shared keys and lengths") {
  check_attention({12, 12, 64, 1024, true}, 8, false);
  check_attention({8, 2, 64, 200, false}, 3, true);
  check_attention({12, 12, 64, 1024, true}, 8, false, CUDNN_DATA_HALF);
}

// Minutes: for a new release of cuDNN, by --no-skip.
TEST_CASE("cuDNN compiles attention of every kind" * doctest::skip()) {
  for (bool const causal : {false, true}) {
    for (bool const lengths : {false, true}) {
      for (int const key_heads : {12, 4}) {
        check_attention({12, key_heads, 8, 2, causal}, 5, lengths);
        check_attention({12, key_heads, 40, 65, causal}, 5, lengths);
        check_attention({12, key_heads, 64, 256, causal}, 5, lengths);
        check_attention({12, key_heads, 128, 1025, causal}, 5, lengths);
        check_attention({12, key_heads, 256, 300, causal}, 5, lengths);
      }
    }
  }
  // One sample's scores are more than the limit.
  CHECK(workspace({AttentionPass::gradient, {12, 12, 64, 8192, true}, 1, 8192}) == -1);
}

TEST_CASE("what cuDNN has no engine for is found out, and is no error") {
  CHECK(workspace({AttentionPass::forward, {4, 4, 12, 64, true}, 2, 64}) == -1);
  CHECK(workspace({AttentionPass::gradient, {4, 4, 64, 64, true}, 2, 1}) == -1);
  CHECK(workspace({AttentionPass::forward, {4, 4, 64, 64, true}, 0, 64}) == -1);
}

TEST_CASE("a description that is not cuDNN's is refused") {
  CHECK_THROWS_AS(cuda::detail::describe_device("an H100"), CuDnnError);
}

}  // namespace

int main(int argc, char** argv) {
  if (cudnnGetVersion() < 90800) {
    std::printf("skipped: cuDNN before 9.8 makes no plans without a GPU\n");
    return 77;
  }
  return doctest::Context{argc, argv}.run();
}

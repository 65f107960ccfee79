// SPDX-License-Identifier: Apache-2.0
// cuDNN's own library is asked for plans of what the models compute on an H100, which it knows from
// a description: heuristics, engines and the compilation of their kernels, without a GPU. Exit
// status 77, "skipped", where cuDNN is older than 9.8.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include <cudnn.h>

#include <tandem/core/precision.hpp>
#include <tandem/graph/rewrite.hpp>
#include <tandem/kernels/cudnn/attention_plans.hpp>
#include <tandem/kernels/cudnn/convolution_plan.hpp>
#include <tandem/kernels/cudnn/data_type.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/models/resnet_imagenet.hpp>
#include <tandem/models/small_cnn.hpp>
#include <tandem/models/vgg.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/tandem.hpp>

namespace {

using namespace tandem;
using namespace tandem::cuda;

using cuda::detail::CuDnnTarget;

std::string h100() {
  std::ifstream file{TANDEM_TEST_DATA "/devices/h100.json"};
  return {std::istreambuf_iterator<char>{file}, {}};
}

BackendDescriptor const& device() {
  static BackendDescriptor const described = cuda::detail::describe_device(h100());
  return described;
}

/// The bytes of workspace of a task's engine; -1: there is none.
std::int64_t workspace(AttentionTask const& task) {
  auto const engine =
      cuda::detail::find_engine(CuDnnTarget{device()}, task, attention_workspace_limit);
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

/// The convolution of a layer type at an input, if it is one.
template <class L>
bool geometry_of(Shape in, ConvolutionGeometry& to) {
  if constexpr (requires { to = L::geometry(in); }) {
    to = L::geometry(in);
    return true;
  } else {
    return false;
  }
}

template <class Net, std::size_t... I>
constexpr auto geometries(std::index_sequence<I...>) {
  using Function = bool (*)(Shape, ConvolutionGeometry&);
  return std::array<Function, sizeof...(I)>{&geometry_of<Leaf<Net, static_cast<int>(I)>>...};
}

template <class Precision>
void check_convolution(ConvolutionGeometry const& geometry, std::set<std::string>& seen) {
  constexpr std::int64_t batch = 128;
  constexpr std::int64_t last = 80;  // of 50,000 samples
  ConvolutionTask task{.geometry = geometry,
                       .batch = batch,
                       .type = cuda::cudnn_type<typename Precision::Scalar>,
                       .tensor_cores = !std::same_as<Precision, Fp32>,
                       .precision = Precision::name};
  if (!seen.insert(to_string(task)).second) {
    return;
  }
  // As CuDnnConvolutionOp does: the last batch has what the others have, or 16 MiB.
  std::int64_t room = std::int64_t{16} << 20;
  for (std::int64_t const samples : {batch, last}) {
    std::int64_t const limit = samples == batch ? convolution_workspace_limit : room;
    for (ConvolutionPass const pass : {ConvolutionPass::forward, ConvolutionPass::input_gradient,
                                       ConvolutionPass::weight_gradient}) {
      task.batch = samples;
      task.pass = pass;
      auto const found = cuda::detail::find_engines(CuDnnTarget{device()}, task, limit, 1);
      INFO(to_string(task));
      REQUIRE(found.size() == 1);
      if (samples == batch) {
        room = std::max(room, (found[0].workspace_bytes + 255) / 256 * 256);
      }
    }
  }
}

template <class... Precision>
void check_in(ConvolutionGeometry const& geometry, std::set<std::string>& seen) {
  (check_convolution<Precision>(geometry, seen), ...);
}

/// Each convolution of a network alone, as under Reproducible, and siblings side by side.
/// @param merged  wide convolutions that there are
template <class Net>
void check_network(std::set<std::string>& seen, int merged = 0) {
  static constexpr auto nodes = rewrite(graph<Net>, BasicCuda<CuDnn>::rewrites);
  constexpr auto of_leaf = geometries<Net>(
      std::make_index_sequence<static_cast<std::size_t>(Leaves<typename Net::body>::size)>{});
  int convolutions = 0;
  int wide = 0;
  for (int n = 0; n < nodes.nodes; ++n) {
    Node const& node = nodes.node[n];
    ConvolutionGeometry geometry{};
    if (node.leaf >= 0 && of_leaf[static_cast<std::size_t>(node.leaf)](node.in, geometry)) {
      ++convolutions;
      check_in<Fp32, Tf32, Bf16, Fp16>(geometry, seen);
      if (node.width > node.out[0]) {
        ++wide;
        geometry.out_channels = node.width;
        check_in<Fp32, Tf32, Bf16, Fp16>(geometry, seen);
      }
    }
  }
  CHECK(convolutions > 0);
  CHECK(wide == merged);
}

TEST_CASE("cuDNN has an engine for each convolution of GoogLeNet, for a last batch too") {
  std::set<std::string> seen;
  check_network<models::GoogLeNet<10>>(seen, 9);
}

TEST_CASE("cuDNN has an engine for each convolution of the other models" * doctest::skip()) {
  std::set<std::string> seen;
  check_network<models::SmallCnn<10>>(seen);
  check_network<models::ResNet20<10>>(seen);
  check_network<models::ResNet50<1000>>(seen, 1);
  check_network<models::Vgg16<1000>>(seen);
  check_network<models::InceptionV3<1000>>(seen, 10);
}

}  // namespace

int main(int argc, char** argv) {
  if (cudnnGetVersion() < 90800) {
    std::printf("skipped: cuDNN before 9.8 makes no plans without a GPU\n");
    return 77;
  }
  return doctest::Context{argc, argv}.run();
}

// SPDX-License-Identifier: Apache-2.0
// Each convolution of the models, alone and beside its siblings, full and last batch: an engine,
// what it does beside the pass, and what it wants to be promised of addresses.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tandem/core/precision.hpp>
#include <tandem/graph/rewrite.hpp>
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

#include "described_gpu.hpp"

namespace tandem::cuda::detail {

template <>
inline constexpr auto cudnn_tag<cudnnBackendLayoutType_t> = CUDNN_TYPE_LAYOUT_TYPE;

}  // namespace tandem::cuda::detail

namespace {

using namespace tandem;
using namespace tandem::cuda;

using cuda::detail::CuDnnTarget;
using cuda::detail::Engine;

/// The engine that a task is given first.
Engine first_engine(ConvolutionTask const& task, std::int64_t limit) {
  INFO(to_string(task));
  auto found = cuda::detail::find_engines(CuDnnTarget{described_gpu()}, task, limit, 1);
  REQUIRE(found.size() == 1);
  return std::move(found[0]);
}

BackendDescriptor description(Engine const& engine) {
  return std::move(
      engine.configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
          .at(0));
}

/// Whether the engine says that it wants another layout than channels-last. cuDNN 9 says nothing
/// of any tensor, and nothing is no wish.
bool wants_another_layout(Engine const& engine) {
  for (BackendDescriptor const& info : description(engine).descriptors(
           CUDNN_ATTR_ENGINE_LAYOUT_INFO, CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR)) {
    auto const layouts = info.values<cudnnBackendLayoutType_t>(CUDNN_ATTR_LAYOUT_INFO_TYPES,
                                                               CUDNN_LAYOUT_TYPE_COUNT);
    if (std::find(layouts.begin(), layouts.end(), CUDNN_LAYOUT_TYPE_PREFERRED_NHWC) ==
        layouts.end()) {
      return true;
    }
  }
  return false;
}

/// Whether the workspace has room for a copy of an activation: no engine that converts or pads what
/// it reads does with less.
bool may_copy(ConvolutionTask const& task, Engine const& engine) {
  ConvolutionGeometry const& g = task.geometry;
  std::int64_t const scalar = task.type == CUDNN_DATA_FLOAT ? 4 : 2;
  std::int64_t const x = g.in_channels * g.in.height * g.in.width;
  std::int64_t const y = g.out_channels * g.out.height * g.out.width;
  return engine.workspace_bytes >= task.batch * std::min(x, y) * scalar;
}

/// The bytes of which addresses must be multiples for the engine that multiples of 16 bring.
std::int64_t wanted_alignment(ConvolutionTask task, Engine const& engine, std::int64_t limit) {
  auto const number = [](Engine const& of) {
    return description(of).number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  };
  for (task.alignment = task.type == CUDNN_DATA_FLOAT ? 4 : 2; task.alignment < 16;
       task.alignment *= 2) {
    auto const found = cuda::detail::find_engines(CuDnnTarget{described_gpu()}, task, limit, 1);
    if (!found.empty() && number(found[0]) == number(engine)) {
      return task.alignment;
    }
  }
  task.alignment = 256;
  INFO(to_string(task));
  CHECK(number(first_engine(task, limit)) == number(engine));
  return 16;
}

/// What the engines of one precision do, counted in passes.
struct Findings {
  int passes = 0;
  int copies = 0;  ///< may_copy()
  std::map<std::int64_t, int> alignment;
};

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

struct Seen {
  std::string alignment_of;  ///< one precision, since it takes most of the time; "": of each
  std::set<std::string> tasks{};
  std::map<std::string, Findings> findings{};  ///< by precision
};

/// Convolutions that tensor cores read and write where they lie, in two bytes: channels in whole
/// packs of 16 bytes, no image skipped.
bool read_as_it_lies(ConvolutionTask const& task) {
  ConvolutionGeometry const& g = task.geometry;
  return task.tensor_cores && task.type != CUDNN_DATA_FLOAT && g.in_channels % 8 == 0 &&
         g.out_channels % 8 == 0 && g.window.stride == Extent2d{1, 1} &&
         task.pass != ConvolutionPass::weight_gradient;
}

template <class Precision>
void check_convolution(ConvolutionGeometry const& geometry, Seen& seen) {
  constexpr std::int64_t batch = 128;
  constexpr std::int64_t last = 80;  // of 50,000 samples
  ConvolutionTask task{.geometry = geometry,
                       .batch = batch,
                       .type = cuda::cudnn_type<typename Precision::Scalar>,
                       .tensor_cores = !std::same_as<Precision, Fp32>,
                       .precision = Precision::name};
  if (!seen.tasks.insert(to_string(task)).second) {
    return;
  }
  Findings& findings = seen.findings[Precision::name];
  // As CuDnnConvolutionOp does: the last batch has what the others have, or 16 MiB.
  std::int64_t room = std::int64_t{16} << 20;
  for (std::int64_t const samples : {batch, last}) {
    std::int64_t const limit = samples == batch ? convolution_workspace_limit : room;
    for (ConvolutionPass const pass : {ConvolutionPass::forward, ConvolutionPass::input_gradient,
                                       ConvolutionPass::weight_gradient}) {
      task.batch = samples;
      task.pass = pass;
      Engine const engine = first_engine(task, limit);
      INFO(to_string(task));
      CHECK(!wants_another_layout(engine));
      if (samples != batch) {
        continue;
      }
      room = std::max(room, (engine.workspace_bytes + 255) / 256 * 256);
      ++findings.passes;
      if (seen.alignment_of.empty() || seen.alignment_of == Precision::name) {
        ++findings.alignment[wanted_alignment(task, engine, limit)];
      }
      bool const copies = may_copy(task, engine);
      findings.copies += copies ? 1 : 0;
      CHECK_FALSE((copies && read_as_it_lies(task)));
    }
  }
}

template <class... Precision>
void check_in(ConvolutionGeometry const& geometry, Seen& seen) {
  (check_convolution<Precision>(geometry, seen), ...);
}

/// Each convolution of a network alone, as under Reproducible, and siblings side by side.
/// @param merged  wide convolutions that there are
template <class Net>
void check_network(Seen& seen, int merged = 0) {
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
      if (node.fusion.width > node.out[0]) {
        ++wide;
        geometry.out_channels = node.fusion.width;
        check_in<Fp32, Tf32, Bf16, Fp16>(geometry, seen);
      }
    }
  }
  CHECK(convolutions > 0);
  CHECK(wide == merged);
}

/// Says what was found, for who has a new cuDNN to judge.
void report(Seen const& seen) {
  for (auto const& [precision, findings] : seen.findings) {
    std::ostringstream line;
    line << precision << ": " << findings.passes << " passes, " << findings.copies
         << " with room for a copy of an activation"
         << (findings.alignment.empty() ? "" : "; addresses of multiples of");
    for (auto const& [bytes, passes] : findings.alignment) {
      line << ' ' << bytes << " bytes (" << passes << ')';
    }
    MESSAGE(line.str());
  }
}

TEST_CASE("cuDNN has an engine for each convolution of GoogLeNet, for a last batch too") {
  Seen seen{.alignment_of = Bf16::name};
  check_network<models::GoogLeNet<10>>(seen, 9);
  report(seen);
}

TEST_CASE("cuDNN has an engine for each convolution of the other models" * doctest::skip()) {
  Seen seen{.alignment_of = ""};
  check_network<models::SmallCnn<10>>(seen);
  check_network<models::ResNet20<10>>(seen);
  check_network<models::ResNet18<10>>(seen);
  check_network<models::ResNet50<1000>>(seen, 1);
  check_network<models::Vgg16<1000>>(seen);
  check_network<models::Vgg16Bn<1000>>(seen);
  check_network<models::InceptionV3<1000>>(seen, 10);
  report(seen);
}

}  // namespace

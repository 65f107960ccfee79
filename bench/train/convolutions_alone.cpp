// SPDX-License-Identifier: Apache-2.0

/// @file
/// The convolutions of a training step of GoogLeNet and nothing else, by oneDNN as it likes it
/// best.
///
///   bench_convolutions_alone [--precision fp32|bf16] [--batch 128] [--threads 1] [--list 1]
///
/// Forward, input gradient and weight gradient of every convolution, each in the layouts that the
/// primitive itself asks for, so that nothing is ever reordered: no training step whose
/// convolutions are oneDNN's, one by one, can be faster. Weight gradients are fp32. Inputs stay in
/// memory from the forward to the backward pass, as in training; gradients of activations share
/// two buffers. Serves rounds as bench_googlenet does; --list prints each one's kernels and time.

#include <cstdio>

#if defined(TANDEM_ONEDNN)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tandem/graph/lower.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/team_size.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/runtime/host/buffer.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace {

namespace td = tandem;
namespace dnn = tandem::onednn;
using td::host::Buffer;

struct Net : td::models::GoogLeNet<10> {};

/// A convolution of the network, read off its graph.
struct Convolution {
  td::ConvolutionGeometry geometry{};
  bool bias = false;
  bool wants_input_gradient = false;
  int source = 0;  ///< the node that gives its input
};

template <int N>
void add_convolution(std::vector<Convolution>& list) {
  constexpr auto const& graph = td::graph<Net>;
  constexpr td::Node const& node = graph.node[N];
  if constexpr (node.kind == td::NodeKind::layer) {
    using L = td::Leaf<Net, graph.node[N].leaf>;
    if constexpr (requires(td::ConvolutionGeometry g) { g = L::geometry(node.in); }) {
      list.push_back({.geometry = L::geometry(node.in),
                      .bias = L::bias,
                      .wants_input_gradient = td::gives_input_gradient(graph, N),
                      .source = graph.source[node.first_edge]});
    }
  }
}

std::vector<Convolution> convolutions() {
  std::vector<Convolution> list;
  [&]<int... N>(std::integer_sequence<int, N...>) { (add_convolution<N>(list), ...); }
  (std::make_integer_sequence<int, td::graph<Net>.nodes>{});
  return list;
}

/// Small numbers of both signs, none a denormal.
Buffer filled(dnn::DescriptorView tensor, dnnl_data_type_t type) {
  Buffer buffer{static_cast<std::size_t>(dnn::bytes_of(tensor))};
  std::uint32_t word = 1;
  auto const next = [&word] {
    word = word * 1664525U + 1013904223U;
    return static_cast<float>(static_cast<std::int32_t>(word)) * 0x1p-36F;
  };
  if (type == dnnl_bf16) {
    std::generate_n(buffer.as<td::BFloat16>(), buffer.bytes() / 2,
                    [&] { return td::BFloat16{next()}; });
  } else {
    std::generate_n(buffer.as<float>(), buffer.bytes() / 4, next);
  }
  return buffer;
}

struct Problem {
  int batch;
  dnnl_data_type_t type;
};

/// One pass of one convolution with all that it reads and writes but the gradients of activations.
struct Pass {
  char const* name;
  dnn::Plan plan;
  dnn::Primitive primitive;
  std::vector<int> arguments;      ///< DNNL_ARG_…
  std::vector<std::byte*> tensor;  ///< of each
  double seconds = 0.0;

  [[nodiscard]] char const* kernel() const {
    char const* text = "";
    dnn::check(dnnl_primitive_desc_query(plan.get(), dnnl_query_impl_info_str, 0, &text));
    return text;
  }
};

class Step {
 public:
  explicit Step(Problem problem) : problem_{problem}, list_{convolutions()} {
    for (Convolution const& convolution : list_) {
      plan(convolution);
    }
    std::int64_t most[3] = {};  // x's gradient, y's gradient, scratch
    for (std::vector<Pass>* passes : {&forward_, &backward_}) {
      for (Pass const& pass : *passes) {
        for (int const argument : pass.arguments) {
          if (int const shared = shared_buffer(argument); shared >= 0) {
            most[shared] = std::max(most[shared], dnn::bytes_of(pass.plan.tensor(argument)));
          }
        }
        most[2] = std::max(most[2], pass.plan.scratch_bytes());
      }
    }
    for (int i = 0; i < 3; ++i) {
      shared_[i] = Buffer{static_cast<std::size_t>(most[i])};
    }
    std::fill_n(shared_[1].as<std::uint16_t>(), shared_[1].bytes() / 2, std::uint16_t{0x3c01});
    for (std::vector<Pass>* passes : {&forward_, &backward_}) {
      for (Pass& pass : *passes) {
        for (std::size_t i = 0; i < pass.arguments.size(); ++i) {
          if (int const shared = shared_buffer(pass.arguments[i]); shared >= 0) {
            pass.tensor[i] = shared_[shared].data();
          }
        }
      }
    }
  }

  /// All forward passes, then the backward passes from the last convolution to the first.
  void run() {
    for (std::vector<Pass>* passes : {&forward_, &backward_}) {
      for (Pass& pass : *passes) {
        run(pass);
      }
    }
  }

  /// @pre run() was called
  void list() {
    for (std::vector<Pass>* passes : {&forward_, &backward_}) {
      for (Pass& pass : *passes) {
        td::bench::Stopwatch const watch;
        run(pass);
        pass.seconds = watch.wall_s();
        std::printf("%-52s %-28s %9.3f ms\n", pass.name, pass.kernel(), 1e3 * pass.seconds);
      }
    }
  }

  [[nodiscard]] std::size_t size() const { return list_.size(); }
  [[nodiscard]] double macs() const {
    double sum = 0.0;
    for (Convolution const& c : list_) {
      sum += static_cast<double>(c.geometry.macs()) * (c.wants_input_gradient ? 3 : 2);
    }
    return sum * problem_.batch;
  }

 private:
  // The gradients of activations, which no later pass reads.
  static int shared_buffer(int argument) {
    return argument == DNNL_ARG_DIFF_SRC ? 0 : argument == DNNL_ARG_DIFF_DST ? 1 : -1;
  }

  void run(Pass& pass) {
    std::byte* const* const t = pass.tensor.data();
    if (pass.tensor.size() == 4) {
      pass.primitive.run(library_, shared_[2].data(), t[0], t[1], t[2], t[3]);
    } else {
      pass.primitive.run(library_, shared_[2].data(), t[0], t[1], t[2]);
    }
  }

  void plan(Convolution const& c) {
    td::ConvolutionGeometry const& g = c.geometry;
    td::expects(g.groups == 1, "bench_convolutions_alone: grouped convolutions are not written");
    td::Extent2d const k = g.window.kernel;
    auto const any = dnnl_format_tag_any;
    auto const x = dnn::make_descriptor({problem_.batch, g.in_channels, g.in.height, g.in.width},
                                        problem_.type, any);
    auto const y = dnn::make_descriptor({problem_.batch, g.out_channels, g.out.height, g.out.width},
                                        problem_.type, any);
    auto const weight = dnn::make_descriptor({g.out_channels, g.in_channels, k.height, k.width},
                                             problem_.type, any);
    auto const gradient =
        dnn::make_descriptor({g.out_channels, g.in_channels, k.height, k.width}, dnnl_f32, any);
    auto const vector = dnn::make_descriptor({g.out_channels}, dnnl_f32, dnnl_a);
    dnn::DescriptorView const bias = c.bias ? vector.get() : nullptr;
    dnn::WindowSteps const steps{{g.window.stride.height, g.window.stride.width},
                                 {g.window.padding.height, g.window.padding.width}};
    dnn::Attributes const attributes;
    dnnl_primitive_desc_t made = nullptr;
    dnn::check(dnn::convolution_forward(
        &made, library_.engine(), {x.get(), weight.get(), bias, y.get()}, steps, attributes.get()));
    dnn::Plan forward{made};
    dnn::check(dnn::convolution_weight_gradient(&made, library_.engine(),
                                                {x.get(), gradient.get(), bias, y.get()}, steps,
                                                forward.get(), attributes.get()));
    std::vector<Pass> backward;
    backward.push_back(
        pass(c, "weight gradient", dnn::Plan{made},
             {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS}));
    if (c.wants_input_gradient) {
      dnn::check(dnn::convolution_input_gradient(&made, library_.engine(),
                                                 {x.get(), weight.get(), nullptr, y.get()}, steps,
                                                 forward.get(), attributes.get()));
      backward.push_back(pass(c, "input gradient", dnn::Plan{made},
                              {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}));
    }
    forward_.push_back(pass(c, "forward", std::move(forward),
                            {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST}));
    for (Pass& one : backward) {
      backward_.insert(backward_.begin(), std::move(one));
    }
  }

  Pass pass(Convolution const& c, char const* name, dnn::Plan plan, std::vector<int> arguments) {
    if (!c.bias && arguments.size() == 4) {
      std::erase(arguments, arguments[2] == DNNL_ARG_BIAS ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS);
    }
    dnn::Primitive primitive{library_, plan, arguments};
    Pass made{.name = remember(to_string(c) + " " + name),
              .plan = std::move(plan),
              .primitive = std::move(primitive),
              .arguments = std::move(arguments),
              .tensor = {}};
    for (int const argument : made.arguments) {
      made.tensor.push_back(
          shared_buffer(argument) >= 0 ? nullptr : memory(c, argument, made.plan.tensor(argument)));
    }
    return made;
  }

  // Convolutions of one input read one tensor, wherever they want it in one layout.
  std::byte* memory(Convolution const& c, int argument, dnn::DescriptorView tensor) {
    bool const input = argument == DNNL_ARG_SRC;
    for (Input const& other : inputs_) {
      if (input && other.source == c.source && dnn::same_layout(other.layout.get(), tensor)) {
        return other.data;
      }
    }
    bool const wide =
        argument != DNNL_ARG_SRC && argument != DNNL_ARG_WEIGHTS && argument != DNNL_ARG_DST;
    buffers_.push_back(filled(tensor, wide ? dnnl_f32 : problem_.type));
    if (input) {
      inputs_.push_back({c.source, dnn::copy_of(tensor), buffers_.back().data()});
    }
    return buffers_.back().data();
  }

  static std::string to_string(Convolution const& c) {
    td::ConvolutionGeometry const& g = c.geometry;
    return std::to_string(g.in_channels) + " -> " + std::to_string(g.out_channels) + ", " +
           std::to_string(g.window.kernel.width) + "x" + std::to_string(g.window.kernel.height) +
           " at " + std::to_string(g.in.width) + ",";
  }
  char const* remember(std::string name) {
    names_.push_back(std::make_unique<std::string>(std::move(name)));
    return names_.back()->c_str();
  }

  struct Input {
    int source;
    dnn::Descriptor layout;
    std::byte* data;
  };

  Problem problem_;
  std::vector<Convolution> list_;
  dnn::Library library_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<Input> inputs_;
  std::vector<Buffer> buffers_;
  Buffer shared_[3];
  std::vector<Pass> forward_;
  std::vector<Pass> backward_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{argc, argv, {"precision", "batch", "threads", "list"}};
    std::string const precision = flags.text("precision", "fp32");
    td::expects(precision == "fp32" || precision == "bf16", "--precision is fp32 or bf16");
    int const threads = flags.number("threads", 1);
    dnn::TeamSize const team{threads};
    Step step{
        {.batch = flags.number("batch", 128), .type = precision == "bf16" ? dnnl_bf16 : dnnl_f32}};
    step.run();
    if (flags.number("list", 0) > 0) {
      step.list();
      return 0;
    }
    dnnl_version_t const* const version = dnnl_version();
    std::printf(
        "{\"onednn\": \"%d.%d.%d\", \"precision\": \"%s\", \"threads\": %d, \"convolutions\": %zu, "
        "\"flops\": %.6e}\n",
        version->major, version->minor, version->patch, precision.c_str(), threads, step.size(),
        2.0 * step.macs());
    td::bench::serve_rounds([&] { step.run(); });
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_convolutions_alone: %s\n", error.what());
    return 1;
  }
  return 0;
}

#else

int main() {
  std::fputs("bench_convolutions_alone: compiled without TANDEM_ONEDNN\n", stderr);
  return 2;
}

#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OnnxLayer of what computes on images: convolutions, their norms, pools, and other sizes.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/resample.hpp>
#include <tandem/layers/subsample2d.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/train/onnx/layers.hpp>

namespace tandem {

namespace detail {

inline OnnxGraph::Attributes window_attributes(Window const& w) {
  return {{"kernel_shape", OnnxInts{w.kernel.height, w.kernel.width}},
          {"strides", OnnxInts{w.stride.height, w.stride.width}},
          {"pads", OnnxInts{w.padding.height, w.padding.width, w.padding.height, w.padding.width}}};
}
inline OnnxGraph::Attributes dilated_window(Window const& w) {
  OnnxGraph::Attributes all = window_attributes(w);
  all.push_back({"dilations", OnnxInts{w.dilation.height, w.dilation.width}});
  return all;
}

/// Each group's numbers to mean 0 and variance 1, then weight and bias of the channels, if any.
TANDEM_ONCE std::string group_norm(OnnxNode const& n, int groups, double epsilon);

/// The rows or columns [first, first + count) of an image.
TANDEM_ONCE std::string part_of_image(OnnxGraph& g, std::string const& x, std::int64_t axis,
                                      std::int64_t first, std::int64_t count);

}  // namespace detail

template <int Out, class... Options>
struct OnnxLayer<Conv2d<Out, Options...>> {
  static std::string write(OnnxNode const& n) {
    constexpr auto const& options = Conv2d<Out, Options...>::options;
    OnnxGraph::Attributes attributes = detail::dilated_window(options.window);
    attributes.push_back({"group", std::int64_t{options.groups}});
    OnnxGraph::Names inputs{n.x, n.parameter(0)};
    if (n.has_parameter(1)) {
      inputs.push_back(n.parameter(1));
    }
    return n.graph("Conv", inputs, attributes);
  }
};

template <class... Options>
struct OnnxLayer<BatchNorm2d<Options...>> {
  static std::string write(OnnxNode const& n) {
    return n.graph("BatchNormalization",
                   {n.x, n.parameter(0), n.parameter(1), n.parameter(2), n.parameter(3)},
                   {{"epsilon", BatchNorm2d<Options...>::epsilon}});
  }
};
template <class... Options>
struct OnnxLayer<SyncBatchNorm2d<Options...>> : OnnxLayer<BatchNorm2d<Options...>> {};

template <class... Options>
struct OnnxLayer<MaxPool2d<Options...>> {
  static std::string write(OnnxNode const& n) {
    return n.graph("MaxPool", {n.x}, detail::dilated_window(MaxPool2d<Options...>::options.window));
  }
};
template <class... Options>
struct OnnxLayer<AvgPool2d<Options...>> {
  static std::string write(OnnxNode const& n) {
    constexpr bool excluded = (std::same_as<Options, ExcludePadding> || ...);
    auto attributes = detail::window_attributes(AvgPool2d<Options...>::options.window);
    attributes.push_back({"count_include_pad", std::int64_t{excluded ? 0 : 1}});
    return n.graph("AveragePool", {n.x}, attributes);
  }
};
template <>
struct OnnxLayer<GlobalAvgPool> {
  static std::string write(OnnxNode const& n) {
    return n.graph("Flatten", {n.graph("GlobalAveragePool", {n.x})});
  }
};
template <>
struct OnnxLayer<Flatten> {
  static std::string write(OnnxNode const& n) { return n.graph("Flatten", {n.x}); }
};

template <int Out, int Step>
struct OnnxLayer<Subsample2d<Out, Step>> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph& g = n.graph;
    std::int64_t const before = (Out - n.in[0]) / 2;
    std::int64_t const after = Out - n.in[0] - before;
    constexpr std::int64_t all = std::int64_t{1} << 31;
    std::string const some = g("Slice", {n.x, g.integers({0, 0}), g.integers({all, all}),
                                         g.integers({2, 3}), g.integers({Step, Step})});
    return g("Pad", {some, g.integers({0, before, 0, 0, 0, after, 0, 0})});
  }
};

template <int Out, class... Options>
struct OnnxLayer<ConvTranspose2d<Out, Options...>> {
  static std::string write(OnnxNode const& n) {
    using L = ConvTranspose2d<Out, Options...>;
    OnnxGraph::Attributes attributes = detail::dilated_window(L::options.window);
    attributes.push_back({"group", std::int64_t{L::options.groups}});
    detail::OnnxInts const more{L::output_padding.height, L::output_padding.width};
    attributes.push_back({"output_padding", more});
    OnnxGraph::Names inputs{n.x, n.parameter(0)};
    if (n.has_parameter(1)) {
      inputs.push_back(n.parameter(1));
    }
    return n.graph("ConvTranspose", inputs, attributes);
  }
};

template <int Count, class... Options>
struct OnnxLayer<GroupNorm<Count, Options...>> {
  static std::string write(OnnxNode const& n) {
    return detail::group_norm(n, Count, GroupNorm<Count, Options...>::epsilon);
  }
};
template <class... Options>
struct OnnxLayer<InstanceNorm2d<Options...>> {
  static std::string write(OnnxNode const& n) {
    return detail::group_norm(n, n.in[0], InstanceNorm2d<Options...>::epsilon);
  }
};

/// What is circular, by parts of the image: ONNX has it from opset 19 on.
template <class... Options>
struct OnnxLayer<Pad2d<Options...>> {
  using L = Pad2d<Options...>;
  static std::string write(OnnxNode const& n) {
    std::int64_t const rows = L::padding.height;
    std::int64_t const columns = L::padding.width;
    if (L::mode == PaddingMode::circular) {
      return around(n.graph, around(n.graph, n.x, 2, n.in[1], rows), 3, n.in[2], columns);
    }
    std::string_view const mode = L::mode == PaddingMode::zeros     ? "constant"
                                  : L::mode == PaddingMode::reflect ? "reflect"
                                                                    : "edge";
    return n.graph("Pad", {n.x, n.graph.integers({0, 0, rows, columns, 0, 0, rows, columns})},
                   {{"mode", mode}});
  }

 private:
  static std::string around(OnnxGraph& g, std::string const& x, std::int64_t axis,
                            std::int64_t size, std::int64_t padding) {
    if (padding == 0) {
      return x;
    }
    std::string const before = detail::part_of_image(g, x, axis, size - padding, padding);
    std::string const behind = detail::part_of_image(g, x, axis, 0, padding);
    return g("Concat", {before, x, behind}, {{"axis", axis}});
  }
};

template <int Scale, class Mode>
struct OnnxLayer<Upsample<Scale, Mode>> {
  static std::string write(OnnxNode const& n) {
    using std::string_view;
    constexpr bool bilinear = Upsample<Scale, Mode>::bilinear;
    constexpr float scales[] = {1.0F, 1.0F, Scale, Scale};
    return n.graph(
        "Resize", {n.x, "", n.graph.constant({4}, scales)},
        {{"mode", string_view{bilinear ? "linear" : "nearest"}},
         {"coordinate_transformation_mode", string_view{bilinear ? "half_pixel" : "asymmetric"}},
         {"nearest_mode", string_view{"floor"}}});
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string group_norm(OnnxNode const& n, int groups, double epsilon) {
  OnnxGraph& g = n.graph;
  auto const all = [&](float number) {
    return g.constant({groups}, std::vector<float>(static_cast<std::size_t>(groups), number));
  };
  std::string const apart = g("Reshape", {n.x, g.integers({0, groups, -1})});
  std::string const normed =
      g("InstanceNormalization", {apart, all(1.0F), all(0.0F)}, {{"epsilon", epsilon}});
  std::string y = g("Reshape", {normed, g("Shape", {n.x})});
  if (n.has_parameter(1)) {
    OnnxInts const channels = n.in.rank == 3 ? OnnxInts{-1, 1, 1} : OnnxInts{-1};
    auto const parameter = [&](int p) {
      return g("Reshape", {n.parameter(p), g.integers(channels)});
    };
    y = g("Add", {g("Mul", {y, parameter(0)}), parameter(1)});
  }
  return y;
}

TANDEM_ONCE std::string part_of_image(OnnxGraph& g, std::string const& x, std::int64_t axis,
                                      std::int64_t first, std::int64_t count) {
  return g("Slice", {x, g.integers({first}), g.integers({first + count}), g.integers({axis})});
}

}  // namespace tandem::detail

#endif

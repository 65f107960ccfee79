// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OnnxGraph: operators, constants, inputs and outputs, gathered into an ONNX model.
/// Source: onnx/onnx.proto, IR version 8; operators of opset 17, which onnxruntime has since 1.12

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>

namespace tandem::detail {

/// Fields one behind the other. A message within is a field of its bytes.
class Protobuf {
 public:
  Protobuf& integer(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  TANDEM_ONCE Protobuf& number(int field, float value);
  TANDEM_ONCE Protobuf& text(int field, std::string_view value);
  Protobuf& message(int field, Protobuf const& value) { return text(field, value.bytes_); }

  [[nodiscard]] std::string const& bytes() const& { return bytes_; }
  [[nodiscard]] std::string bytes() && { return std::move(bytes_); }

 private:
  void key(int field, unsigned type) { varint(static_cast<unsigned>(field) << 3U | type); }
  TANDEM_ONCE void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace tandem::detail

namespace tandem {

/// An attribute of an operator.
struct OnnxAttribute {
  using Ints = std::vector<std::int64_t>;
  std::string_view name;
  std::variant<std::int64_t, double, Ints, std::string_view> value;

  TANDEM_ONCE [[nodiscard]] detail::Protobuf encoded() const;
};

/// Values have names; each verb that makes one gives it.
class OnnxGraph {
 public:
  using Names = std::vector<std::string>;
  using Attributes = std::vector<OnnxAttribute>;
  using Ints = OnnxAttribute::Ints;
  /// Extents of a value; where one is not known, its name.
  using Extents = std::vector<std::variant<std::int64_t, std::string_view>>;
  static constexpr std::int64_t float_type = 1;
  static constexpr std::int64_t index_type = 7;  ///< 64-bit integers

  /// Says what the operators to come belong to, as viewers show it: "Conv2d 0.1".
  void begin(std::string owner) { owner_ = std::move(owner); }

  /// Several values of an operator of opset 17.
  TANDEM_ONCE Names add(std::string_view type, Names const& inputs, Attributes const& attributes,
                        int outputs, std::string_view only_name = {});
  /// One.
  std::string operator()(std::string_view type, Names const& inputs,
                         Attributes const& attributes = {}) {
    return add(type, inputs, attributes, 1)[0];
  }

  /// A constant, under the name of its own.
  std::string constant(std::string const& name, Ints const& extents, std::span<float const> data) {
    return initializer(name, extents, float_type, std::as_bytes(data));
  }
  std::string constant(Ints const& extents, std::span<float const> data) {
    return constant("c" + std::to_string(values_++), extents, data);
  }
  /// One number, a list of integers, or one integer.
  std::string scalar(double value) {
    float const number = static_cast<float>(value);
    return constant({}, std::span{&number, 1});
  }
  std::string integers(Ints const& list) {
    return initializer("c" + std::to_string(values_++), {static_cast<std::int64_t>(list.size())},
                       index_type, std::as_bytes(std::span{list}));
  }

  std::string index(std::int64_t value) {
    return initializer("c" + std::to_string(values_++), {}, index_type,
                       std::as_bytes(std::span{&value, 1}));
  }

  void input(std::string_view name, std::int64_t type, Extents const& extents) {
    graph_.message(11, value_info(name, type, extents));
  }
  /// @p value is the model's output, under this name.
  void output(std::string const& value, std::string_view name, Extents const& extents) {
    add("Identity", {value}, {}, 1, name);
    graph_.message(12, value_info(name, float_type, extents));
  }

  /// The model's file; nothing is left of the graph. Cost: a copy of it.
  TANDEM_ONCE [[nodiscard]] std::string model(std::string_view name) &&;

 private:
  TANDEM_ONCE std::string initializer(std::string const& name, Ints const& extents,
                                      std::int64_t type, std::span<std::byte const> data);

  TANDEM_ONCE static detail::Protobuf value_info(std::string_view name, std::int64_t type,
                                                 Extents const& extents);

  detail::Protobuf graph_;
  std::string owner_;
  int values_ = 0;
  int operators_ = 0;
};

/// A layer on its way into an OnnxGraph.
struct OnnxNode {
  OnnxGraph& graph;
  GraphView network;
  Node const& node;
  std::string x;       ///< the value of its input, (N, in); of a Join's rule, of the first
  Shape in = node.in;  ///< of a sample; of one that is timed the rows are not known
  Shape out = node.out;
  OnnxGraph::Names inputs{};  ///< the values of all its inputs

  /// The name of its parameter number @p p.
  [[nodiscard]] std::string parameter(int p) const {
    return parameter_name(network, node.first_parameter + p);
  }
  [[nodiscard]] bool has_parameter(int p) const { return p < node.parameters; }
  /// The last axis of x.
  [[nodiscard]] int channels() const { return in[in.rank - 1]; }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Protobuf& Protobuf::number(int field, float value) {
  key(field, 5);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // little-endian
  bytes_.append(bytes, sizeof bytes);
  return *this;
}

TANDEM_ONCE Protobuf& Protobuf::text(int field, std::string_view value) {
  key(field, 2);
  varint(value.size());
  bytes_.append(value);
  return *this;
}

TANDEM_ONCE void Protobuf::varint(std::uint64_t value) {
  for (; value >= 128; value >>= 7U) {
    bytes_ += static_cast<char>(value | 128U);
  }
  bytes_ += static_cast<char>(value);
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE detail::Protobuf OnnxAttribute::encoded() const {
  detail::Protobuf message;
  message.text(1, name);
  if (auto const* const integer = std::get_if<std::int64_t>(&value)) {
    message.integer(3, *integer).integer(20, 2);
  } else if (auto const* const number = std::get_if<double>(&value)) {
    message.number(2, static_cast<float>(*number)).integer(20, 1);
  } else if (auto const* const word = std::get_if<std::string_view>(&value)) {
    message.text(4, *word).integer(20, 3);
  } else {
    for (std::int64_t const element : *std::get_if<Ints>(&value)) {
      message.integer(8, element);
    }
    message.integer(20, 7);
  }
  return message;
}

TANDEM_ONCE OnnxGraph::Names OnnxGraph::add(std::string_view type, Names const& inputs,
                                            Attributes const& attributes, int outputs,
                                            std::string_view only_name) {
  detail::Protobuf node;
  for (std::string const& input : inputs) {
    node.text(1, input);
  }
  Names made;
  for (int i = 0; i < outputs; ++i) {
    made.push_back(only_name.empty() ? "t" + std::to_string(values_++) : std::string{only_name});
    node.text(2, made.back());
  }
  node.text(3, owner_ + "#" + std::to_string(operators_++)).text(4, type);
  for (OnnxAttribute const& attribute : attributes) {
    node.message(5, attribute.encoded());
  }
  graph_.message(1, node);
  return made;
}

TANDEM_ONCE std::string OnnxGraph::model(std::string_view name) && {
  graph_.text(2, name);
  detail::Protobuf opset;
  opset.text(1, "").integer(2, 17);
  detail::Protobuf model;
  model.integer(1, 8).text(2, "tandem").message(7, std::exchange(graph_, {})).message(8, opset);
  return std::move(model).bytes();
}

TANDEM_ONCE std::string OnnxGraph::initializer(std::string const& name, Ints const& extents,
                                               std::int64_t type, std::span<std::byte const> data) {
  detail::Protobuf tensor;
  for (std::int64_t const extent : extents) {
    tensor.integer(1, extent);
  }
  tensor.integer(2, type).text(8, name);
  tensor.text(9, {reinterpret_cast<char const*>(data.data()), data.size()});
  graph_.message(5, tensor);
  return name;
}

TANDEM_ONCE detail::Protobuf OnnxGraph::value_info(std::string_view name, std::int64_t type,
                                                   Extents const& extents) {
  detail::Protobuf shape;
  for (auto const& extent : extents) {
    detail::Protobuf dimension;
    if (auto const* const number = std::get_if<std::int64_t>(&extent)) {
      dimension.integer(1, *number);
    } else {
      dimension.text(2, *std::get_if<std::string_view>(&extent));
    }
    shape.message(1, dimension);
  }
  detail::Protobuf tensor;
  tensor.integer(1, type).message(2, shape);
  detail::Protobuf kind;
  kind.message(1, tensor);
  detail::Protobuf info;
  return info.text(1, name).message(2, kind);
}

}  // namespace tandem

#endif

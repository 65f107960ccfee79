// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a Machine from a JSON file. All keys but "adapters", which is 1 if it is not given, are
/// there, in any order, such as
///
///     {"name": "my box", "devices_per_node": 4, "nodes": 0, "adapters": 2,
///      "peak": {"fp64": 9.7e12, "fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12},
///      "efficiency": 0.6, "memory_bandwidth": 1.5e12, "memory": 40e9, "launch_overhead": 4e-6,
///      "inside": {"bandwidth": 240e9, "latency": 3e-6},
///      "between": {"bandwidth": 20e9, "latency": 14e-6}}
///
/// Three more may be there, with all their keys: "kernels" is the KernelCurve of products in bf16
/// and fp16, "fabric" the switches between nodes, "slow_nodes" what a step is expected to wait for:
///
///     "kernels": {"share": 0.8, "half_side": 64, "half_depth": 96, "attention_share": 0.5,
///                 "memory_share": 0.8},
///     "fabric": {"leaf_nodes": 16, "oversubscription": 2},
///     "slow_nodes": {"share": 0.01, "by": 0.1},
///     "cpus": 1  (0 if it is not there: GPUs)
///
/// Units and meaning are those of the members of Machine.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/json/fields.hpp>
#include <tandem/io/json/value.hpp>
#include <tandem/plan/machine/kernel_curve.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

namespace detail {

// What a file may say, wide enough for every machine and so narrow that no time or size that is
// computed of it is infinite or 0.
inline constexpr double most_seconds = 1e6;
inline constexpr double most_rate = 1e18;  // bytes a second
inline constexpr double most_math = 1e24;  // operations a second

}  // namespace detail

/// Reads the text of a machine file; @p path names it in errors.
/// @throws FileError  one sentence with line and column: the text is not JSON, a key is missing,
///                    unknown or twice there, a value is of another type or range
TANDEM_ONCE [[nodiscard]] Machine parse_machine(std::string_view text, std::string const& path);

/// Reads a machine file.
/// @throws FileError  the file cannot be read, is larger than 1 MiB, or as parse_machine()
TANDEM_ONCE [[nodiscard]] Machine read_machine(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE LinkSpeed link_of_json(JsonValue const& object, std::string const& path) {
  JsonFields const fields{object, {"bandwidth", "latency"}, path};
  return {.bandwidth = fields.positive("bandwidth", 1, most_rate),
          .latency = fields.not_negative("latency", most_seconds)};
}

TANDEM_ONCE KernelCurve kernels_of_json(JsonValue const& object, std::string const& path) {
  JsonFields const fields{
      object, {"share", "half_side", "half_depth", "attention_share", "memory_share"}, path};
  return {.share = fields.share("share"),
          .half_side = fields.not_negative("half_side", 1e6),
          .half_depth = fields.not_negative("half_depth", 1e6),
          .attention_share = fields.share("attention_share"),
          .memory_share = fields.share("memory_share")};
}

TANDEM_ONCE Fabric fabric_of_json(JsonValue const& object, std::string const& path) {
  JsonFields const fields{object, {"leaf_nodes", "oversubscription"}, path};
  return {.leaf_nodes = static_cast<int>(fields.whole("leaf_nodes", 1, 1'000'000)),
          .oversubscription = fields.positive("oversubscription", 1, 1e6)};
}

TANDEM_ONCE SlowNodes slow_nodes_of_json(JsonValue const& object, std::string const& path) {
  JsonFields const fields{object, {"share", "by"}, path};
  return {.share = fields.share("share"), .by = fields.not_negative("by", 1000)};
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Machine parse_machine(std::string_view text, std::string const& path) {
  constexpr std::int64_t many = 1'000'000;
  constexpr std::int64_t largest = std::int64_t{1} << 53;  // of the integers that doubles hold
  detail::JsonValue const file = detail::read_json(text, path);
  detail::JsonFields const fields{
      file,
      {"name", "devices_per_node", "nodes", "peak", "efficiency", "memory_bandwidth", "memory",
       "launch_overhead", "inside", "between"},
      path,
      {"adapters", "kernels", "fabric", "slow_nodes", "cpus"}};
  detail::JsonFields const peak{fields.object("peak"), {"fp64", "fp32", "tf32", "bf16"}, path};
  std::int64_t const devices = fields.whole("devices_per_node", 1, many);
  return {.name = fields.string("name"),
          .devices_per_node = static_cast<int>(devices),
          .nodes = static_cast<int>(fields.whole("nodes", 0, many)),
          .adapters =
              fields.has("adapters") ? static_cast<int>(fields.whole("adapters", 1, devices)) : 1,
          .peak = {.fp64 = peak.positive("fp64", 1, detail::most_math),
                   .fp32 = peak.positive("fp32", 1, detail::most_math),
                   .tf32 = peak.positive("tf32", 1, detail::most_math),
                   .bf16 = peak.positive("bf16", 1, detail::most_math)},
          .efficiency = fields.share("efficiency"),
          .memory_bandwidth = fields.positive("memory_bandwidth", 1, detail::most_rate),
          .memory = fields.whole("memory", 1, largest),
          .launch_overhead = fields.not_negative("launch_overhead", detail::most_seconds),
          .kernels = fields.has("kernels") ? detail::kernels_of_json(fields.object("kernels"), path)
                                           : KernelCurve{},
          .inside = detail::link_of_json(fields.object("inside"), path),
          .between = detail::link_of_json(fields.object("between"), path),
          .fabric = fields.has("fabric") ? detail::fabric_of_json(fields.object("fabric"), path)
                                         : Fabric{},
          .slow = fields.has("slow_nodes")
                      ? detail::slow_nodes_of_json(fields.object("slow_nodes"), path)
                      : SlowNodes{},
          .cpus = fields.has("cpus") && fields.whole("cpus", 0, 1) == 1};
}

TANDEM_ONCE Machine read_machine(std::string const& path) {
  return parse_machine(detail::characters_of(read_file(path, std::size_t{1} << 20)), path);
}

}  // namespace tandem

#endif

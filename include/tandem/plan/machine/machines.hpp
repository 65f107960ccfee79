// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Machines that the planner knows by name: find_machine("dgx-h100").
///
/// Math, memory and links are the vendor's dense peaks, links at what collectives achieve of them;
/// latencies are those of a step of a ring in NCCL's own model (src/graph/tuning.cc, ring with the
/// simple protocol: 3.4 µs over NVLink, 5.7 over PCIe, 14 over the network). A measured machine is
/// better than any of these: json.hpp reads one from a file.

#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/plan/machine/kernel_curve.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// The share of a link's peak that NCCL's large all-reduces achieve: about 130 of 150 GB/s on a
/// DGX-1, 235 of 300 on a DGX A100, 365 of 450 on a DGX H100 (bus bandwidth of nccl-tests).
inline constexpr double link_share = 0.8;

namespace detail {

inline constexpr double nvlink_latency = 3.4e-6;
inline constexpr double pcie_latency = 5.7e-6;
inline constexpr double network_latency = 14e-6;
/// About; from one kernel to the next in a stream that never runs dry it is 2 to 5 µs.
inline constexpr double gpu_launch = 4e-6;

/// Derived: of tiles of 128 × 128 the last of a side is half empty, 64; the sum's loop loads three
/// parts of 32 before it multiplies, 96. Fitted to ResNet-50 of MLPerf v0.7 on one node of V100 and
/// one of A100: passes over large tensors achieve 0.9 of the memory's peak.
constexpr KernelCurve tensor_cores(double share, double attention) {
  return {.share = share,
          .half_side = 64,
          .half_depth = 96,
          .attention_share = attention,
          .memory_share = 0.9};
}

}  // namespace detail

/// Eight V100 SXM2 of 16 GB. Sources: NVIDIA V100 data sheet (7.8 / 15.7 / 125 Top/s, bf16 being
/// fp16; 900 GB/s; six NVLinks of 25 GB/s each way), DGX-1 data sheet (four EDR InfiniBand adapters
/// of 100 Gb/s: 6.25 GB/s a device, 12.5 if only one of two sends). Kernels: 0.74 is fitted to
/// ResNet-50 and GNMT of MLPerf v0.7 on one node; fused attention's 0.4 is about.
TANDEM_ONCE Machine dgx1_v100();

/// Eight A100 SXM4 of 80 GB. Sources: NVIDIA A100 data sheet (19.5 / 19.5 / 156 / 312 Top/s, fp64
/// on tensor cores; 2,039 GB/s; NVLink 600 GB/s, both ways together), DGX A100 data sheet (eight
/// InfiniBand adapters of 200 Gb/s: 25 GB/s a device). Kernels: 0.72 is fitted to steps of one
/// node, two of Korthikanti et al., arXiv:2205.05198, table 5, with 22 G weights, and ResNet-50 and
/// GNMT of MLPerf v0.7; fused attention's 0.55 is
/// of the 50 to 73 % that FlashAttention-2 achieves (Dao, arXiv:2307.08691, abstract).
TANDEM_ONCE Machine dgx_a100();

/// Eight H100 SXM5 of 80 GB. Sources: NVIDIA H100 data sheet (67 / 67 / 495 / 989 Top/s, fp64 on
/// tensor cores, the last two half of what it prints for sparse matrices; 3.35 TB/s; NVLink 900
/// GB/s, both ways together), DGX H100 data sheet (eight adapters of 400 Gb/s: 50 GB/s a device).
/// Kernels, not fitted: large products at about 710 Top/s; fused attention's 0.4 is
/// between FlashAttention-2's 35 % and the 75 % of FlashAttention-3 (Shah et al., arXiv:2407.08608,
/// abstract).
TANDEM_ONCE Machine dgx_h100();

/// Eight H200 SXM: a DGX H100 but for its memory. Source: NVIDIA H200 data sheet (141 GB, 4.8
/// TB/s). Kernels: fitted to 94 products that bench/plan/time_products.py timed on one, 128 to
/// 49,152 a side, to 4.8 % in the median and 49 % at most, of the products of 128 columns.
TANDEM_ONCE Machine dgx_h200();

/// Eight A100 cards of 80 GB on PCIe 4.0 x16, without NVLink bridges; one 100 Gb/s Ethernet adapter
/// a box, 1.56 GB/s a device. Sources: NVIDIA A100 data sheet (1,935 GB/s; else as SXM4), PCI
/// Express 4.0 (16 GT/s × 16 lanes × 128/130: 31.5 GB/s each way, of which headers leave about 26).
/// Cards that share a switch have less when all send to the other switch; that is not modelled.
TANDEM_ONCE Machine pcie_box();

/// Two devices of a process, each one CPU core with AVX-512. All of it is about and to be replaced
/// by a measurement: 3 GHz × 2 units × 16 lanes × 2 operations = 192 Gop/s in fp32, half of it in
/// fp64, twice in bf16 (AVX512-BF16); 8 GB/s of memory and of copies to the other device, 2 µs to
/// wake its thread; 8 GB of memory each.
TANDEM_ONCE Machine two_cpus();

/// The names that find_machine() knows, for messages.
inline constexpr std::string_view machine_names[] = {
    "dgx-1-v100", "dgx-a100", "dgx-h100", "dgx-h200", "gb200-nvl72", "pcie-box", "two-cpus"};

/// The machine of that name, or null. It lives as long as the program.
TANDEM_ONCE [[nodiscard]] Machine const* find_machine(std::string_view name);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Machine dgx1_v100() {
  return {.name = "dgx-1-v100",
          .devices_per_node = 8,
          .adapters = 4,
          .peak = {.fp64 = 7.8e12, .fp32 = 15.7e12, .tf32 = 15.7e12, .bf16 = 125e12},
          .memory_bandwidth = 900e9,
          .memory = 16'000'000'000,
          .launch_overhead = detail::gpu_launch,
          .kernels = detail::tensor_cores(0.74, 0.4),
          .inside = {.bandwidth = link_share * 150e9, .latency = detail::nvlink_latency},
          .between = {.bandwidth = link_share * 6.25e9, .latency = detail::network_latency}};
}

TANDEM_ONCE Machine dgx_a100() {
  return {.name = "dgx-a100",
          .devices_per_node = 8,
          .adapters = 8,
          .peak = {.fp64 = 19.5e12, .fp32 = 19.5e12, .tf32 = 156e12, .bf16 = 312e12},
          .memory_bandwidth = 2039e9,
          .memory = 80'000'000'000,
          .launch_overhead = detail::gpu_launch,
          .kernels = detail::tensor_cores(0.72, 0.55),
          .inside = {.bandwidth = link_share * 300e9, .latency = detail::nvlink_latency},
          .between = {.bandwidth = link_share * 25e9, .latency = detail::network_latency}};
}

TANDEM_ONCE Machine dgx_h100() {
  return {.name = "dgx-h100",
          .devices_per_node = 8,
          .adapters = 8,
          .peak = {.fp64 = 67e12, .fp32 = 67e12, .tf32 = 495e12, .bf16 = 989e12},
          .memory_bandwidth = 3.35e12,
          .memory = 80'000'000'000,
          .launch_overhead = detail::gpu_launch,
          .kernels = detail::tensor_cores(0.72, 0.4),
          .inside = {.bandwidth = link_share * 450e9, .latency = detail::nvlink_latency},
          .between = {.bandwidth = link_share * 50e9, .latency = detail::network_latency}};
}

TANDEM_ONCE Machine dgx_h200() {
  Machine machine = dgx_h100();
  machine.name = "dgx-h200";
  machine.memory_bandwidth = 4.8e12;
  machine.memory = 141'000'000'000;
  machine.kernels.share = 0.763;
  machine.kernels.half_side = 0.0;
  machine.kernels.half_depth = 285.0;
  return machine;
}

/// 72 Blackwell devices in one NVLink domain, which is a node here. Source: NVIDIA GB200 NVL72 data
/// sheet, a 72nd of its figures (40 / 80 / 1,250 / 2,500 Top/s, the last two half of what it prints
/// for sparse matrices; 186 GB, 8 TB/s; NVLink 1.8 TB/s, both ways together); an adapter of 400
/// Gb/s a device. Its kernels are taken to be an H100's.
TANDEM_ONCE Machine gb200_nvl72() {
  return {.name = "gb200-nvl72",
          .devices_per_node = 72,
          .adapters = 72,
          .peak = {.fp64 = 40e12, .fp32 = 80e12, .tf32 = 1250e12, .bf16 = 2500e12},
          .memory_bandwidth = 8e12,
          .memory = 186'000'000'000,
          .launch_overhead = detail::gpu_launch,
          .kernels = dgx_h100().kernels,
          .inside = {.bandwidth = link_share * 900e9, .latency = detail::nvlink_latency},
          .between = {.bandwidth = link_share * 50e9, .latency = detail::network_latency}};
}

TANDEM_ONCE Machine pcie_box() {
  Machine machine = dgx_a100();
  machine.name = "pcie-box";
  machine.adapters = 1;
  machine.memory_bandwidth = 1935e9;
  machine.inside = {.bandwidth = link_share * 31.5e9, .latency = detail::pcie_latency};
  machine.between = {.bandwidth = link_share * 12.5e9 / 8, .latency = detail::network_latency};
  return machine;
}

TANDEM_ONCE Machine two_cpus() {
  LinkSpeed const copy{.bandwidth = 8e9, .latency = 2e-6};
  return {.name = "two-cpus",
          .devices_per_node = 2,
          .nodes = 1,
          .peak = {.fp64 = 96e9, .fp32 = 192e9, .tf32 = 192e9, .bf16 = 384e9},
          .memory_bandwidth = 8e9,
          .memory = 8'000'000'000,
          .launch_overhead = 1e-6,
          .inside = copy,
          .between = copy,
          .cpus = true};
}

TANDEM_ONCE Machine const* find_machine(std::string_view name) {
  static Machine const machines[] = {dgx1_v100(),   dgx_a100(), dgx_h100(), dgx_h200(),
                                     gb200_nvl72(), pcie_box(), two_cpus()};
  for (Machine const& machine : machines) {
    if (machine.name == name) {
      return &machine;
    }
  }
  return nullptr;
}

}  // namespace tandem

#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// account_text: a step's account as tables: by kernel, and by layer with its passes' times on a
/// machine.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/measure/account/step_account.hpp>
#include <tandem/plan/machine/machine.hpp>

namespace tandem {

/// Seconds of a launch on a device of @p machine, by its roofline: the longer of its operations at
/// the achieved rate and of its bytes at the memory's. In a recorded step a kernel follows another
/// within a microsecond or so, which is not in it.
[[nodiscard]] inline double roofline_seconds(cuda::Launch const& launch, Machine const& machine,
                                             MathPrecision precision) {
  return std::max(launch.operations / machine.math(precision),
                  (launch.read + launch.written) / machine.memory_bandwidth);
}

namespace detail {

struct AccountLine {
  std::string name{};
  double seconds = 0;
  cuda::Launch sum{.times = 0};

  TANDEM_ONCE void add(cuda::Launch const& launch, double more);
  TANDEM_ONCE [[nodiscard]] std::string text() const;
};

TANDEM_ONCE AccountLine& line_of(std::vector<AccountLine>& lines, std::string_view name);

}  // namespace detail

/// Two tables, of the nodes with their passes in the order of the step, and of the kernels, the
/// dearest first; then the total. Times are roofline_seconds() of each kernel; messages and
/// collectives have bytes, and no time, since that is the links'.
TANDEM_ONCE [[nodiscard]] std::string account_text(StepAccount const& account,
                                                   std::string const& title, Machine const& machine,
                                                   MathPrecision precision);

/// What `describe --backend cuda` prints: step_account() of each device of a replica as text.
///
///   std::puts(describe_cuda<Net, SingleDevice<>, Bf16>({.batch = 128}, dgx_h100()).c_str());
template <class Net, class S = SingleDevice<>, class Precision = Tf32>
[[nodiscard]] std::string describe_cuda(AccountOptions const& options, Machine const& machine,
                                        std::string const& title = "Network") {
  constexpr MathPrecision math = std::is_same_v<Precision, Fp32>   ? MathPrecision::fp32
                                 : std::is_same_v<Precision, Tf32> ? MathPrecision::tf32
                                                                   : MathPrecision::bf16;
  std::string text;
  for (AccountOptions own = options; own.device < S::devices; ++own.device) {
    text += account_text(step_account<Net, S, Precision>(own), title + " in " + Precision::name,
                         machine, math);
  }
  return text;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string AccountLine::text() const {
  char line[256];
  std::snprintf(line, sizeof line, "%-44.60s %8.0f %12.3f %12.3f %12.3f %12.1f\n", name.c_str(),
                sum.times, sum.read / 1e6, sum.written / 1e6, sum.operations / 1e9, seconds * 1e6);
  return line;
}

TANDEM_ONCE AccountLine& line_of(std::vector<AccountLine>& lines, std::string_view name) {
  for (AccountLine& line : lines) {
    if (line.name == name) {
      return line;
    }
  }
  return lines.emplace_back(AccountLine{.name = std::string{name}});
}

TANDEM_ONCE std::string account_heads(char const* what) {
  char line[256];
  std::snprintf(line, sizeof line, "%-44s %8s %12s %12s %12s %12s\n", what, "kernels", "MB read",
                "MB written", "Gop", "us");
  return line;
}

TANDEM_ONCE void AccountLine::add(cuda::Launch const& launch, double more) {
  seconds += more;
  sum.times += launch.times;
  sum.read += launch.read;
  sum.written += launch.written;
  sum.operations += launch.operations;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string account_text(StepAccount const& account, std::string const& title,
                                     Machine const& machine, MathPrecision precision) {
  check_machine(machine);
  std::vector<detail::AccountLine> nodes;
  std::vector<detail::AccountLine> kernels;
  detail::AccountLine total{.name = "total"};
  for (AccountRow const& row : account.row) {
    double const seconds =
        row.communicates() ? 0 : roofline_seconds(row.launch, machine, precision);
    std::string const place = row.place + (row.pass.empty() ? "" : ", " + std::string{row.pass});
    detail::line_of(nodes, place).add(row.launch, seconds);
    detail::line_of(kernels, row.launch.kernel).add(row.launch, seconds);
    total.add(row.launch, seconds);
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](auto const& a, auto const& b) { return a.seconds > b.seconds; });
  std::string gpu = account.devices == 1 ? "one GPU"
                                         : "GPU " + std::to_string(account.device) + " of " +
                                               std::to_string(account.devices);
  if (account.slices > 1) {
    gpu += (account.tiles ? ", whose images " : ", whose layers ") +
           std::to_string(account.slices) + " share";
  }
  std::string text = "\n" + title + ": a step of " + std::to_string(account.samples) +
                     " samples on " + gpu + "; us by the roofline of " + machine.name + "\n" +
                     detail::account_heads("layer, pass");
  for (detail::AccountLine const& line : nodes) {
    text += line.text();
  }
  text += "\n" + detail::account_heads("kernel");
  for (detail::AccountLine const& line : kernels) {
    text += line.text();
  }
  text += total.text();
  for (std::string const& layer : account.unknown) {
    text += "not counted: " + layer + "\n";
  }
  return text;
}

}  // namespace tandem

#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the emulator has captured, kernel by kernel, against the account of a step.

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <emulator/control.hpp>

#include <tandem/measure/account/step_account.hpp>

namespace tandem::test {

/// "void tandem::cuda::detail::map_kernel<8, …UnaryBody<…AsItIs, float, …> >(…)" is
/// "map_kernel:AsItIs": the function, and for the kernels that are given a body, which.
inline std::string kernel_name(std::string name) {
  for (std::string const skipped :
       {"void ", "tandem::cuda::detail::", "tandem::cuda::", "tandem::detail::", "tandem::"}) {
    for (std::size_t at; (at = name.find(skipped)) != std::string::npos;) {
      name.erase(at, skipped.size());
    }
  }
  std::string const function = name.substr(0, name.find_first_of("<("));
  if (function == "map_kernel" || function == "column_map_kernel" ||
      function == "column_sums_kernel" || function == "each_kernel") {
    std::size_t at = function.size();
    std::string body;
    do {  // the first argument that is neither a number nor a type of numbers
      at = name.find_first_not_of("<, ", at);
      std::size_t const end = name.find_first_of("<,> (", at);
      body = name.substr(at, end - at);
      at = end;
    } while (std::string{"0123456789"}.find(body[0]) != std::string::npos || body == "float" ||
             body == "double" || body == "UnaryBody" || body == "BinaryBody");
    return function + ":" + body;
  }
  return function;
}

struct Sum {
  double times = 0;
  double bytes = 0;
};
using Sums = std::map<std::string, Sum>;

/// Nothing is computed meanwhile, so that networks may be large.
class Idle {
 public:
  Idle() { cuda_emulator::set_computing(false); }
  ~Idle() { cuda_emulator::set_computing(true); }
  Idle(Idle const&) = delete;
  Idle& operator=(Idle const&) = delete;
};

inline Sums captured(int device) {
  Sums sums;
  for (cuda_emulator::GraphWork const& work : cuda_emulator::graph_work(device)) {
    Sum& sum = sums[kernel_name(work.name)];
    ++sum.times;
    sum.bytes += static_cast<double>(work.bytes);
  }
  return sums;
}

/// @param exact   kernels whose bytes the emulator knows
/// @param device  that has captured the step
inline void check_account(StepAccount const& account, std::vector<std::string> const& exact,
                          int device = 0) {
  CHECK(account.unknown.empty());
  Sums counted;
  for (AccountRow const& row : account.row) {
    bool const collective = row.launch.kernel == "ncclAllReduce" ||
                            row.launch.kernel == "ncclReduceScatter" ||
                            row.launch.kernel == "ncclAllGather";
    bool const message = row.communicates() && !collective;
    Sum& sum = counted[message ? "NCCL messages" : std::string{row.launch.kernel}];
    sum.times += row.launch.times;
    sum.bytes += row.launch.read + row.launch.written;
  }
  Sums const recorded = captured(device);
  for (auto const& of_kernel : recorded) {
    CAPTURE(of_kernel.first);
    CHECK(counted[of_kernel.first].times == of_kernel.second.times);
  }
  for (auto const& of_kernel : counted) {
    CAPTURE(of_kernel.first);
    CHECK((recorded.count(of_kernel.first) == 1 || of_kernel.second.times == 0));
  }
  for (std::string const& name : exact) {
    CAPTURE(name);
    if (counted.count(name) == 0 && recorded.count(name) == 0) {
      continue;
    }
    REQUIRE(recorded.count(name) == 1);
    CHECK(counted[name].bytes == recorded.at(name).bytes);
  }
}

inline std::vector<std::string> const libraries{"cudnnBackendExecute", "cublasLtMatmul"};

}  // namespace tandem::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tests whose ranks talk through NCCL: whether there are GPUs for them, and that nothing races.

#include <doctest/doctest.h>

#include <tandem/comm/nccl/transport.hpp>

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#include <emulator/nccl_control.hpp>
#endif

namespace tandem::test {

inline bool enough_gpus(int wanted) {
  if (tandem::cuda::device_count() < wanted) {
    MESSAGE("skipped: needs " << wanted << " GPUs");
    return false;
  }
  return true;
}

/// On the emulator, nothing races meanwhile and NCCL is called as it is to be.
#if defined(TANDEM_CUDA_EMULATED)
struct NoRaces {
  NoRaces() { cuda_emulator::set_races_shown(true); }
  ~NoRaces() {
    CHECK(cuda_emulator::last_report() == "");
    CHECK(cuda_emulator::nccl_misuses() == 0);
    cuda_emulator::set_races_shown(false);
  }
};
#else
struct NoRaces {
  ~NoRaces() {}
};
#endif

}  // namespace tandem::test

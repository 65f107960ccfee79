// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// fits: whether a training step fits into the memory of each device, for a static_assert.
///
///   static_assert(fits<Net, DataParallel<2>, AdamW, Fp32>(256, std::int64_t{16} << 30));
///
/// With TrainerOptions::average it takes an array more, which is said behind the bytes:
/// WeightAverages::kept; with CudaOptions::branches branches keep their memory while their region
/// runs, and their number stands last.

#include <cstdint>
#include <iterator>
#include <utility>

#include <tandem/core/contract.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/strategy/argument_rules.hpp>
#include <tandem/strategy/memory/device_memory.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem {

/// Whether training keeps averages of the weights, as TrainerOptions::average says: an array of the
/// size of the trained parameters, which is counted with the optimizer's states.
enum class WeightAverages : bool { none, kept };

namespace detail {

/// Arrays of an optimizer's state; where its settings decide (Sgd: momentum; RMSprop), all of them.
template <class Optimizer>
constexpr int counted_states() {
  if constexpr (requires { Optimizer::states(); }) {
    return Optimizer::states();
  } else if constexpr (requires { Optimizer::state_names; }) {
    return static_cast<int>(std::size(Optimizer::state_names));
  } else if constexpr (requires { Optimizer::name; }) {  // an own one without states
    return 0;
  } else {
    return 1;
  }
}

}  // namespace detail

/// What device @p device of a replica needs at most for steps of a global batch of @p batch
/// samples; see DeviceMemory for what is not counted.
/// @param branches  CudaOptions::branches; scratch memory, of which each stream has its own, is not
///                  counted with it either
/// @throws ContractError  batch < 1, or there is no such device
template <class Net, Strategy S, class Optimizer, class Precision>
constexpr DeviceMemory device_memory(int batch, int device,
                                     WeightAverages averages = WeightAverages::none,
                                     int branches = 1) {
  static_assert(
      detail::ArgumentIs<detail::Argument::named_replicas, !detail::takes_any_replicas<S>>::value);
  expects(batch >= 1 && device >= 0 && device < S::devices,
          "device_memory(batch, device): give 1 sample or more, and a device of the replica");
  using P = Program<Net, S, static_cast<int>(sizeof(typename Precision::Master))>;
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    DeviceMemory memory;
    static_cast<void>(
        ((D == device &&
          (memory = detail::device_memory<typename P::template Device<D>, Precision>(
               batch, detail::counted_states<Optimizer>() + static_cast<int>(averages), branches),
           true)) ||
         ...));
    return memory;
  }
  (std::make_integer_sequence<int, S::devices>{});
}

/// Whether no device needs more than @p bytes for a global batch of @p batch samples: never true
/// where the tensors do not fit, but leave room for scratch memory and packed weights.
template <class Net, Strategy S, class Optimizer, class Precision>
constexpr bool fits(int batch, std::int64_t bytes, WeightAverages averages = WeightAverages::none,
                    int branches = 1) {
  static_assert(
      detail::ArgumentIs<detail::Argument::named_replicas, !detail::takes_any_replicas<S>>::value);
  for (int device = 0; device < S::devices; ++device) {
    if (device_memory<Net, S, Optimizer, Precision>(batch, device, averages, branches).total() >
        bytes) {
      return false;
    }
  }
  return true;
}

}  // namespace tandem

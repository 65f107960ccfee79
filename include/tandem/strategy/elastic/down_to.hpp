// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DownTo: the DataParallels of fewer devices that take the same microbatches.

#include <type_traits>
#include <utility>

#include <tandem/strategy/types/data_parallel.hpp>

namespace tandem {

/// Elastic<DataParallel<N, Options...>, DownTo<Least>>: on each number of devices from N to Least
/// that divides N, a replica taking as many microbatches more. Of a Reproducible those that keep
/// its tree: a replica has a power of two of its leaves.
template <int Least>
struct DownTo {
  static constexpr int devices = Least;
};

namespace detail {

/// The numbers of devices that take the microbatches of DataParallel<N, Options...>, falling.
struct DevicesDown {
  int count = 0;
  int devices[240] = {};  // no number up to most_replicas has more divisors
};

/// @p Fewer devices for the batch of DataParallel<N, Options...>, leaves and all.
template <int N, class... Options>
constexpr Batching batching_on(int fewer) {
  Batching batching = gather_batching<N, Options...>();
  int const microbatches = batching.all_microbatches();
  int const leaves = batching.leaves * N;
  batching.replicas = fewer;
  batching.microbatches = microbatches / fewer;
  batching.leaves = batching.reproducible && leaves % fewer == 0 ? leaves / fewer
                    : batching.reproducible                      ? 0
                                                                 : 1;
  return batching;
}

template <int N, int Least, class... Options>
constexpr DevicesDown devices_down() {
  DevicesDown down;
  auto const add = [&](int fewer) {
    if (fewer >= Least && leaves_fit(batching_on<N, Options...>(fewer))) {
      down.devices[down.count++] = fewer;
    }
  };
  int root = 1;  // the largest divisor that is no larger than what it leaves
  for (int part = 1; part <= N / part; ++part) {
    if (N % part == 0) {
      root = part;
      add(N / part);
    }
  }
  for (int fewer = root == N / root ? root - 1 : root; fewer >= Least; --fewer) {
    if (N % fewer == 0) {
      add(fewer);
    }
  }
  return down;
}

template <class... Options>
struct OptionList {};
/// OptionList of Kept and those of Options that are no Microbatches.
template <class Kept, class... Options>
struct WithoutMicrobatches {
  using type = Kept;
};
template <class... Kept, class First, class... Options>
struct WithoutMicrobatches<OptionList<Kept...>, First, Options...>
    : WithoutMicrobatches<OptionList<Kept..., First>, Options...> {};
template <class... Kept, int Count, class... Options>
struct WithoutMicrobatches<OptionList<Kept...>, Microbatches<Count>, Options...>
    : WithoutMicrobatches<OptionList<Kept...>, Options...> {};

/// DataParallel<N, Options...> on @p Fewer devices.
template <int N, int Fewer, class... Options>
struct OnFewer {
  static constexpr int microbatches = batching_on<N, Options...>(Fewer).microbatches;
  template <class Kept>
  struct Counted;
  template <class... Kept>
  struct Counted<OptionList<Kept...>> {
    using type = DataParallel<Fewer, Microbatches<microbatches>, Kept...>;
  };
  using type = typename Counted<typename WithoutMicrobatches<OptionList<>, Options...>::type>::type;
};
template <int N, class... Options>
struct OnFewer<N, N, Options...> {
  using type = DataParallel<N, Options...>;
};

/// List<on N devices, ..., on Least>
template <template <class...> class List, int N, int Least, class... Options>
struct GoDown {
  static constexpr DevicesDown down = devices_down<N, Least, Options...>();
  template <int... I>
  static List<typename OnFewer<N, down.devices[I], Options...>::type...> list(
      std::integer_sequence<int, I...>);
  using type = decltype(list(std::make_integer_sequence<int, down.count>{}));
};

/// Goes down as far as it says, so that Elastic<..., DownTo<Least>> is what its name says.
template <int N, int Least, class... Options>
concept GoesDown = N >= 1 && N <= most_replicas && (BatchingOption<Options> && ...) && Least >= 1 &&
                   gather_batching<N, Options...>().shards == 0 &&
                   leaves_fit(gather_batching<N, Options...>()) &&
                   Least < N&& devices_down<N, Least, Options...>()
                               .devices[devices_down<N, Least, Options...>().count - 1] ==
                       Least;

}  // namespace detail

}  // namespace tandem

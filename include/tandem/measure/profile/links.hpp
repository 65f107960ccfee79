// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// measure_links: what messages and sums between two devices of a Host take.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <tandem/comm/reduction.hpp>
#include <tandem/comm/threads/transport.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/plan/cost/profile.hpp>
#include <tandem/plan/machine/machine.hpp>
#include <tandem/runtime/host/queue.hpp>
#include <tandem/train/ranks/launch.hpp>

namespace tandem {

/// Between two devices.
struct MeasuredLinks {
  LinkSpeed message{};    ///< from one to the other
  LinkSpeed reduction{};  ///< of an all-reduce of so many bytes
};

namespace detail {

/// @pre there is one value or more
TANDEM_ONCE double median(std::vector<double> values);

}  // namespace detail

/// Sends messages to and fro between two threads of a ThreadsTransport and lets them sum arrays, of
/// 64 KiB and of @p bytes; medians of @p rounds rounds.
TANDEM_ONCE [[nodiscard]] MeasuredLinks measure_links(int rounds, std::size_t bytes);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A line through the times of messages of some bytes.
TANDEM_ONCE LinkSpeed link_speed(std::vector<SampleTime> const& points) {
  AffineTime const line = fit_affine(points);
  return {.bandwidth = 1 / std::max(line.per_sample, 1e-15), .latency = line.fixed};
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE MeasuredLinks measure_links(int rounds, std::size_t bytes) {
  ThreadsTransport<2> transport{TransportOptions{}};
  RankThreads threads{2, abort_on_error(transport)};
  std::vector<SampleTime> messages;
  std::vector<SampleTime> reductions;
  for (std::size_t const size : {std::size_t{1} << 16, bytes}) {
    std::vector<double> to_and_fro;
    std::vector<double> sums;
    threads.run([&](int rank) {
      std::vector<float> memory(size / sizeof(float));
      std::span<float> const data{memory};
      host::Queue queue;
      ThreadsCommunicator own = transport.communicator(rank);
      auto const seconds = [&](auto const& post) {
        own.barrier(queue);
        queue.synchronize();
        auto const start = std::chrono::steady_clock::now();
        post();
        queue.synchronize();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      };
      for (int round = 0; round <= rounds; ++round) {
        double const both = seconds([&] {
          if (rank == 0) {
            own.send(data, 1, queue);
            own.receive(data, 1, queue);
          } else {
            own.receive(data, 0, queue);
            own.send(data, 0, queue);
          }
        });
        double const sum = seconds([&] { own.all_reduce(data, data, Sum{}, queue); });
        if (rank == 0 && round > 0) {  // the first one allocates
          to_and_fro.push_back(both / 2);
          sums.push_back(sum);
        }
      }
    });
    messages.push_back({static_cast<double>(size), detail::median(to_and_fro)});
    reductions.push_back({static_cast<double>(size), detail::median(sums)});
  }
  return {detail::link_speed(messages), detail::link_speed(reductions)};
}

}  // namespace tandem

#endif

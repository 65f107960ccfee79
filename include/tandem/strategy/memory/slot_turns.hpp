// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SlotTurns: which buckets of parameters passes have in two slots, in turns.

#include <cstddef>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// Which way a pass goes through buckets: those of later layers have lower numbers.
enum class PassDirection : int { forward = -1, backward = 1 };

/// Of a rank that keeps its part of each bucket alone: bucket b is gathered in slot b mod 2, a
/// bucket ahead of its use. Replicas without samples go through the same turns.
class SlotTurns {
 public:
  /// @param segment  of each node: its run that is computed again together, or -1; outlives this
  TANDEM_ONCE TANDEM_COLD SlotTurns(GraphView graph, LayoutView const& layout, int const* segment);

  /// A pass begins: its first bucket is not the one before's neighbour.
  void begin_pass() { used_ = none; }

  /// Nothing is in the slots.
  void forget() {
    used_ = none;
    in_slot_[0] = in_slot_[1] = none;
  }

  /// The parameters of node @p n are read next: fetch(b) of a bucket that is to be on its way from
  /// now on, since the slot's other is behind the pass; await(b) of the one that is read. The next
  /// in @p direction is fetched meanwhile, if it has nodes of the same run.
  template <class Fetch, class Await>
  void use(int n, PassDirection direction, Fetch const& fetch, Await const& await) {
    int const bucket = bucket_of_[static_cast<std::size_t>(n)];
    if (bucket == none || bucket == used_) {
      return;
    }
    bring(bucket, fetch);
    await(bucket);
    used_ = bucket;
    int const next = bucket + static_cast<int>(direction);
    if (next >= 0 && next < static_cast<int>(stage_.size()) && are_of_one_run(bucket, next)) {
      bring(next, fetch);
    }
  }

 private:
  static constexpr int none = -1;

  template <class Fetch>
  void bring(int bucket, Fetch const& fetch) {
    if (std::exchange(in_slot_[bucket & 1], bucket) != bucket) {
      fetch(bucket);
    }
  }

  // Whether neighbours are of one stage, and some of their nodes of one run that is computed again.
  TANDEM_ONCE [[nodiscard]] bool are_of_one_run(int bucket, int other) const;

  std::vector<int> stage_;  // of each bucket
  int const* segment_;
  std::vector<int> first_;  // of each bucket: the first node that has parameters there
  std::vector<int> last_;
  std::vector<int> bucket_of_{};  // of each node: that of its parameters
  int in_slot_[2] = {none, none};
  int used_ = none;  // the bucket that the pass is at
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE SlotTurns::SlotTurns(GraphView graph, LayoutView const& layout, int const* segment)
    : stage_{layout.bucket_stage, layout.bucket_stage + layout.buckets},
      segment_{segment},
      first_(stage_.size(), none),
      last_(stage_.size(), none) {
  for (int n = 0; n < graph.nodes; ++n) {
    Node const& node = graph.node[n];
    int const bucket =
        node.parameters > 0 ? bucket_of(layout, layout.offset[node.first_parameter]) : none;
    bucket_of_.push_back(bucket);
    if (bucket != none) {
      auto const b = static_cast<std::size_t>(bucket);
      first_[b] = first_[b] == none ? n : first_[b];
      last_[b] = n;
    }
  }
}

TANDEM_ONCE bool SlotTurns::are_of_one_run(int bucket, int other) const {
  auto const run = [this](std::vector<int> const& node, int of) {
    return segment_[node[static_cast<std::size_t>(of)]];
  };
  int const earlier = bucket > other ? bucket : other;
  int const later = bucket + other - earlier;
  return stage_[static_cast<std::size_t>(bucket)] == stage_[static_cast<std::size_t>(other)] &&
         run(last_, earlier) == run(first_, later);
}

}  // namespace tandem

#endif

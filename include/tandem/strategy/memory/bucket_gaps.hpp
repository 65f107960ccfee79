// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// bucket_gaps: what of a device's buckets no parameter has, since parameters are aligned and parts
/// of buckets are equal.

#include <cstdint>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// In the flat arrays, each within one bucket.
TANDEM_ONCE TANDEM_COLD std::vector<ElementRange> bucket_gaps(GraphView graph,
                                                              LayoutView const& layout);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<ElementRange> bucket_gaps(GraphView graph, LayoutView const& layout) {
  std::vector<ElementRange> gaps;
  for (int p = 0; p < graph.parameters; ++p) {
    std::int64_t const first = layout.offset[p];
    int const bucket = bucket_of(layout, first);
    if (bucket < 0) {
      continue;
    }
    std::int64_t const begin = first + graph.parameter[p].parameter.shape.elements();
    std::int64_t end = bucket_range(layout, bucket).end;
    for (int next = 0; next < graph.parameters; ++next) {
      if (layout.offset[next] > first && layout.offset[next] < end) {
        end = layout.offset[next];
      }
    }
    if (begin < end) {
      gaps.push_back({begin, end});
    }
  }
  return gaps;
}

}  // namespace tandem

#endif

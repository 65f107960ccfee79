// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowGradients: the memory of a rank's GradientRows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/memory/row_gradient_size.hpp>

namespace tandem {

/// Of each such parameter, in the order of ParameterLayout::row_parameter: what one replica makes
/// of it, as many buffers as there are of dense gradients; what all replicas have made; their sum.
template <class Program, class Backend>
class RowGradients {
 public:
  using P = typename Backend::Master;
  using Buffer = typename Backend::Buffer;
  using Device = typename Backend::Device;
  static constexpr int count = Program::layout.row_gradients;

  TANDEM_COLD RowGradients(Device& device, RowGradientTask const& task) {
    for (int r = 0; r < count; ++r) {
      int const p = Program::layout.row_parameter[r];
      RowGradientSize const size{Program::graph.parameter[p].parameter, task, sizeof(P)};
      RowsTouched const touched = Program::graph.parameter[p].parameter.touched;
      RowScratch const scratch{.keys = task.batch * touched.of_sample + touched.of_step,
                               .most = size.most,
                               .block = size.block,
                               .limit = size.limit,
                               // What is drawn for the step is added apart from what samples name.
                               .accumulates = task.microbatches > 1 || touched.of_step > 0,
                               .tree = task.buffers > 1,
                               .replicas = task.replicas};
      std::int64_t const bytes = Verbs<Backend>::row_scratch_bytes(device, scratch);
      all_.push_back({size, Buffer{device, static_cast<std::size_t>(size.own)},
                      Buffer{device, static_cast<std::size_t>(size.gathered)},
                      Buffer{device, static_cast<std::size_t>(size.sum)},
                      Buffer{device, static_cast<std::size_t>(bytes)}});
      Entry& own = all_.back();
      for (int buffer = 0; buffer < task.buffers; ++buffer) {
        own.buffer.push_back(view(own, own.own, buffer * size.block, size.most));
        Verbs<Backend>::clear_rows(device, own.buffer.back());
      }
      for (int replica = 0; task.replicas > 1 && replica < task.replicas; ++replica) {
        own.replica.push_back(view(own, own.gathered, replica * size.block, size.most));
      }
      own.total = task.replicas > 1 ? view(own, own.sum, 0, size.all) : own.buffer.front();
      Verbs<Backend>::clear_rows(device, own.total);
    }
  }

  /// Buffer 0 takes those of the leaf at work, the others wait in the tree.
  [[nodiscard]] GradientRows<P> const& buffer(int r, int b = 0) const {
    return entry(r).buffer[static_cast<std::size_t>(b)];
  }
  /// The replicas' rows, once they have come.
  [[nodiscard]] std::vector<GradientRows<P>> const& replicas(int r) const {
    return entry(r).replica;
  }
  /// The sum over all replicas, what an update reads; of one replica buffer 0.
  [[nodiscard]] GradientRows<P> const& sum(int r) const { return entry(r).total; }

  /// Buffer 0 as it is sent, and where the replicas' are received.
  [[nodiscard]] std::span<P> sent(int r) const {
    return {entry(r).own.template as<P>(), elements(entry(r).size.block)};
  }
  [[nodiscard]] std::span<P> received(int r) const {
    return {entry(r).gathered.template as<P>(), elements(entry(r).size.gathered)};
  }
  [[nodiscard]] TANDEM_COLD std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (Entry const& own : all_) {
      sum += own.size.bytes();
    }
    return sum;
  }
  [[nodiscard]] TANDEM_COLD std::int64_t scratch_bytes() const {
    std::int64_t sum = 0;
    for (Entry const& own : all_) {
      sum += static_cast<std::int64_t>(own.scratch.bytes());
    }
    return sum;
  }

 private:
  struct Entry {
    RowGradientSize size;
    Buffer own;
    Buffer gathered;
    Buffer sum;
    Buffer scratch;
    std::vector<GradientRows<P>> buffer{};
    std::vector<GradientRows<P>> replica{};
    GradientRows<P> total{};
  };

  [[nodiscard]] Entry const& entry(int r) const { return all_[static_cast<std::size_t>(r)]; }
  static std::size_t elements(std::int64_t bytes) {
    return static_cast<std::size_t>(bytes) / sizeof(P);
  }
  static GradientRows<P> view(Entry const& own, Buffer const& buffer, std::int64_t offset,
                              std::int64_t most) {
    auto rows =
        gradient_rows(buffer.template as<P>() + offset / static_cast<std::int64_t>(sizeof(P)), most,
                      own.size.width);
    rows.limit = own.size.limit;
    rows.scratch = own.scratch.data();
    rows.scratch_bytes = static_cast<std::int64_t>(own.scratch.bytes());
    return rows;
  }

  std::vector<Entry> all_;
};

/// Of a device without such parameters.
template <class P>
struct NoRowGradients {
  template <class Device>
  NoRowGradients(Device& /*device*/, RowGradientTask const& /*task*/) {}

  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }
  [[nodiscard]] static constexpr std::int64_t scratch_bytes() { return 0; }
};

}  // namespace tandem

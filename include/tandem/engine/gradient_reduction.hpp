// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GradientReduction: the gradients of a rank on their way from its microbatches to the sum over
/// all replicas.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/engine/rank_memory.hpp>
#include <tandem/engine/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/options.hpp>

namespace tandem {

/// Whether a communicator adds in an order fixed by rank.
template <class C>
inline constexpr bool sums_in_order = [] {
  if constexpr (requires { C::ordered; }) {
    return bool{C::ordered};
  } else {
    return true;
  }
}();

/// Has the rank's end of the group. Buckets are reduced in the order in which backward closes them,
/// on the communication stream, while it goes on.
template <class Program, class Backend, class Communicator>
class GradientReduction {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Buffer = typename Backend::Buffer;
  using Mark = typename Device::Mark;
  using Memory = RankMemory<Program, Backend>;
  static constexpr Batching batching = Program::batching;
  static constexpr auto const& layout = Program::layout;
  static constexpr int leaf = batching.microbatches / batching.leaves;  ///< in microbatches
  /// What is sent: the gradients themselves, or rounded to 16 bits.
  using Wire =
      std::conditional_t<batching.wire == WireFormat::bfloat16, BFloat16,
                         std::conditional_t<batching.wire == WireFormat::float16, Float16, P>>;
  /// Whether sums in a fixed order take more than an all-reduce: comm/cuda_ordered.cuh.
  static constexpr bool needs_order =
      batching.reproducible && batching.replicas > 1 && !sums_in_order<Communicator>;
  static constexpr bool rounds = batching.wire != WireFormat::exact && batching.replicas > 1;

  /// @param tracer  outlives this
  GradientReduction(Device& device, Communicator communicator, Tracer<Device>& tracer)
      : communicator_{std::move(communicator)},
        tracer_{&tracer},
        ordered_{device, order_bytes()},
        wire_{device, rounds ? static_cast<std::size_t>(layout.trained) * sizeof(Wire) : 0} {
    for (int mark = 0; mark < layout.buckets + 1; ++mark) {
      marks_.push_back(device.make_mark());
    }
  }

  /// The gradients of @p bucket are whole for @p microbatch: at the end of a leaf they join the
  /// tree, at the end of the last leaf their reduction over the replicas begins.
  void bucket_ready(Device& device, Memory const& memory, int bucket, int microbatch) {
    if (microbatch % leaf != leaf - 1) {
      return;
    }
    auto const [begin, count] = range(bucket);
    if constexpr (Memory::waiting_leaves > 0) {
      join_tree(device, memory, microbatch / leaf, begin, count);
    }
    if constexpr (batching.replicas > 1) {
      if (microbatch == batching.microbatches - 1) {
        Label const label{"bucket", bucket};
        Mark& mark = marks_[static_cast<std::size_t>(bucket)];
        if constexpr (rounds) {
          Wire* const sent = wire_.template as<Wire>() + begin;
          Verbs<Backend>::cast(device, memory.gradients() + begin, sent, count);
          reduce(device, span_of(sent, count), label, mark);
        } else {
          reduce(device, span_of(memory.gradients() + begin, count), label, mark);
        }
      }
    }
  }

  /// What is computed from now on reads the sum of @p bucket over all replicas.
  void await(Device& device, Memory const& memory, int bucket) {
    device.await(marks_[static_cast<std::size_t>(bucket)]);
    if constexpr (rounds) {
      auto const [begin, count] = range(bucket);
      Verbs<Backend>::cast(device, wire_.template as<Wire>() + begin, memory.gradients() + begin,
                           count);
    }
  }

  /// The same for the losses and metrics of all microbatches.
  void reduce_sums(Device& device, std::span<double> sums) {
    reduce(device, sums, {"losses"}, marks_.back());
  }
  void await_sums(Device& device) { device.await(marks_.back()); }

  [[nodiscard]] Communicator& communicator() { return communicator_; }
  [[nodiscard]] std::int64_t wire_bytes() const {
    return static_cast<std::int64_t>(wire_.bytes() + ordered_.bytes());
  }

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t count;
  };
  static Range range(int bucket) {
    std::int64_t const begin = layout.bucket_begin[bucket];
    return {begin, layout.bucket_begin[bucket + 1] - begin};
  }
  template <class E>
  static std::span<E> span_of(E* data, std::int64_t count) {
    return {data, static_cast<std::size_t>(count)};
  }

  static std::size_t order_bytes() {
    std::size_t most = 0;
    for (int bucket = 0; needs_order && bucket < layout.buckets; ++bucket) {
      if constexpr (needs_order) {
        most =
            std::max(most, ordered_scratch_bytes<Communicator, P>(
                               static_cast<std::size_t>(range(bucket).count), batching.replicas));
      }
    }
    return most;
  }

  template <class E>
  void reduce(Device& device, std::span<E> data, Label label, Mark& mark) {
    device.begin_communication();
    tracer_->collective(device, label, [&] {
      if constexpr (needs_order && std::is_same_v<E, P>) {  // sums of losses round nothing
        std::span<std::byte> const scratch{ordered_.data(), ordered_.bytes()};
        all_reduce_ordered(communicator_, std::span<E const>{data}, data, Sum{}, scratch,
                           device.communication, label);
      } else {
        communicator_.all_reduce(data, data, Sum{}, device.communication, label);
      }
    });
    device.mark(mark);
  }

  // A binary counter: leaf k joins as many waiting sums as k has trailing ones.
  void join_tree(Device& device, Memory const& memory, int index, std::int64_t begin,
                 std::int64_t count) {
    P* const sum = memory.gradients() + begin;
    int level = 0;
    for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
      Verbs<Backend>::add(device, memory.gradients(1 + level) + begin, sum, count);
    }
    if (index != batching.leaves - 1) {
      Verbs<Backend>::copy(device, sum, memory.gradients(1 + level) + begin, count);
    }
  }

  Communicator communicator_;
  Tracer<Device>* tracer_;
  std::vector<Mark> marks_;  // of each bucket's reduction, then of the losses'
  Buffer ordered_;
  Buffer wire_;
};

}  // namespace tandem

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
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem {

namespace detail {

/// Whether gradients can be added in a fixed order where an all-reduce alone has none.
template <class Communicator, class Element, class Stream>
inline constexpr bool adds_in_order = requires(Communicator& group, std::span<Element const> in,
                                               std::span<Element> out, std::span<std::byte> scratch,
                                               Stream& stream, Label label) {
  all_reduce_ordered(group, in, out, Sum{}, scratch, stream, label);
};

}  // namespace detail

/// Has the rank's end of the group of all ranks, for the losses, and of the replicas of each of its
/// stages. Buckets are reduced in the order in which backward closes them, on the communication
/// stream, while it goes on. Where a stage's copies are on devices with different rows, that must
/// be from the last part of the model to the first, or else they are reduced in this order when all
/// are whole, so that no two ranks wait for each other. Of two copies on one device the first has
/// the sum.
template <class Program, class Backend, class Communicator>
class GradientReduction {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Buffer = typename Backend::Buffer;
  using Mark = typename Device::Mark;
  using Memory = ParameterMemory<Program, Backend>;
  using Whole = typename Program::Program;
  static constexpr Batching batching = Whole::batching;
  static constexpr auto const& layout = Program::layout;
  static constexpr int replicas = Program::gradient_replicas;
  /// What is sent: the gradients themselves, or rounded to 16 bits.
  using Wire =
      std::conditional_t<batching.wire == WireFormat::bfloat16, BFloat16,
                         std::conditional_t<batching.wire == WireFormat::float16, Float16, P>>;
  /// Whether sums in a fixed order take more than an all-reduce: comm/cuda/ordered.cuh.
  static constexpr bool needs_order =
      batching.reproducible && replicas > 1 && !sums_in_order<Communicator>;
  static constexpr bool rounds = batching.wire != WireFormat::exact && replicas > 1;

  /// @param all     the group of all ranks
  /// @param stages  of each local stage: the group of its replicas
  /// @param plan    microbatches, leaves, and the order in which the stages end
  /// @param tracer  outlives this
  GradientReduction(Device& device, Communicator all, std::vector<Communicator> stages,
                    RankPlan const& plan, Tracer<Device>& tracer)
      : communicator_{std::move(all)},
        stages_{std::move(stages)},
        overlaps_{Whole::map.copies == 1 || (plan.reduces_early && !has_twins)},
        leaves_{plan.batching.leaves_of_copy(Whole::map.copies)},
        tracer_{&tracer},
        synchronized_{device.make_mark()},
        ordered_{device, order_bytes()},
        wire_{device, rounds ? static_cast<std::size_t>(layout.trained) * sizeof(Wire) : 0} {
    for (int mark = 0; mark < layout.buckets + 1; ++mark) {
      marks_.push_back(device.make_mark());
    }
  }

  /// The gradients of @p bucket are whole for @p leaf of the stage's copy: they join the tree, and
  /// at the end of the last leaf their reduction over the replicas begins.
  void leaf_ready(Device& device, Memory const& memory, int bucket, int leaf) {
    if (memory.waiting_leaves() > 0) {
      auto const [begin, count] = range(bucket);
      join_tree(device, memory, leaf, begin, count);
    }
    if constexpr (replicas > 1) {
      if (overlaps_ && leaf == leaves_ - 1) {
        begin(device, memory, bucket);
      }
    }
  }

  /// What is computed from now on reads the sum of @p bucket over all replicas.
  void await(Device& device, Memory const& memory, int bucket) {
    if (!overlaps_ && bucket == 0) {
      begin_in_order(device, memory);
    }
    if (is_second_twin(bucket)) {  // gets its sum from the first
      return;
    }
    auto const [begin, count] = range(bucket);
    P* const sum = memory.gradients() + begin;
    if constexpr (!has_twins || batching.replicas > 1) {
      device.await_on(device.communication, marks_[static_cast<std::size_t>(bucket)]);
      if constexpr (rounds) {
        Verbs<Backend>::cast(device, wire_.template as<Wire>() + begin, sum, count);
      }
    }
    if constexpr (has_twins) {
      std::int64_t const second = layout.bucket_begin[bucket - layout.buckets / 2];
      Verbs<Backend>::copy(device, sum, memory.gradients() + second, count);
    }
  }

  /// The same for the losses and metrics of all microbatches.
  void reduce_sums(Device& device, std::span<double> sums, Label label = {"losses"}) {
    reduce<false>(device, communicator_, sums, label, marks_.back());
  }
  void await_sums(Device& device) { device.await_on(device.communication, marks_.back()); }

  /// What is computed from now on reads in @p sums the sums over the replicas of a local stage.
  void synchronize(Device& device, std::span<double> sums, int stage) {
    reduce<false>(device, communicator(stage), sums, {"statistics"}, synchronized_);
    device.await_on(device.communication, synchronized_);
  }

  [[nodiscard]] Communicator& communicator() { return communicator_; }
  /// The group of the replicas of local stage @p stage.
  [[nodiscard]] Communicator& communicator(int stage) {
    return stages_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] std::int64_t wire_bytes() const {
    return static_cast<std::int64_t>(wire_.bytes() + ordered_.bytes());
  }

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t count;
  };
  // Whether the device has both copies of a part whose gradients are summed.
  static constexpr bool has_twins = !Whole::averaging.keeps_two() && Whole::map.copies == 2 &&
                                    Whole::devices % 2 == 1 &&
                                    Program::device == Whole::devices / 2;

  // The buckets of two copies are alike, and those of the second come before.
  static constexpr bool is_second_twin(int bucket) {
    return has_twins && bucket < layout.buckets / 2;
  }

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
        most = std::max(most, ordered_scratch_bytes<Communicator, P>(
                                  static_cast<std::size_t>(range(bucket).count), replicas));
      }
    }
    return most;
  }

  void begin(Device& device, Memory const& memory, int bucket) {
    if constexpr (has_twins && batching.replicas == 1) {
      return;
    }
    auto const [first, count] = range(bucket);
    Label const label{"bucket", bucket};
    Mark& mark = marks_[static_cast<std::size_t>(bucket)];
    Communicator& group = communicator(local_stage(Program::stages, layout.bucket_stage[bucket]));
    if constexpr (rounds) {
      Wire* const sent = wire_.template as<Wire>() + first;
      Verbs<Backend>::cast(device, memory.gradients() + first, sent, count);
      reduce<needs_order>(device, group, span_of(sent, count), label, mark);
    } else {
      reduce<needs_order>(device, group, span_of(memory.gradients() + first, count), label, mark);
    }
  }

  // All buckets, from the last part of the model to the first.
  void begin_in_order(Device& device, Memory const& memory) {
    for (int part = Whole::map.parts() - 1; part >= 0; --part) {
      for (int b = 0; b < layout.buckets; ++b) {
        if (layout.bucket_stage[b] % Whole::map.parts() == part && !is_second_twin(b)) {
          add_twin(device, memory, b);
          begin(device, memory, b);
        }
      }
    }
  }
  // Those of the second copy on this device join those of the first.
  void add_twin(Device& device, Memory const& memory, int bucket) {
    if constexpr (has_twins) {
      auto const [begin, count] = range(bucket - layout.buckets / 2);
      Verbs<Backend>::add(device, memory.gradients() + begin,
                          memory.gradients() + layout.bucket_begin[bucket], count);
    }
  }

  // A loss is one rank's and 0 elsewhere: no order of its sum rounds.
  template <bool Ordered, class E>
  void reduce(Device& device, Communicator& group, std::span<E> data, Label label, Mark& mark) {
    device.begin_on(device.communication);
    tracer_->collective(device, label, [&] {
      if constexpr (Ordered) {
        std::span<std::byte> const scratch{ordered_.data(), ordered_.bytes()};
        using Stream = std::remove_cvref_t<decltype(device.communication)>;
        static_assert(detail::adds_in_order<Communicator, E, Stream>,
                      "Reproducible<>: this communicator does not say that it adds in an order "
                      "fixed by rank; give it `static constexpr bool ordered = true` if it does, "
                      "or leave Reproducible out");
        if constexpr (detail::adds_in_order<Communicator, E, Stream>) {
          all_reduce_ordered(group, std::span<E const>{data}, data, Sum{}, scratch,
                             device.communication, label);
        }
      } else {
        group.all_reduce(data, data, Sum{}, device.communication, label);
      }
    });
    device.mark_on(device.communication, mark);
  }

  // A binary counter: leaf k joins as many waiting sums as k has trailing ones.
  void join_tree(Device& device, Memory const& memory, int index, std::int64_t begin,
                 std::int64_t count) {
    P* const sum = memory.gradients() + begin;
    int level = 0;
    for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
      Verbs<Backend>::add(device, memory.gradients(1 + level) + begin, sum, count);
    }
    if (index != leaves_ - 1) {
      Verbs<Backend>::copy(device, sum, memory.gradients(1 + level) + begin, count);
    }
  }

  Communicator communicator_;
  std::vector<Communicator> stages_;
  bool overlaps_;
  int leaves_;  // of a stage's copy
  Tracer<Device>* tracer_;
  std::vector<Mark> marks_;  // of each bucket's reduction, then of the losses'
  Mark synchronized_;
  Buffer ordered_;
  Buffer wire_;
};

}  // namespace tandem

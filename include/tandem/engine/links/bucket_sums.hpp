// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BucketSums: how one bucket of gradients is summed over the replicas: as it is or rounded, in any
/// order or in a fixed one. Each of these is a type; where nothing is summed nothing is compiled.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/comm/operation.hpp>
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

namespace detail {

/// Whether gradients can be added in a fixed order where an all-reduce alone has none.
template <class Communicator, class Element, class Stream>
inline constexpr bool adds_in_order = requires(Communicator& group, std::span<Element const> in,
                                               std::span<Element> out, std::span<std::byte> scratch,
                                               Stream& stream, Label label) {
  all_reduce_ordered(group, in, out, Sum{}, scratch, stream, label);
};

template <class Communicator, class Element, class Stream>
inline constexpr bool scatters_in_order = requires(Communicator& group, std::span<Element const> in,
                                                   std::span<Element> out,
                                                   std::span<std::byte> scratch, Stream& stream,
                                                   Label label) {
  reduce_scatter_ordered(group, in, out, Sum{}, scratch, stream, label);
};

/// @p data becomes its sum over the ranks by all_reduce_ordered(), which the backend has.
/// @param op  Sum, or one that rounds
template <class Communicator, class E, class Op, class Stream>
void add_in_order(Communicator& group, std::span<E> data, Op op, std::span<std::byte> scratch,
                  Stream& stream, Label label) {
  static_assert(adds_in_order<Communicator, E, Stream>,
                "Reproducible<>: this communicator does not say that it adds in an order fixed by "
                "rank; give it `static constexpr bool ordered = true` if it does, or leave "
                "Reproducible out");
  if constexpr (adds_in_order<Communicator, E, Stream>) {
    all_reduce_ordered(group, std::span<E const>{data}, data, op, scratch, stream, label);
  }
}

/// Queues the collective @p f on the communication stream; @p mark stands behind it.
template <class Device, class F>
void queue_collective(Device& device, Tracer<Device>& tracer, Label label,
                      typename Device::Mark& mark, F const& f) {
  device.begin_on(device.communication);
  tracer.collective(device, label, f);
  device.mark_on(device.communication, mark);
}

/// A sum as the communicator makes it.
template <class Program, class Backend, class Communicator>
struct PlainSum {
  PlainSum(typename Backend::Device& /*device*/, int /*replicas*/) {}

  template <class E, class Stream>
  void operator()(Communicator& group, std::span<E> data, Stream& stream, Label label) const {
    group.all_reduce(data, data, Sum{}, stream, label);
  }
  /// Of this rank's part of the data alone.
  template <class E, class Stream>
  void scatter(Communicator& group, std::span<E> data, std::span<E> part, Stream& stream,
               Label label) const {
    group.reduce_scatter(data, part, Sum{}, stream, label);
  }
  [[nodiscard]] static constexpr std::size_t bytes() { return 0; }
};

/// In an order fixed by rank, of messages, where the communicator's own has none.
template <class Program, class Backend, class Communicator>
class SumInOrder {
 public:
  SumInOrder(typename Backend::Device& device, int replicas)
      : scratch_{device, most_bytes(replicas)} {}

  template <class E, class Stream>
  void operator()(Communicator& group, std::span<E> data, Stream& stream, Label label) const {
    add_in_order(group, data, Sum{}, {scratch_.data(), scratch_.bytes()}, stream, label);
  }
  template <class E, class Stream>
  void scatter(Communicator& group, std::span<E> data, std::span<E> part, Stream& stream,
               Label label) const {
    static_assert(scatters_in_order<Communicator, E, Stream>,
                  "ShardedState with Reproducible<>: this communicator does not say that its "
                  "reduce_scatter adds in an order fixed by rank; give it `static constexpr bool "
                  "ordered = true` if it does, or leave one of the two out");
    if constexpr (scatters_in_order<Communicator, E, Stream>) {
      reduce_scatter_ordered(group, std::span<E const>{data}, part, Sum{},
                             {scratch_.data(), scratch_.bytes()}, stream, label);
    }
  }
  [[nodiscard]] std::size_t bytes() const { return scratch_.bytes(); }

 private:
  static std::size_t most_bytes(int replicas) {
    std::size_t most = 0;
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      most = std::max(
          most,
          ordered_scratch_bytes<Communicator, typename Backend::Master>(
              static_cast<std::size_t>(bucket_range(Program::layout, bucket).count()), replicas));
    }
    return most;
  }

  typename Backend::Buffer scratch_;
};

/// Gradients travel as they are kept.
template <class Program, class Backend>
struct ExactWire {
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  explicit ExactWire(Device& /*device*/) {}

  static std::span<P> sent(Device& /*device*/, P* gradients, ElementRange range) {
    return {gradients + range.begin, static_cast<std::size_t>(range.count())};
  }
  static void received(Device& /*device*/, P* /*gradients*/, ElementRange /*range*/) {}
  [[nodiscard]] static constexpr std::size_t bytes() { return 0; }
};

/// Rounded to 16 bits, in memory of their own.
template <class Program, class Backend>
class RoundedWire {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using Element =
      std::conditional_t<Program::batching.wire == WireFormat::bfloat16, BFloat16, Float16>;

  explicit RoundedWire(Device& device)
      : rounded_{device, static_cast<std::size_t>(Program::layout.dense) * sizeof(Element)} {}

  std::span<Element> sent(Device& device, P const* gradients, ElementRange range) const {
    Element* const to = rounded_.template as<Element>() + range.begin;
    Verbs<Backend>::cast(device, gradients + range.begin, to, range.count());
    return {to, static_cast<std::size_t>(range.count())};
  }
  void received(Device& device, P* gradients, ElementRange range) const {
    Verbs<Backend>::cast(device, rounded_.template as<Element>() + range.begin,
                         gradients + range.begin, range.count());
  }
  [[nodiscard]] std::size_t bytes() const { return rounded_.bytes(); }

 private:
  typename Backend::Buffer rounded_;
};

}  // namespace detail

/// The sums of a device's buckets over their replicas on other devices.
template <class Program, class Backend, class Communicator>
class BucketSums {
 public:
  using Device = typename Backend::Device;
  using P = typename Backend::Master;
  /// Whether sums in a fixed order take more than an all-reduce: comm/cuda/ordered.cuh.
  static constexpr bool needs_order =
      Program::batching.reproducible && !sums_in_order<Communicator>;
  using Wire = std::conditional_t<Program::batching.wire == WireFormat::exact,
                                  detail::ExactWire<Program, Backend>,
                                  detail::RoundedWire<Program, Backend>>;
  using Adds = std::conditional_t<needs_order, detail::SumInOrder<Program, Backend, Communicator>,
                                  detail::PlainSum<Program, Backend, Communicator>>;

  /// @param replicas  over which they are
  BucketSums(Device& device, int replicas) : adds_{device, replicas}, wire_{device} {
    for (int bucket = 0; bucket < Program::layout.buckets; ++bucket) {
      marks_.push_back(device.make_mark());
    }
  }

  /// Queues the sum of what has been computed of @p bucket of @p gradients.
  /// @param part  all of it, or this rank's share, where it needs no more
  void begin(Device& device, Communicator& group, P* gradients, int bucket, ElementRange part,
             Tracer<Device>& tracer) {
    ElementRange const range = bucket_range(Program::layout, bucket);
    auto const sent = wire_.sent(device, gradients, range);
    Label const label{"bucket", bucket};
    detail::queue_collective(device, tracer, label, mark(bucket), [&] {
      if constexpr (Program::state_shares > 1) {
        if (part.count() < range.count()) {
          adds_.scatter(group, sent,
                        sent.subspan(static_cast<std::size_t>(part.begin - range.begin),
                                     static_cast<std::size_t>(part.count())),
                        device.communication, label);
          return;
        }
      }
      adds_(group, sent, device.communication, label);
    });
  }

  /// What is computed from now on reads the sum of @p part.
  void await(Device& device, P* gradients, int bucket, ElementRange part) {
    device.await_on(device.communication, mark(bucket));
    wire_.received(device, gradients, part);
  }

  [[nodiscard]] std::size_t bytes() const { return adds_.bytes() + wire_.bytes(); }

 private:
  using Mark = typename Device::Mark;
  [[nodiscard]] Mark& mark(int bucket) { return marks_[static_cast<std::size_t>(bucket)]; }

  Adds adds_;
  Wire wire_;
  std::vector<Mark> marks_;  // of each bucket
};

/// BucketSums where no other device has the same parameters.
template <class Backend>
struct NoBucketSums {
  using Device = typename Backend::Device;
  using P = typename Backend::Master;

  NoBucketSums(Device& /*device*/, int /*replicas*/) {}

  template <class Communicator>
  void begin(Device& /*device*/, Communicator& /*group*/, P* /*gradients*/, int /*bucket*/,
             ElementRange /*part*/, Tracer<Device>& /*tracer*/) {}
  void await(Device& /*device*/, P* /*gradients*/, int /*bucket*/, ElementRange /*part*/) {}
  [[nodiscard]] static constexpr std::size_t bytes() { return 0; }
};

/// Where a device has both copies of its part of the model, and their gradients are summed: the
/// first copy's buckets take the sum, before what other devices add to it.
template <class Program, class Backend>
struct TwinBuckets {
  using Device = typename Backend::Device;
  using P = typename Backend::Master;

  static constexpr bool is_second(int bucket) {
    return Program::layout.bucket_stage[bucket] >= Program::Program::map.parts();
  }
  static void join(Device& device, P* gradients, int first) {
    ElementRange const second = twin(first);
    Verbs<Backend>::add(device, gradients + second.begin,
                        gradients + bucket_range(Program::layout, first).begin, second.count());
  }
  /// The sum, to the second copy.
  static void share(Device& device, P* gradients, int first) {
    ElementRange const second = twin(first);
    Verbs<Backend>::copy(device, gradients + bucket_range(Program::layout, first).begin,
                         gradients + second.begin, second.count());
  }

 private:
  static ElementRange twin(int bucket) {
    return bucket_range(Program::layout, Program::twin_buckets.of[bucket]);
  }
};

/// TwinBuckets of all other devices.
template <class Backend>
struct NoTwinBuckets {
  using Device = typename Backend::Device;
  using P = typename Backend::Master;

  static constexpr bool is_second(int /*bucket*/) { return false; }
  static void join(Device& /*device*/, P* /*gradients*/, int /*first*/) {}
  static void share(Device& /*device*/, P* /*gradients*/, int /*first*/) {}
};

}  // namespace tandem

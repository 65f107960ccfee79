// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BucketSums: how one bucket of gradients is summed over the replicas: as it is or rounded, in any
/// order or in a fixed one, by types. RowSums: how its GradientRows are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/message.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/self.hpp>
#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/strategy/memory/parameter_layout.hpp>

namespace tandem {

/// What a program asks of its communicators, and which of a rank's parts are compiled: all of them
/// where a rank is compiled for all programs, else those that the program needs. All else are
/// values: DeviceTables.
struct RankWay {
  bool in_order = false;  ///< gradients are added by messages: the communicator has no order
  WireFormat wire = WireFormat::exact;
  bool links = false;         ///< other devices have parts of the model
  bool shares = false;        ///< each replica updates its part
  bool slices = false;        ///< ranks share layers
  bool ties = false;          ///< layers share parameters
  bool states = false;        ///< steps hand states on
  bool two_models = false;    ///< are averaged
  bool ahead = false;         ///< it goes on before an update is known to be right
  bool asynchronous = false;  ///< steps have no end that all ranks meet
};

/// Whether one rank serves all programs of a unit: where it is compiled elsewhere, or for a program
/// of many strategies that says so by a specialisation.
template <class Backend, class Communicator, class Batch>
inline constexpr bool rank_is_shared = false;

/// That of a rank that serves all programs: a group of one has no pipeline and no slices.
template <class Communicator>
constexpr RankWay shared_rank_way() {
  using Self = BasicSelfCommunicator<typename Communicator::Stream>;
  constexpr bool alone = std::is_same_v<Communicator, Self>;
  return {.links = !alone,
          .shares = true,
          .slices = !alone,
          .ties = true,
          .states = true,
          .two_models = true,
          .ahead = !alone,
          .asynchronous = !alone};
}

/// @tparam Device  a DeviceProgram
template <class Device, class Backend, class Communicator, class Batch>
constexpr RankWay rank_way() {
  using Program = typename Device::Program;
  bool const shared = rank_is_shared<Backend, Communicator, Batch>;
  RankWay const all = shared ? shared_rank_way<Communicator>() : RankWay{};
  bool const twins = Device::has_twins && !Program::averaging.keeps_two();
  bool const sums = twins ? Program::several_replicas : Device::sums_gradients;
  return {.in_order = sums && Device::batching.reproducible && !sums_in_order<Communicator>,
          .wire = Device::batching.wire,
          .links = all.links || Program::devices > 1,
          .shares = all.shares || Program::sharded_state,
          .slices = all.slices || Program::layer_slices > 1 || Program::slices > 1,
          .ties = all.ties || Program::ties.count > 0,
          .states = all.states || Program::stateful,
          .two_models = all.two_models || Program::averaging.keeps_two(),
          .ahead = all.ahead || Program::post_validated,
          .asynchronous = all.asynchronous || Program::asynchrony.on()};
}

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

}  // namespace detail

/// Whether ranks of a communicator can add E in an order fixed by rank.
template <class Communicator, class E>
inline constexpr bool has_order =
    sums_in_order<Communicator> ||
    detail::adds_in_order<Communicator, E, typename Communicator::Stream>;

namespace detail {

template <class Communicator, class E>
constexpr void check_order() {
  static_assert(has_order<Communicator, E>,
                "Reproducible<>: this communicator does not say that it adds in an order fixed by "
                "rank; give it `static constexpr bool ordered = true` if it does, or leave "
                "Reproducible out");
}

/// @p data becomes its sum over the ranks by all_reduce_ordered(), which the backend has.
/// @param op  Sum, or one that rounds
template <class Communicator, class E, class Op, class Stream>
void add_in_order(Communicator& group, std::span<E> data, Op op, std::span<std::byte> scratch,
                  Stream& stream, Label label) {
  check_order<Communicator, E>();
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
template <class Backend, class Communicator>
struct PlainSum {
  PlainSum(LayoutView const& /*layout*/, typename Backend::Device& /*device*/, int /*replicas*/) {}

  template <class E, class Stream>
  void operator()(Communicator& group, std::span<E> data, Stream& stream, Label label) const {
    group.all_reduce(data, data, Sum{}, stream, label);
  }
  /// Of this rank's part of the data alone.
  template <class E, class Stream>
  void scatter(Communicator& group, std::span<E> data, std::span<E> part, Stream& stream,
               Label label) const {
    if constexpr (ReduceScatters<Communicator, E, Sum>) {  // as where states are sharded
      group.reduce_scatter(data, part, Sum{}, stream, label);
    }
  }
  [[nodiscard]] static constexpr std::size_t bytes() { return 0; }
};

/// In an order fixed by rank, of messages, where the communicator's own has none.
template <class Backend, class Communicator>
class SumInOrder {
 public:
  SumInOrder(LayoutView const& layout, typename Backend::Device& device, int replicas)
      : scratch_{device, ordered_scratch_bytes<Communicator, typename Backend::Master>(
                             static_cast<std::size_t>(largest_bucket(layout)), replicas)} {}

  template <class E, class Stream>
  void operator()(Communicator& group, std::span<E> data, Stream& stream, Label label) const {
    add_in_order(group, data, Sum{}, {scratch_.data(), scratch_.bytes()}, stream, label);
  }
  template <class E, class Stream>
  void scatter(Communicator& group, std::span<E> data, std::span<E> part, Stream& stream,
               Label label) const {
    if constexpr (scatters_in_order<Communicator, E, Stream>) {  // as where states are sharded
      reduce_scatter_ordered(group, std::span<E const>{data}, part, Sum{},
                             {scratch_.data(), scratch_.bytes()}, stream, label);
    }
  }
  [[nodiscard]] std::size_t bytes() const { return scratch_.bytes(); }

 private:
  typename Backend::Buffer scratch_;
};

/// Gradients travel as they are kept.
template <class Backend>
struct ExactWire {
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  ExactWire(LayoutView const& /*layout*/, Device& /*device*/) {}

  static std::span<P> sent(Device& /*device*/, P* gradients, ElementRange range) {
    return {gradients + range.begin, static_cast<std::size_t>(range.count())};
  }
  static void received(Device& /*device*/, P* /*gradients*/, ElementRange /*range*/) {}
  [[nodiscard]] static constexpr std::size_t bytes() { return 0; }
};

/// Rounded to 16 bits, in memory of their own.
template <class Backend, class Element>
class RoundedWire {
 public:
  using P = typename Backend::Master;
  using Device = typename Backend::Device;

  RoundedWire(LayoutView const& layout, Device& device)
      : rounded_{device, static_cast<std::size_t>(layout.dense) * sizeof(Element)} {}

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
template <class Backend, class Communicator, RankWay Way>
class BucketSums {
 public:
  using Device = typename Backend::Device;
  using P = typename Backend::Master;
  using Wire = std::conditional_t<
      Way.wire == WireFormat::exact, detail::ExactWire<Backend>,
      detail::RoundedWire<Backend,
                          std::conditional_t<Way.wire == WireFormat::bfloat16, BFloat16, Float16>>>;
  /// Sums in a fixed order may take more than an all-reduce: comm/cuda/ordered.cuh.
  using Adds = std::conditional_t<Way.in_order, detail::SumInOrder<Backend, Communicator>,
                                  detail::PlainSum<Backend, Communicator>>;

  /// @param replicas  over which they are
  BucketSums(LayoutView const& layout, Device& device, int replicas)
      : layout_{layout}, adds_{layout, device, replicas}, wire_{layout, device} {
    for (int bucket = 0; bucket < layout.buckets; ++bucket) {
      marks_.push_back(device.make_mark());
    }
  }

  /// Queues the sum of what has been computed of @p bucket of @p gradients.
  /// @param part  all of it, or this rank's share, where it needs no more
  void begin(Device& device, Communicator& group, P* gradients, int bucket, ElementRange part,
             Tracer<Device>& tracer) {
    ElementRange const range = bucket_range(layout_, bucket);
    auto const sent = wire_.sent(device, gradients, range);
    Label const label{"bucket", bucket};
    detail::queue_collective(device, tracer, label, mark(bucket), [&] {
      if (part.count() < range.count()) {
        adds_.scatter(group, sent,
                      sent.subspan(static_cast<std::size_t>(part.begin - range.begin),
                                   static_cast<std::size_t>(part.count())),
                      device.communication, label);
      } else {
        adds_(group, sent, device.communication, label);
      }
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

  LayoutView layout_;
  Adds adds_;
  Wire wire_;
  std::vector<Mark> marks_;  // of each bucket
};

/// Each replica gathers the rows of all, whole blocks of the most that there may be, and adds them
/// itself, in the order of a dense gradient: so all have the same sum.
///
/// Comm: an all-gather of replicas x most x (width + 1) elements for each parameter.
template <class Backend>
class RowSums {
 public:
  using Device = typename Backend::Device;

  /// @param replicas  whose gradients are added, or one
  RowSums(DeviceTables const& tables, Device& device, int replicas)
      : layout_{tables.layout}, gathers_{tables.sums_gradients}, replicas_{replicas} {
    for (int r = 0; gathers_ && r < layout_.row_gradients; ++r) {
      marks_.push_back(device.make_mark());
    }
  }

  /// A binary counter, as GradientReduction has of buckets.
  template <class Rows>
  void join_tree(Device& device, Rows const& rows, int bucket, int index, int leaves) const {
    each(bucket, [&](int r) {
      int level = 0;
      for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
        Verbs<Backend>::add_rows(device, rows.buffer(r, 1 + level), rows.buffer(r));
      }
      if (index != leaves - 1) {
        Verbs<Backend>::copy_rows(device, rows.buffer(r), rows.buffer(r, 1 + level));
      }
    });
  }

  /// There are none.
  template <class Rows>
  void clear(Device& device, Rows const& rows, int bucket) const {
    each(bucket, [&](int r) { Verbs<Backend>::clear_rows(device, rows.buffer(r)); });
  }

  template <class Communicator, class Rows>
  void begin(Device& device, Communicator& group, Rows const& rows, int bucket,
             Tracer<Device>& tracer) {
    if constexpr (AllGathers<Communicator, typename Backend::Master>) {  // as where there are any
      each(gathers_ ? bucket : none, [&](int r) {
        Label const label{"rows", bucket};
        detail::queue_collective(device, tracer, label, mark(r), [&] {
          group.all_gather(rows.sent(r), rows.received(r), device.communication, label);
        });
      });
    }
  }

  /// What is computed from now on reads the sum.
  template <class Rows>
  void await(Device& device, Rows const& rows, int bucket) {
    each(gathers_ ? bucket : none, [&](int r) {
      device.await_on(device.communication, mark(r));
      Verbs<Backend>::sum_rows(device, rows.replicas(r).data(), replicas_, rows.sum(r));
    });
  }

 private:
  using Mark = typename Device::Mark;
  [[nodiscard]] Mark& mark(int r) { return marks_[static_cast<std::size_t>(r)]; }

  template <class F>
  void each(int bucket, F const& f) const {
    for (int r = 0; r < layout_.row_gradients; ++r) {
      if (layout_.row_bucket[r] == bucket) {
        f(r);
      }
    }
  }

  static constexpr int none = -1;

  LayoutView layout_;
  bool gathers_;
  int replicas_;
  std::vector<Mark> marks_;  // of each parameter
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SliceSums: what the ranks that have the slices of one model's layers, or tiles of its images,
/// add up or exchange.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/message.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/core/config.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/prepare/device_tables.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/graph/columns.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

namespace detail {

/// As a rank that has all slices adds them: in the order of comm/fixed_tree.hpp, each sum rounded
/// as it is stored there; of messages where the communicator has no order.
template <class Backend, class Communicator>
class SlicesInOrder {
 public:
  using T = typename Backend::Scalar;

  /// @param samples  of a microbatch, at most
  SlicesInOrder(DeviceTables const& tables, typename Backend::Device& device, int samples)
      : scratch_{device, ordered_scratch_bytes<Communicator, T>(
                             most_elements(tables.graph, samples), tables.slices)} {}

  template <class Stream>
  void operator()(Communicator& group, std::span<T> data, Stream& stream, Label label) const {
    if constexpr (sums_in_order<Communicator>) {
      group.all_reduce(data, data, Add{}, stream, label);
    } else {
      add_in_order(group, data, Add{}, {scratch_.data(), scratch_.bytes()}, stream, label);
    }
  }
  [[nodiscard]] std::size_t bytes() const { return scratch_.bytes(); }

 private:
  using Add = std::conditional_t<(sizeof(T) < sizeof(float)), RoundedSum<T>, Sum>;

  // Of what is added at once.
  TANDEM_COLD static std::size_t most_elements(GraphView graph, int samples) {
    std::int64_t most = 0;
    for (Node const& node : std::span{graph.node, static_cast<std::size_t>(graph.nodes)}) {
      if (node.kind == NodeKind::reduce || node.kind == NodeKind::copy) {
        most = std::max(most, node.out.elements());
      }
    }
    return static_cast<std::size_t>(most * samples);
  }

  typename Backend::Buffer scratch_;
};

}  // namespace detail

/// The rank's end of the group of its slices, on the communication stream. The group adds in the
/// order of the slices, so that all ranks have the same bits, and each run the same; by NCCL only
/// where Reproducible asks for that.
template <class Backend, class Communicator>
class SliceSums {
 public:
  using T = typename Backend::Scalar;
  using P = typename Backend::Master;
  using Device = typename Backend::Device;
  using InOrder = detail::SlicesInOrder<Backend, Communicator>;

  /// @param samples  of a microbatch, at most
  /// @param connect  connect(group): the rank's end of a group of RankGroups
  /// @param tracer   outlives this
  template <class Connect>
  TANDEM_COLD SliceSums(DeviceTables const& tables, Device& device, int samples,
                        Connect const& connect, int group, Tracer<Device>& tracer)
      : in_order_{tables.batching.reproducible ? std::make_unique<InOrder>(tables, device, samples)
                                               : nullptr},
        group_{connect(group)},
        tracer_{tracer},
        mark_{device.make_mark()} {
    sends_.reserve(static_cast<std::size_t>(group_.size()));
    receives_.reserve(static_cast<std::size_t>(group_.size()));
  }

  /// The rank's.
  [[nodiscard]] Slice slice() { return {group_.rank(), group_.size()}; }

  /// The step of @p batch as the rank does it. All ranks make what the caller wants to have, and
  /// the first gives it to the caller. Scores of a sample are @p limit numbers.
  template <class Batch>
  Batch given(Batch batch, std::int64_t limit) {
    if (group_.rank() > 0) {
      batch.outputs = nullptr;
      batch.coverage = nullptr;
      if (batch.scores != nullptr) {
        unread_.resize(static_cast<std::size_t>(batch.size * limit));
        batch.scores = unread_.data();
      }
    }
    return batch;
  }

  /// @p data becomes its sum over the slices; all of them call it. Until await() nothing that is
  /// computed touches it.
  void begin(Device& device, T* data, std::int64_t count, Label label) {
    if (count > 0) {
      std::span<T> const all{data, static_cast<std::size_t>(count)};
      detail::queue_collective(device, tracer_, label, mark_, [&] {
        if constexpr (has_order<Communicator, T>) {
          if (in_order_) {
            (*in_order_)(group_, all, device.communication, label);
            return;
          }
        }
        group_.all_reduce(all, all, Sum{}, device.communication, label);
      });
    }
  }
  void await(Device& device) { device.await_on(device.communication, mark_); }

  /// @p all becomes the rows of all slices, of which this one has @p own, each of @p width numbers;
  /// all of them call it, as they do the next two.
  void gather_rows(Device& device, T const* own, T* all, DealtRows const& rows, std::int64_t width,
                   Label label) {
    std::span<T const> const from{own, elements(rows, width)};
    std::span<T> const to{all, from.size() * static_cast<std::size_t>(rows.slice.count)};
    detail::queue_collective(device, tracer_, label, mark_, [&] {
      if constexpr (AllGathers<Communicator, T>) {  // as where layers exchange rows
        group_.all_gather(from, to, device.communication, label);
      }
    });
    await(device);
  }
  /// @p own becomes this slice's rows of the sum of @p all over the slices. Until the end nothing
  /// that is computed touches either.
  void begin_scatter(Device& device, T const* all, T* own, DealtRows const& rows,
                     std::int64_t width, Label label) {
    std::span<T> const to{own, elements(rows, width)};
    std::span<T const> const from{all, to.size() * static_cast<std::size_t>(rows.slice.count)};
    detail::queue_collective(device, tracer_, label, mark_, [&] {
      if constexpr (ReduceScatters<Communicator, T, Sum>) {  // as where layers exchange rows
        group_.reduce_scatter(from, to, Sum{}, device.communication, label);
      }
    });
  }
  void end_scatter(Device& device, T* own, DealtRows const& rows, std::int64_t width) {
    await(device);
    clear_beyond(device, own, rows, width);
  }
  /// @p own becomes this slice's rows of @p all, which all of them have.
  void take_rows(Device& device, T const* all, T* own, DealtRows const& rows, std::int64_t width) {
    Verbs<Backend>::copy(device, all + rows.first() * width, own, rows.own() * width);
    clear_beyond(device, own, rows, width);
  }

  /// What is computed from now on reads the sums of @p data over the slices.
  template <class E>
  void add_up(Device& device, std::span<E> data, Label label) {
    detail::queue_collective(device, tracer_, label, mark_, [&] {
      if constexpr (AllReduces<Communicator, E, Sum>) {  // as where there are rows or tiles
        group_.all_reduce(data, data, Sum{}, device.communication, label);
      }
    });
    await(device);
  }

  /// What is computed from now on reads in @p data the numbers of all slices, each of which has
  /// written its own, as many; all of them call it.
  void bring_together(Device& device, std::span<double> data, Label label) {
    std::size_t const each = data.size() / static_cast<std::size_t>(group_.size());
    if (each > 0) {
      std::span<double const> const own =
          data.subspan(each * static_cast<std::size_t>(group_.rank()), each);
      detail::queue_collective(device, tracer_, label, mark_,
                               [&] { group_.all_gather(own, data, device.communication, label); });
      await(device);
    }
  }

  /// What is computed from now on reads what other slices have sent; the peers of all messages call
  /// it.
  void exchange(Device& device, std::span<TileMessage<T> const> messages, Label label) {
    sends_.clear();
    receives_.clear();
    for (TileMessage<T> const& message : messages) {
      if (message.sent > 0) {
        sends_.push_back({{message.out, static_cast<std::size_t>(message.sent)}, message.peer});
      }
      if (message.received > 0) {
        receives_.push_back(
            {{message.in, static_cast<std::size_t>(message.received)}, message.peer});
      }
    }
    if (!messages.empty()) {
      detail::queue_collective(device, tracer_, label, mark_, [&] {
        if constexpr (Exchanges<Communicator, T>) {  // as where there are tiles
          group_.exchange(std::span<Outgoing<T> const>{sends_},
                          std::span<Incoming<T> const>{receives_}, device.communication, label);
        }
      });
      await(device);
    }
  }

  /// The arrays of all slices, one behind the other, each as long as @p own; all of them call it.
  TANDEM_COLD void gather(Device& device, std::span<P const> own, std::span<P> all, Label label) {
    if (!own.empty()) {
      detail::queue_collective(device, tracer_, label, mark_,
                               [&] { group_.all_gather(own, all, device.communication, label); });
      await(device);
    }
  }

  /// Of memory in which sums are made.
  [[nodiscard]] std::size_t bytes() const { return in_order_ ? in_order_->bytes() : 0; }

 private:
  static std::size_t elements(DealtRows const& rows, std::int64_t width) {
    return static_cast<std::size_t>(rows.each() * width);
  }
  // Rows that are none give finite numbers, and gradients of 0.
  static void clear_beyond(Device& device, T* own, DealtRows const& rows, std::int64_t width) {
    if (std::int64_t const beyond = rows.each() - rows.own(); beyond > 0) {
      Verbs<Backend>::zero(device, own + rows.own() * width, beyond * width);
    }
  }

  // Where no communicator may change the order.
  std::unique_ptr<InOrder> in_order_;
  Communicator group_;
  Tracer<Device>& tracer_;
  typename Device::Mark mark_;
  std::vector<float> unread_;
  std::vector<Outgoing<T>> sends_;
  std::vector<Incoming<T>> receives_;
};

}  // namespace tandem

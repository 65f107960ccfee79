// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LinkEnd: one end of a link between two devices, on which tensors of one direction travel.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <tandem/comm/operation.hpp>
#include <tandem/engine/step/tracer.hpp>

namespace tandem {

/// Has a stream of its own, so that a message waits for nothing but its buffer and its other end,
/// and what is computed meanwhile goes on. Not copyable, not movable.
template <class Backend, class Communicator>
class LinkEnd {
 public:
  using T = typename Backend::Scalar;
  using Device = typename Backend::Device;
  using Mark = typename Device::Mark;
  using Stream = typename Communicator::Stream;

  /// @param communicator  of two ranks, of which the sender is rank 0
  /// @param tracer        outlives this
  LinkEnd(Device& device, Communicator communicator, Tracer<Device>& tracer)
      : communicator_{std::move(communicator)},
        tracer_{&tracer},
        stream_{device.make_stream()},
        mark_{device.make_mark()} {}

  LinkEnd(LinkEnd const&) = delete;
  LinkEnd& operator=(LinkEnd const&) = delete;

  /// Makes the connection where the first message would: one end alone may not, since in a step the
  /// other may be sending on another link. Both ends call it, and all ranks for their links in one
  /// order.
  void connect() {
    if constexpr (requires { communicator_.warm_up(*stream_, {Operation::send}); }) {
      communicator_.warm_up(*stream_, {Operation::send});
    }
  }

  /// Sends what has been computed so far; it must not change until await().
  void send(Device& device, T const* data, std::int64_t count, Label label) {
    transfer(device, label, [&] {
      communicator_.send(std::span<T const>{data, static_cast<std::size_t>(count)}, 1, *stream_,
                         label);
    });
  }

  /// What is computed from now on comes after the message's arrival in @p data.
  void receive(Device& device, T* data, std::int64_t count, Label label) {
    transfer(device, label, [&] {
      communicator_.receive(std::span<T>{data, static_cast<std::size_t>(count)}, 0, *stream_,
                            label);
    });
    await(device);
  }

  /// What is computed from now on comes after all messages so far.
  void await(Device& device) {
    if (std::exchange(pending_, false)) {  // a capture may not wait for another step's mark
      device.await_on(*stream_, mark_);
    }
  }

  /// Of chunks of time: sets @p sent behind all messages so far, for the other one to wait for.
  void mark(Device& device, Mark& sent) { device.mark_on(*stream_, sent); }
  void await(Device& device, Mark& sent) { device.await_on(*stream_, sent); }

  /// After an error: nothing queued reads or writes memory any more.
  void settle(Device& device) { device.settle(*stream_); }

  [[nodiscard]] Communicator& communicator() { return communicator_; }

 private:
  template <class F>
  void transfer(Device& device, Label label, F const& f) {
    device.begin_on(*stream_);
    tracer_->on_stream(device, *stream_, label, f);
    device.mark_on(*stream_, mark_);
    pending_ = true;
  }

  Communicator communicator_;
  Tracer<Device>* tracer_;
  std::unique_ptr<Stream> stream_;
  Mark mark_;
  bool pending_ = false;  // messages that nobody has awaited
};

}  // namespace tandem

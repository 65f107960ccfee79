// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the engine asks of a backend's types: the concepts ComputeDevice, DeviceBuffer and
/// ComputeBackend.
///
/// What it asks of kernels, for arrays and for the layers of a network, is in ops/concepts.hpp. A
/// stream is opaque to the engine: a device makes it, and a communicator queues on it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tandem/core/complete.hpp>
#include <tandem/runtime/device_spec.hpp>

namespace tandem {

namespace detail {

/// What a concept calls a device's debug() with.
struct AnyWait {
  template <class D, class Mark>
  void operator()(D& /*device*/, Mark const& /*mark*/) const {}
};
struct AnyAction {
  void operator()() const {}
};

}  // namespace detail

/// What one rank computes with, and the order between that and its streams. Made from a DeviceSpec
/// on the rank's thread and used by that thread alone; neither copied nor moved.
///
/// Kernels run in the order of their calls. What is queued on a stream runs in the stream's order,
/// beside them, but for what the verbs below say; on a device whose streams do their work at once
/// most of them have nothing to do.
///
/// communication, scratch, scratch_bytes: data members. A stream, for collectives; memory for the
///                    pass at work, which the engine sets once and ops read.
/// make_stream():     one more stream, for a link to another rank: std::unique_ptr<Stream>.
/// make_mark(), make_stamp(): a Mark, which is a place on a stream, and a Stamp, which is a time.
/// begin_on(stream):  what is queued on it from now on comes after what has been computed so far.
/// mark_on(stream, mark):  sets @p mark behind everything queued so far.
/// await_on(stream, mark): what is computed from now on comes after the stream up to @p mark.
/// stamp(stamp), stamp_on(stream, stamp): sets @p stamp when everything so far has been computed,
///                    or is done on the stream. It keeps its address.
/// microseconds(from, to): between two stamps of work that is done.
/// finish():          waits until all that was computed so far is done.
/// share_with(spec):  another rank's device of this process may reach this one's memory.
/// debug(text, wait, f): does f(), one action, so that what fails in it is found in it and named by
///                    @p text; @p wait(device, mark) blocks the caller, for a device that works on
///                    its own.
/// settle(stream):    after an error: nothing queued on it uses memory once the device's buffers
///                    are gone.
/// Cost: none of these but make_stream(), make_stamp(), finish(), debug() and settle() may allocate
///       or block, since they are called in every step.
template <class D, class Stream>
concept ComputeDevice = Complete<D> && std::constructible_from<D, DeviceSpec const&> &&
    std::movable<typename D::Mark> && std::movable<typename D::Stamp> &&
    requires(D& device, Stream& stream, typename D::Mark& mark, typename D::Stamp& stamp,
             typename D::Stamp const& done, DeviceSpec const& other, std::string const& text) {
  { device.communication } -> std::same_as<Stream&>;
  { device.scratch } -> std::same_as<std::byte*&>;
  { device.scratch_bytes } -> std::same_as<std::int64_t&>;
  { device.make_stream() } -> std::same_as<std::unique_ptr<Stream>>;
  { device.make_mark() } -> std::same_as<typename D::Mark>;
  { device.make_stamp() } -> std::same_as<typename D::Stamp>;
  device.begin_on(stream);
  device.mark_on(stream, mark);
  device.await_on(stream, mark);
  device.stamp(stamp);
  device.stamp_on(stream, stamp);
  { device.microseconds(done, done) } -> std::same_as<double>;
  device.finish();
  device.share_with(other);
  device.debug(text, detail::AnyWait{}, detail::AnyAction{});
  device.settle(stream);
};

/// Memory of a device: made from (device, bytes), zeros at first, freed by its destructor.
///
/// data():  its first byte, aligned for any element; null where it has 0 bytes.
/// as<T>(): the same as a T*.
/// bytes(): as asked for.
/// Cost:    made before the first step, and by nothing in a step.
/// @throws Error  the device has not so much memory; the message says how much was asked for
template <class M, class D>
concept DeviceBuffer = Complete<M> && std::constructible_from<M, D&, std::size_t> &&
    requires(M const& memory) {
  { memory.data() } -> std::same_as<std::byte*>;
  { memory.template as<float>() } -> std::same_as<float*>;
  { memory.bytes() } -> std::same_as<std::size_t>;
};

/// A kind of device with all that belongs to it, as a type that nobody makes an object of.
///
/// Scalar: of activations and their gradients.
/// Master: of parameters, their gradients and the data that the user passes.
/// Device, Buffer, Stream: as above.
///
/// It may have `static constexpr Rewrites rewrites` (graph/rewrites.hpp), where its ops do more
/// than one layer at a time or store channels last, and `packs_weights = true`, where they keep
/// parameters in layouts of their own. Where the host cannot read its memory it specialises, too,
/// the Feed, StepSums, Update, StepRunner and ParameterMirror of engine/.
template <class B>
concept ComputeBackend = ComputeDevice<typename B::Device, typename B::Stream> &&
    DeviceBuffer<typename B::Buffer, typename B::Device> && requires {
  typename B::Scalar;
  typename B::Master;
};

}  // namespace tandem

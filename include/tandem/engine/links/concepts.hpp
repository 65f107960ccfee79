// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Carries: what a rank asks of its communicators, by what its program sends.

#include <concepts>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/strategy/batch/options.hpp>

namespace tandem {

/// Whether ranks of a communicator can share layers.
template <class C, class B>
concept SharesLayers = AllReduces<C, typename B::Scalar, Sum> &&
    AllGathers<C, typename B::Master> && AllGathers<C, double>;

namespace detail {

/// Whether an all-reduce alone adds gradients, or weights, as they are kept. Rounded ones are of
/// another type; and an order that the communicator has not is made of messages.
template <class Program, class C>
constexpr bool reduces_masters() {
  bool const several = Program::several_replicas || Program::map.copies > 1;
  return several && Program::batching.wire == WireFormat::exact &&
         (!Program::batching.reproducible || sums_in_order<C>);
}

template <class C, class B, class Program>
concept ReducesMasters = !reduces_masters<Program, C>() || AllReduces<C, typename B::Master, Sum>;
template <class C, class B, class Program>
concept GathersRows =
    !Program::has_row_gradients || !Program::several_replicas || AllGathers<C, typename B::Master>;
template <class C, class B, class Program>
concept SharesState = !Program::sharded_state || (AllGathers<C, typename B::Master> &&
                                                  ReduceScatters<C, typename B::Master, Sum>);
template <class C, class B, class Program>
concept SumsSlices = Program::slices == 1 || SharesLayers<C, B>;
template <class C, class B, class Program>
concept ExchangesRows = !Program::sequence_rows || (AllGathers<C, typename B::Scalar> &&
                                                    ReduceScatters<C, typename B::Scalar, Sum> &&
                                                    AllReduces<C, typename B::Master, Sum>);
template <class C, class B, class Program>
concept ExchangesTiles = !Program::has_tiles || (Exchanges<C, typename B::Scalar> &&
                                                 AllReduces<C, typename B::Master, Sum>);
template <class C, class B, class Program>
concept SendsScalars = Program::devices == 1 || SendsAndReceives<C, typename B::Scalar>;

}  // namespace detail

/// Queues on the streams of the backend's device; sums doubles, which are losses, votes and norms;
/// gradients where there are several copies of the model, and gathers those that are GradientRows;
/// sends activations where a copy is on several devices, sums them, and gathers doubles, where
/// devices share layers, and exchanges them where devices have tiles of images.
/// Labels are text that the rank owns.
/// @tparam Program  of all devices
template <class C, class B, class Program>
concept Carries =
    std::move_constructible<C> && std::same_as<typename C::Stream, typename B::Stream> &&
    AllReduces<C, double, Sum> && detail::ReducesMasters<C, B, Program> &&
    detail::GathersRows<C, B, Program> && detail::SharesState<C, B, Program> &&
    detail::SumsSlices<C, B, Program> && detail::ExchangesRows<C, B, Program> &&
    detail::ExchangesTiles<C, B, Program> && detail::SendsScalars<C, B, Program>;

}  // namespace tandem

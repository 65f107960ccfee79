// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sentences for a backend or a transport that a Trainer cannot run on, and what it is compiled
/// with instead, so that such a sentence is the only error.

#include <concepts>
#include <type_traits>

#include <tandem/comm/transport.hpp>
#include <tandem/core/complete.hpp>
#include <tandem/engine/links/concepts.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/ops/null.hpp>
#include <tandem/runtime/concepts.hpp>
#include <tandem/train/options/check_asynchrony.hpp>
#include <tandem/train/options/default_transport.hpp>
#include <tandem/train/ranks/workers_of.hpp>

namespace tandem::detail {

/// Whether the kernels of a backend are there. Those of BasicHost<OneDnn> are without the macro.
template <class B>
inline constexpr bool has_kernels = true;
#if !defined(TANDEM_ONEDNN)
template <class Precision>
inline constexpr bool has_kernels<BasicHost<OneDnn, Precision>> = false;
#endif

template <class B>
concept Computes = has_kernels<B> && ComputeBackend<B> && HasVerbs<B>;
template <class T, class B, class Program>
concept Connects = Computes<B> && RankTransport<T> && Carries<typename T::Communicator, B, Program>;

template <class C, class B>
concept OnStreamsOf = std::same_as<typename C::Stream, typename B::Stream>;

/// Whether B names a Device that is nowhere defined.
template <class B>
concept NamesDevice = requires {
  typename B::Device;
}
&&!Complete<typename B::Device>;

// Each assert is of one concept, so that compilers go on to say what of it is missing.
template <class B>
struct BackendFits {
  static constexpr bool value = true;
  static_assert(ComputeBackend<B>,
                "Trainer<Net, Strategy, Backend>: this type is no backend, or its Device or Buffer "
                "lacks what the concept ComputeBackend of tandem/runtime/concepts.hpp asks of it; "
                "take Host or Cuda");
};
template <class B>
  requires NamesDevice<B>
struct BackendFits<B> {
  static constexpr bool value = true;
  static_assert(!NamesDevice<B>,
                "Trainer<Net, Strategy, Cuda>: include <tandem/cuda.cuh> and compile this file "
                "with nvcc");
};
template <>
struct BackendFits<RefusedBackend> {
  static constexpr bool value = true;
};
template <class B>
  requires ComputeBackend<B>
struct BackendFits<B> {
  static constexpr bool value = true;
  static_assert(has_kernels<B>,
                "BasicHost<OneDnn>: compile with -DTANDEM_ONEDNN=1 and link dnnl, or take "
                "BasicHost<Portable>");
  static_assert(HasVerbs<B>,
                "Trainer<Net, Strategy, Backend>: specialise tandem::Verbs for this backend, with "
                "all that the concept HasVerbs of tandem/ops/concepts.hpp asks of it");
};

/// @tparam T  a transport of as many ranks as Program has
template <class T, class B, class Program>
struct TransportFits {
  static constexpr bool value = true;
  static_assert(RankTransport<T>,
                "Trainer<..., Transport>: this template is no transport, or its Communicator lacks "
                "what the concept RankTransport of tandem/comm/transport.hpp asks of it; take "
                "ThreadsTransport, or leave it out");
};
template <class T, class B, class Program>
  requires(!Computes<B>)  // which has been said
struct TransportFits<T, B, Program> {
  static constexpr bool value = true;
};
template <class T, class B, class Program>
  requires Computes<B> && RankTransport<T>
struct TransportFits<T, B, Program> {
  static constexpr bool value = true;
  static_assert(OnStreamsOf<typename T::Communicator, B>,
                "Trainer<..., Backend, ..., Transport>: this transport's communicators queue on "
                "another kind of stream than the backend's device has; take ThreadsTransport for "
                "Host, VirtualTransport or NcclTransport for Cuda");
};
template <class T, class B, class Program>
  requires Computes<B> && RankTransport<T> && OnStreamsOf<typename T::Communicator, B>
struct TransportFits<T, B, Program> {
  static constexpr bool value = true;
  static_assert(Carries<typename T::Communicator, B, Program>,
                "Trainer<..., Strategy, ..., Transport>: this transport's communicators cannot do "
                "what the strategy asks: all_reduce of gradients for several copies of the model, "
                "all_gather of them for RowGradient, reduce_scatter and all_gather for "
                "ShardedState, send and receive of activations for a model on several devices, "
                "all_reduce of activations and all_gather of parameters for TensorParallel, "
                "reduce_scatter and all_gather of activations for SequenceRows, exchange of "
                "them for SpatialParallel");
};

// Of a refused backend the transport is not even named: Cuda's own says that it wants NCCL.
template <template <int> class T, class B, class Program>
struct NamedTransportFits : TransportFits<T<Program::transport_ranks>, B, Program> {};
template <template <int> class T, class Program>
struct NamedTransportFits<T, RefusedBackend, Program> {
  static constexpr bool value = true;
};
template <template <int> class T, class B, class Program>
inline constexpr bool connects = Connects<T<Program::transport_ranks>, B, Program>;
template <template <int> class T, class Program>
inline constexpr bool connects<T, RefusedBackend, Program> = false;

/// What runs in place of a backend that is refused: the same program, and nothing that is computed.
template <class B>
using UsedBackend = std::conditional_t<Computes<B>, B, Null>;

template <bool Fits, class Program, class B, class L, class M, template <int> class T>
struct SelectWorkers {
  using type = WorkersOf<Program, B, L, M, T>;
};
template <class Program, class B, class L, class M, template <int> class T>
struct SelectWorkers<false, Program, B, L, M, T> {
  using type = WorkersOf<Program, B, L, M, DefaultTransport<B>::template type>;
};

/// The same for a transport, which is there no more than its backend is.
/// @tparam B  the backend as the user named it, or RefusedBackend
template <class Program, class B, class L, class M, template <int> class T>
using UsedWorkers =
    typename SelectWorkers<connects<T, B, Program>, Program, UsedBackend<B>, L, M, T>::type;

}  // namespace tandem::detail

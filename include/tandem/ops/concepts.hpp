// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the engine asks of a backend's kernels: of Verbs<Backend>, and of the ops of a network.
///
/// No op sees a communicator or allocates; `operands` and `pass` are what ops/op.hpp says. All
/// queue their work in the order of the calls, and may return before it is done.

#include <concepts>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/rounding.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/runtime/concepts.hpp>

namespace tandem {

namespace detail {

/// What a concept calls Verbs::each() with.
struct AnyFunctor {
  TANDEM_HOST_DEVICE void operator()(std::int64_t /*i*/) const {}
};

template <class B>
concept ReturnsSquares = requires(typename B::Device& device, typename B::Master const* p,
                                  std::int64_t n) {
  { Verbs<B>::sum_of_squares(device, p, n) } -> std::same_as<double>;
};
template <class B>
concept WritesSquares = requires(typename B::Device& device, typename B::Master const* p,
                                 std::int64_t n, double* result) {
  Verbs<B>::sum_of_squares(device, p, n, result);
};

template <class O, class B>
concept MadeFromSetup = std::constructible_from<O, OpSetup const&> ||
    std::constructible_from<O, OpSetup const&, typename B::Device&>;

}  // namespace detail

/// Verbs<B>: what the engine does to flat arrays. T is B::Scalar, P is B::Master.
///
/// zero(device, y, n), copy(device, x, y, n), add(device, x, y, n): of P, and copy() of T as well.
/// sum(device, in, k, y, n, rounding): y = in[0] + … + in[k - 1], of T; the list itself is the
/// host's.
/// each(device, n, functor): functor(i) for every i in [0, n), in any order.
/// sum_of_squares(device, x, n): of P, in double and in an order that no number of threads changes;
///                           a backend with an Update of its own may write it to a further
///                           argument, a double* in the device's memory.
/// Cost: each reads and writes its arrays once.
///
/// Where gradients travel in 16 bits it needs cast(device, x, y, n) as well, and zero() of doubles
/// where statistics are added over replicas.
template <class B>
concept HasVerbs = (detail::ReturnsSquares<B> || detail::WritesSquares<B>)&&requires(
    typename B::Device& device, typename B::Scalar const* t, typename B::Scalar* out,
    typename B::Master const* p, typename B::Master* q, typename B::Scalar const* const* in,
    std::int64_t n, int k) {
  Verbs<B>::zero(device, q, n);
  Verbs<B>::copy(device, p, q, n);
  Verbs<B>::copy(device, t, out, n);
  Verbs<B>::add(device, p, q, n);
  Verbs<B>::sum(device, in, k, out, n, Rounding::each);
  Verbs<B>::each(device, n, detail::AnyFunctor{});
};

/// What Operands are for a backend.
template <class B>
using OperandsOf = Operands<typename B::Scalar, typename B::Master>;

/// An op of one node, made from its OpSetup, and from (OpSetup, Device&) where it prepares
/// something on the device.
///
/// needs():  what memory it wants; asked once, when all ops are made.
/// forward(operands, pass): y from x; saves what backward reads.
/// Cost:     one pass over one microbatch; so the passes below.
template <class O, class B>
concept NodeOp = detail::MadeFromSetup<O, B> &&
    requires(O& op, OperandsOf<B> const& operands, Pass<typename B::Device> const& pass) {
  { op.needs() } -> std::same_as<OpNeeds>;
  op.forward(operands, pass);
};

/// input_gradient(operands, pass): each wanted dx from dy, overwritten; the engine adds where a
/// value has several readers. All ops have it but that of AddJoin, whose dx are dy itself; it is
/// not called for a node whose inputs want no gradient.
template <class O, class B>
concept BackwardOp = NodeOp<O, B> &&
    requires(O& op, OperandsOf<B> const& operands, Pass<typename B::Device> const& pass) {
  op.input_gradient(operands, pass);
};

/// weight_gradient(operands, pass): of each parameter, overwritten, or added to where
/// pass.accumulate; of a statistic what is averaged over the microbatches. After input_gradient().
template <class O, class B>
concept ParameterOp = BackwardOp<O, B> &&
    requires(O& op, OperandsOf<B> const& operands, Pass<typename B::Device> const& pass) {
  op.weight_gradient(operands, pass);
};

/// both_gradients(operands, pass): input_gradient() and weight_gradient() of one microbatch with
/// less work than one by one. The engine calls it where nothing comes between them.
template <class O, class B>
concept JointOp = ParameterOp<O, B> &&
    requires(O& op, OperandsOf<B> const& operands, Pass<typename B::Device> const& pass) {
  op.both_gradients(operands, pass);
};

/// pack(operands, device): makes operands.packed from the parameters, whenever these have changed.
template <class O, class B>
concept PackingOp = NodeOp<O, B> &&
    requires(O& op, OperandsOf<B> const& operands, typename B::Device& device) {
  op.pack(operands, device);
};

/// An op whose passes are cut where ranks join what they have: ForwardPhases, InputGradientPhases
/// and WeightGradientPhases, each Phases<...> of members of its own. The engine runs these in place
/// of the whole passes where the axis has several ranks: of Axis::data in training, of Axis::tensor
/// always.
///
/// A span that is joined is part of what the op saves, one that is gathered may be scratch.
template <class O, class B>
concept PhasedOp = ParameterOp<O, B> &&
    O::ForwardPhases::template fit<O, OperandsOf<B>, Pass<typename B::Device>>&&
        O::InputGradientPhases::template fit<O, OperandsOf<B>, Pass<typename B::Device>>&&
            O::WeightGradientPhases::template fit<O, OperandsOf<B>, Pass<typename B::Device>>;

/// The op of a loss, made from the network's output shape and the largest microbatch.
///
/// scratch_bytes(): of Device::scratch that it wants.
/// forward(pass, output, targets, loss): *loss, in the device's memory, becomes the sum over the
///           samples, in their order.
/// gradient(pass, output, targets, scale, dy): dy = scale times the gradient of that sum.
template <class O, class L, class B>
concept ComputesLoss = std::constructible_from<O, Shape, int> &&
    requires(O& op, O const& same, Pass<typename B::Device> const& pass,
             typename B::Scalar const* output, typename L::Target const* targets, double* loss,
             double scale, typename B::Scalar* dy) {
  { same.scratch_bytes() } -> std::same_as<std::int64_t>;
  op.forward(pass, output, targets, loss);
  op.gradient(pass, output, targets, scale, dy);
};

/// The op of a metric, made from the network's output shape. It may have scratch_bytes(batch).
///
/// count(pass, output, targets, sum): *sum, in the device's memory, becomes the sum over the
///           samples.
template <class O, class L, class B>
concept CountsMetric = std::constructible_from<O, Shape> &&
    requires(O& op, Pass<typename B::Device> const& pass, typename B::Scalar const* output,
             typename L::Target const* targets, double* sum) {
  op.count(pass, output, targets, sum);
};

}  // namespace tandem

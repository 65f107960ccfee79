// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PostValidated: a schedule whose devices go on into the next step before the last one is known to
/// be right.

#include <tandem/schedule/orders/pipeline_schedule.hpp>

namespace tandem {

namespace detail {

template <int Copies>
struct PostValidatedTakes {
  static constexpr bool value = true;
  static_assert(Copies == 1,
                "PostValidated<Schedule>: the schedule has two copies of the model, whose "
                "gradients are summed before any update; take one of one copy, such as "
                "ZeroBubbleH2");
};

}  // namespace detail

/// The passes of @p Schedule, of one copy of the model, step behind step without a barrier: each
/// device updates its part as soon as it has its gradients, as if nothing were to be clipped and
/// all were finite, and begins the next step's forwards, while the loss and the gradients' norm are
/// summed. Before its first backward pass of that step it looks at the sums. If the update should
/// have been another one it is taken back (from a copy of what it has changed), made as it should
/// be, and the step that had begun begins anew; behind such a step devices wait for the sums, until
/// one would have been right. So the numbers are those of a synchronous run, bit for bit.
///
///   device 0 | F0 F1 F2 I0 W0 I1 W1 I2 W2 U F0 F1 …     Pipeline<PostValidated<ZeroBubbleH2>, …>
///   device 1 |    F0 I0 F1 I1 F2 I2 W0 W1 W2 U F0 …
///
/// With ZeroBubbleH2, F = I = W and at least 2 p - 1 microbatches no device is idle between the
/// steps of an epoch: each takes m (F + I + W), (p - 1) F less than without; likewise with
/// ZeroBubbleV. A schedule whose first device ends last, as OneFOneB, gains nothing
/// (step_period()). Where steps are asked for one by one, as by Trainer::step() or a watched epoch,
/// each waits for its sums as ever. On Host, in one process.
/// Memory: one further copy of trained parameters and optimizer states.
/// Cost:   a copy of these a step; a wrong guess costs the forwards before the first backward.
/// Source: Qi et al., arXiv:2401.10241, section 4 and appendix C (post-validation); there devices
///         take an update back by its inverse, which rounds.
template <PipelineSchedule Schedule>
struct PostValidated : Schedule {
  static_assert(detail::PostValidatedTakes<Schedule::copies>::value);
  static constexpr bool post_validated = true;
};

namespace detail {

/// Whether a schedule's devices go on before their updates are known to be right.
template <class S>
inline constexpr bool is_post_validated = false;
template <class S>
  requires requires { requires S::post_validated; }
inline constexpr bool is_post_validated<S> = true;

}  // namespace detail

}  // namespace tandem

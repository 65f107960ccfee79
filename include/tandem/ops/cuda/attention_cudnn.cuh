// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention in bf16 and fp16 on Cuda by cuDNN. Needs <cudnn.h>; ops/cuda/attention.cuh does
/// without.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <tandem/core/contract.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cuda/clear_padding.cuh>
#include <tandem/kernels/cudnn/attention_plans.hpp>
#include <tandem/kernels/cudnn/data_type.hpp>
#include <tandem/kernels/cudnn/library.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/ops/attention_shape.hpp>
#include <tandem/ops/cuda/attention.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Attention without dropout, one kernel (the gradient: a few) that never stores the scores.
///
/// Products and a softmax do what cuDNN has no engine for, pass by pass: both keep the same
/// normalisers, so one may compute y and the other dx. Chunks of time are theirs.
template <class Precision>
class CuDnnAttentionOp {
 public:
  using T = typename Precision::Scalar;

  /// @param workspace_limit  of a pass of cuDNN's
  CuDnnAttentionOp(OpSetup const& setup, RankDevice& device, AttentionShape const& shape,
                   std::int64_t workspace_limit = attention_workspace_limit)
      : shape_{shape},
        limit_{workspace_limit},
        library_{&device.library<CuDnnLibrary>()},
        plans_{&device.library<AttentionPlans>()},
        normalisers_{whole(Attention<T>::normaliser_bytes(shape, setup.batch))},
        chosen_{choose(setup)},
        products_{setup, device, shape, 0.0, chosen_.all ? few_scores : attention_scores_limit} {}

  [[nodiscard]] OpNeeds needs() const {
    OpNeeds needs = products_.needs();
    if (chosen_.workspace >= 0) {
      needs.scratch_bytes = std::max(needs.scratch_bytes, chosen_.workspace + normalisers_);
    }
    return needs;
  }

  /// Whether cuDNN does this pass over a whole microbatch of the longest samples.
  [[nodiscard]] bool by_cudnn(AttentionPass pass) const {
    return pass == AttentionPass::forward ? chosen_.forward : chosen_.gradient;
  }

  /// @throws ContractError  as AttentionOp::forward
  void forward(Operands<T, float> const& o, Pass<RankDevice> const& p) {
    AttentionTask const all = task(AttentionPass::forward, p.batch, p);
    detail::Engine const* const engine = p.sequence.position < 0 ? find(all) : nullptr;
    if (engine == nullptr) {
      products_.forward(o, p);
      return;
    }
    AttentionPointers<T> at = pointers(o, p);
    if (!p.training) {
      at.normalisers = numbers(p);
    }
    detail::execute(*library_, *engine, p.device.compute, all, at, p.device.scratch);
    clear_padding(p.device.compute, rows(p), shape_.out(), o.y);
  }

  void input_gradient(Operands<T, float> const& o, Pass<RankDevice> const& p) {
    if (p.batch == 0) {
      return;
    }
    std::int64_t const piece = attention_piece(shape_, p.batch, p.time, chosen_.workspace);
    AttentionTask const most = task(AttentionPass::gradient, piece, p);
    AttentionTask const last = task(AttentionPass::gradient, (p.batch - 1) % piece + 1, p);
    detail::Engine const* const engine = find(most);
    detail::Engine const* const last_engine = engine == nullptr ? nullptr : find(last);
    if (last_engine == nullptr) {
      products_.input_gradient(o, p);
      return;
    }
    AttentionPointers<T> at = pointers(o, p);
    at.products = numbers(p);
    for (std::int64_t done = 0; done < p.batch; done += piece) {
      bool const is_last = p.batch - done <= piece;
      detail::execute(*library_, is_last ? *last_engine : *engine, p.device.compute,
                      is_last ? last : most, at, p.device.scratch);
      advance(at, piece, p);
    }
    clear_padding(p.device.compute, rows(p), shape_.row(), o.dx[0]);
  }

 private:
  /// Of scores, for the rare pass that cuDNN does not take.
  static constexpr std::int64_t few_scores = std::int64_t{16} << 20;

  struct Choice {
    bool forward = false;
    bool gradient = false;
    bool all = false;             ///< that are wanted
    std::int64_t workspace = -1;  ///< of a pass, at most
  };

  static constexpr std::int64_t whole(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }
  static AttentionRows rows(Pass<RankDevice> const& p) { return {p.batch, p.time, p.lengths}; }

  /// Engines for the longest samples. Lengths are not known yet; they take no more workspace.
  Choice choose(OpSetup const& setup) {
    Choice choice;
    if (setup.node.sequence.chunks > 1) {
      return choice;
    }
    auto const take = [&](AttentionPass pass, std::int64_t samples, std::int64_t least) {
      detail::Engine const* const engine = plans_->find(
          *library_, {pass, shape_, samples, shape_.longest, false, cudnn_type<T>}, limit_);
      if (engine != nullptr) {
        choice.workspace = std::max({choice.workspace, whole(engine->workspace_bytes), least});
      }
      return engine != nullptr;
    };
    constexpr std::int64_t least = std::int64_t{64} << 10;  // other engines, for a last batch
    choice.forward = take(AttentionPass::forward, setup.batch, least);
    if (setup.wants_input_gradient) {
      std::int64_t const piece = attention_piece(shape_, setup.batch, shape_.longest, limit_);
      choice.gradient =
          take(AttentionPass::gradient, piece,
               std::max(least, whole(piece * attention_sample_bytes(shape_, shape_.longest))));
    }
    choice.all = choice.forward && (choice.gradient || !setup.wants_input_gradient);
    return choice;
  }

  [[nodiscard]] AttentionTask task(AttentionPass pass, std::int64_t samples,
                                   Pass<RankDevice> const& p) const {
    return {pass, shape_, samples, p.time, p.lengths != nullptr, cudnn_type<T>};
  }
  [[nodiscard]] detail::Engine const* find(AttentionTask const& task) {
    bool const chosen = by_cudnn(task.pass);
    return chosen ? plans_->find(*library_, task, chosen_.workspace) : nullptr;
  }

  [[nodiscard]] float* numbers(Pass<RankDevice> const& p) const {
    return reinterpret_cast<float*>(p.device.scratch + chosen_.workspace);
  }
  static AttentionPointers<T> pointers(Operands<T, float> const& o, Pass<RankDevice> const& p) {
    return {.x = o.x[0],
            .y = o.y,
            .normalisers = reinterpret_cast<float*>(o.saved),
            .lengths = p.lengths,
            .dy = o.dy,
            .dx = o.dx != nullptr ? o.dx[0] : nullptr,
            .products = nullptr};
  }
  /// To the samples behind the next ones; products are used again.
  void advance(AttentionPointers<T>& at, std::int64_t samples, Pass<RankDevice> const& p) const {
    std::int64_t const rows = samples * p.time;
    at.x += rows * shape_.row();
    at.dx += rows * shape_.row();
    at.y += rows * shape_.out();
    at.dy += rows * shape_.out();
    at.normalisers += rows * shape_.heads;
    at.lengths += at.lengths != nullptr ? samples : 0;
  }

  AttentionShape shape_;
  std::int64_t limit_;
  CuDnnLibrary* library_;
  AttentionPlans* plans_;
  std::int64_t normalisers_;
  Choice chosen_;
  AttentionOp<Precision> products_;
};

}  // namespace cuda

template <int Heads, class... Options, class Precision>
  requires(Attention<Heads, Options...>::dropout == 0.0 &&
           (std::same_as<Precision, Bf16> || std::same_as<Precision, Fp16>))
struct Op<Attention<Heads, Options...>, BasicCuda<CuDnn, Precision>>
    : cuda::CuDnnAttentionOp<Precision> {
  using L = Attention<Heads, Options...>;
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::CuDnnAttentionOp<Precision>{setup, device, detail::attention_shape<L>(setup)} {}
};

}  // namespace tandem

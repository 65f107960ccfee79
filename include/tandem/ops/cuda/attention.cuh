// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention on Cuda, by cuBLASLt's products and a softmax; attention_cudnn.cuh has cuDNN's.

#include <algorithm>
#include <cstdint>
#include <optional>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cuda/attention.cuh>
#include <tandem/kernels/cuda/attention_step.cuh>
#include <tandem/kernels/cuda/attention_time_chunk.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/ops/attention_shape.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Attention of a precision. `saved` has the normaliser of each row and head. Where a pass has
/// a chunk of time, its rows look at those of the chunks before.
template <class Precision>
class AttentionOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  /// @throws ContractError  a dropout's mask has more elements than its random numbers
  AttentionOp(OpSetup const& setup, RankDevice& device, AttentionShape const& shape, double rate,
              std::int64_t scores_limit = attention_scores_limit)
      : layer_{static_cast<std::uint32_t>(setup.index)},
        rate_{static_cast<float>(rate)},
        saved_{Attention<T>::normaliser_bytes(shape, setup.batch) / setup.node.sequence.chunks},
        step_{shape} {
    std::int64_t const words =
        std::int64_t{shape.heads} * setup.slice.count * shape.longest * (shape.longest + 63);
    expects(rate == 0.0 || words < (std::int64_t{1} << 34),
            "Attention<Heads, Percent<…>>: a dropout's mask has too many elements for one sample; "
            "heads times the square of the time must be below 2^34");
    CublasLt const& library = device.library<CublasLt>();
    if (setup.node.sequence.chunks > 1) {
      chunks_.emplace(library, shape, setup.batch, setup.node.sequence.chunks,
                      matmul_math<Precision>, scores_limit);
    } else {
      kernels_.emplace(library, shape, setup.batch, matmul_math<Precision>, scores_limit);
    }
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .output = true,
            .saved_bytes = saved_,
            .scratch_bytes = chunks_ ? chunks_->scratch_bytes()
                                     : std::max(kernels_->scratch_bytes(), step_.scratch_bytes()),
            .carried_bytes = chunks_ ? 0 : step_.carried_bytes(),
            .carried_gradient_bytes = chunks_ ? chunks_->sum_bytes() : 0};
  }

  /// @throws ContractError  the sequence comes in pieces, and is not causal or not alone
  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    AttentionMaskSource const mask = this->mask(p, p.training ? rate_ : 0.0F);
    if (chunks_) {
      chunks_->forward(p.device.compute, rows(p), chunk(o, p), mask, operands(o, p),
                       p.device.scratch);
      return;
    }
    if (p.sequence.position >= 0) {
      expects(o.sequence.carry != nullptr && p.batch == 1,
              "generate(prompt): an Attention that is not Causal looks at tokens that are not "
              "written yet; make it Causal");
      step_.forward(p.device.compute, p.sequence.position, p.time, o.x[0], o.sequence.carry, o.y,
                    p.device.scratch);
      return;
    }
    kernels_->forward(p.device.compute, rows(p), mask, operands(o, p), p.device.scratch);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (chunks_) {
      chunks_->input_gradient(p.device.compute, rows(p), chunk(o, p), mask(p, rate_),
                              operands(o, p), p.device.scratch);
    } else {
      kernels_->input_gradient(p.device.compute, rows(p), mask(p, rate_), operands(o, p),
                               p.device.scratch);
    }
  }

 private:
  static AttentionRows rows(Pass<RankDevice> const& p) { return {p.batch, p.time, p.lengths}; }
  static AttentionTimeChunk<ComputeType<T>> chunk(Operands<T, P> const& o,
                                                  Pass<RankDevice> const& p) {
    return {p.sequence.first_row(), o.sequence.apart, p.is_last_chunk(),
            reinterpret_cast<ComputeType<T>*>(o.sequence.carry_gradient)};
  }

  static AttentionOperands<T> operands(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    return {.x = o.x[0],
            .y = o.y,
            .normalisers = p.training ? reinterpret_cast<ComputeType<T>*>(o.saved) : nullptr,
            .dy = o.dy,
            .dx = o.dx != nullptr ? o.dx[0] : nullptr};
  }

  [[nodiscard]] AttentionMaskSource mask(Pass<RankDevice> const& p, float rate) const {
    if (rate == 0.0F) {
      return {};
    }
    return {{&p.state->seed, &p.state->step, layer_, static_cast<std::uint32_t>(p.first_sample)},
            rate};
  }

  std::uint32_t layer_;
  float rate_;
  std::int64_t saved_;
  AttentionStep<T> step_;
  std::optional<Attention<T>> kernels_;  // one of these two
  std::optional<TimeChunkAttention<T>> chunks_;
};

}  // namespace cuda

template <int Heads, class... Options, class Kernels, class Precision>
struct Op<Attention<Heads, Options...>, BasicCuda<Kernels, Precision>>
    : cuda::AttentionOp<Precision> {
  using L = Attention<Heads, Options...>;
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::AttentionOp<Precision>{setup, device, detail::attention_shape<L>(setup), L::dropout} {
  }
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention on Cuda, by cuBLASLt's products and a softmax; attention_cudnn.cuh has cuDNN's.

#include <algorithm>
#include <cstdint>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cublaslt/library.hpp>
#include <tandem/kernels/cuda/attention.cuh>
#include <tandem/kernels/cuda/attention_step.cuh>
#include <tandem/kernels/functors/attention.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/ops/attention_shape.hpp>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any Attention of a precision. `saved` has the normaliser of each row and head.
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
        saved_{Attention<T>::normaliser_bytes(shape, setup.batch)},
        step_{shape},
        kernels_{device.library<CublasLt>(), shape, setup.batch, matmul_math<Precision>,
                 scores_limit} {
    std::int64_t const words =
        std::int64_t{shape.heads} * setup.slice.count * shape.longest * (shape.longest + 63);
    expects(rate == 0.0 || words < (std::int64_t{1} << 34),
            "Attention<Heads, Percent<…>>: a dropout's mask has too many elements for one sample; "
            "heads times the square of the time must be below 2^34");
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .output = true,
            .saved_bytes = saved_,
            .scratch_bytes = std::max(kernels_.scratch_bytes(), step_.scratch_bytes()),
            .carried_bytes = step_.carried_bytes()};
  }

  /// @throws ContractError  the sequence comes in pieces, and is not causal or not alone
  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.position >= 0) {
      expects(o.carry != nullptr && p.batch == 1,
              "generate(prompt): an Attention that is not Causal looks at tokens that are not "
              "written yet; make it Causal");
      step_.forward(p.device.compute, p.position, p.time, o.x[0], o.carry, o.y, p.device.scratch);
      return;
    }
    kernels_.forward(p.device.compute, rows(p), mask(p, p.training ? rate_ : 0.0F), operands(o, p),
                     p.device.scratch);
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    kernels_.input_gradient(p.device.compute, rows(p), mask(p, rate_), operands(o, p),
                            p.device.scratch);
  }

 private:
  static AttentionRows rows(Pass<RankDevice> const& p) { return {p.batch, p.time, p.lengths}; }

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
  Attention<T> kernels_;
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

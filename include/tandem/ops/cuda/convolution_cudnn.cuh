// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Conv2d on Cuda by cuDNN. Needs <cudnn.h>; ops/cuda/convolution.cuh does without.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cudnn.h>

#include <tandem/core/by_batch.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cuda/cast_many.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cudnn/convolution_plan.hpp>
#include <tandem/kernels/cudnn/data_type.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/cast_queue.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any convolution: one type for all of a precision, so that kernels are compiled once.
///
/// cuDNN 9 has the gradient of the weights in T alone: of 16-bit numbers it is rounded once before
/// it is added to the gradient in fp32. It waits for that in the device's CastQueue, with those of
/// other convolutions; in fp32 it goes by way of scratch unless it may overwrite.
template <class Precision, bool Bias>
class CuDnnConvolutionOp {
 public:
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

  CuDnnConvolutionOp(OpSetup const& setup, ConvolutionGeometry const& geometry, RankDevice& device)
      : device_{&device},
        absorbed_{setup.node.absorbed},
        geometry_{geometry},
        weights_{std::int64_t{geometry.out_channels} * geometry.window.kernel.height *
                 geometry.window.kernel.width * (geometry.in_channels / geometry.groups)},
        rows_{std::int64_t{geometry.out.height} * geometry.out.width} {
    if (setup.batch > 0) {
      workspace_ = plan(forward_, ConvolutionPass::forward, setup.batch).workspace_bytes();
      if (setup.wants_input_gradient) {
        workspace_ =
            std::max(workspace_,
                     plan(input_, ConvolutionPass::input_gradient, setup.batch).workspace_bytes());
      }
      if (!setup.node.frozen) {
        workspace_ = std::max(
            workspace_,
            plan(weight_, ConvolutionPass::weight_gradient, setup.batch).workspace_bytes());
      }
    }
    // Room for the last batch of an epoch: its engines may be others, with more needs.
    constexpr std::int64_t least = std::int64_t{16} << 20;
    workspace_ = std::max((workspace_ + 255) / 256 * 256, least);
    limit_ = workspace_;
    scratch_ = workspace_ + weights_ * static_cast<std::int64_t>(sizeof(T));
    if (Bias && !absorbed_) {
      scratch_ = std::max(scratch_,
                          column_sum_scratch_bytes<T>(setup.batch * rows_, geometry_.out_channels));
    }
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true, .scratch_bytes = scratch_, .staged_bytes = waits_ ? staged_bytes() : 0};
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.batch == 0) {
      return;
    }
    Stream const& stream = p.device.compute;
    plan(forward_, ConvolutionPass::forward, p.batch)
        .run(stream, o.x[0], o.weight[0], o.y, p.device.scratch);
    if constexpr (Bias) {
      if (!(absorbed_ && p.training)) {
        add_bias(stream, o.y, o.parameter[1], p.batch * rows_, geometry_.out_channels);
      }
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.batch > 0) {
      plan(input_, ConvolutionPass::input_gradient, p.batch)
          .run(p.device.compute, o.dx[0], o.weight[0], o.dy, p.device.scratch);
    }
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    if (p.batch > 0) {
      gradient(o, p);
    } else if (!p.accumulate) {
      clear_bytes(o.gradient[0], static_cast<std::size_t>(weights_) * sizeof(P), stream);
    }
    if constexpr (Bias) {
      if (!absorbed_) {
        column_sum(stream, o.dy, p.batch * rows_, geometry_.out_channels, o.gradient[1],
                   p.accumulate, p.device.scratch);
      }
    }
  }

 private:
  [[nodiscard]] ConvolutionTask task(ConvolutionPass pass, std::int64_t batch) const {
    constexpr auto type = cudnn_type<T>;
    return {.pass = pass,
            .geometry = geometry_,
            .batch = batch,
            .type = type,
            .tensor_cores = !std::same_as<Precision, Fp32>,
            .precision = Precision::name};
  }

  ConvolutionPlan& plan(ByBatch<ConvolutionPlan>& plans, ConvolutionPass pass, std::int64_t batch) {
    return plans.get(batch, [&](std::int64_t samples) {
      return ConvolutionPlan{*device_, task(pass, samples), limit_};
    });
  }

  [[nodiscard]] std::int64_t staged_bytes() const {
    return CastQueue::bytes_for(weights_, sizeof(T));
  }

  void gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    ConvolutionPlan& weight = plan(weight_, ConvolutionPass::weight_gradient, p.batch);
    if (std::same_as<T, P> && !p.accumulate) {
      weight.run(stream, o.x[0], o.gradient[0], o.dy, p.device.scratch);
      return;
    }
    CastQueue& casts = p.device.casts;
    if (!casts.fits(1, staged_bytes(), p.accumulate)) {
      finish_casts<T, P>(stream, casts);
    }
    bool const waits = waits_ && casts.memory != nullptr;
    std::byte* const staged = waits ? casts.take(staged_bytes()) : p.device.scratch + workspace_;
    weight.run(stream, o.x[0], staged, o.dy, p.device.scratch);
    casts.put(staged, o.gradient[0], weights_, p.accumulate);
    if (!waits) {
      finish_casts<T, P>(stream, casts);
    }
  }

  static constexpr bool waits_ = !std::same_as<T, P>;

  RankDevice* device_;
  bool absorbed_;  // training is without the bias
  ConvolutionGeometry geometry_;
  std::int64_t weights_;
  std::int64_t rows_;  // of y, a sample
  std::int64_t limit_ = convolution_workspace_limit;
  std::int64_t workspace_ = 0;
  std::int64_t scratch_ = 0;
  ByBatch<ConvolutionPlan> forward_;
  ByBatch<ConvolutionPlan> input_;
  ByBatch<ConvolutionPlan> weight_;
};

}  // namespace cuda

template <int Out, class... Options, class Precision>
  requires(!std::same_as<typename Precision::Scalar, double>)
struct Op<Conv2d<Out, Options...>, BasicCuda<CuDnn, Precision>>
    : cuda::CuDnnConvolutionOp<Precision, Conv2d<Out, Options...>::bias> {
  Op(OpSetup const& setup, cuda::RankDevice& device)
      : cuda::CuDnnConvolutionOp<Precision, Conv2d<Out, Options...>::bias>{
            setup, Conv2d<Out, Options...>::geometry(setup.node.in), device} {}
};

}  // namespace tandem

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
#include <tandem/ops/own_geometry.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/cast_queue.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Any convolution, or several pointwise ones of one input side by side: one type for all of a
/// precision, so that kernels are compiled once.
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
        absorbed_{setup.node.fusion.absorbed},
        siblings_{setup.merged},
        geometry_{geometry},
        fan_in_{std::int64_t{geometry.window.kernel.height} * geometry.window.kernel.width *
                (geometry.in_channels / geometry.groups)},
        rows_{std::int64_t{geometry.out.height} * geometry.out.width} {
    if (siblings_.count == 1) {
      siblings_.channels[0] = geometry.out_channels;
      siblings_.parameter[0] = 0;
    }
    geometry_.out_channels = 0;
    for (int i = 0; i < siblings_.count; ++i) {
      geometry_.out_channels += siblings_.channels[i];
    }
    weights_ = geometry_.out_channels * fan_in_;
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
    for (int i = 0; Bias && !absorbed_ && i < siblings_.count; ++i) {
      scratch_ = std::max(scratch_,
                          column_sum_scratch_bytes<T>(setup.batch * rows_, siblings_.channels[i]));
    }
  }

  [[nodiscard]] OpNeeds needs() const {
    return {.input = true,
            .scratch_bytes = scratch_,
            .staged_bytes = waits_ ? staged_bytes() : 0,
            .packed_bytes = siblings_.count > 1 ? staged_bytes() : 0};
  }

  /// Has the weights of siblings put side by side, with those of other ops in one launch.
  void pack(Operands<T, P> const& o, RankDevice& device) const {
    if (siblings_.count == 1) {
      return;
    }
    if (!device.packing.fits(siblings_.count, 0, false)) {
      finish_casts<T, T>(device.compute, device.packing);
    }
    T* to = reinterpret_cast<T*>(o.packed);
    each_sibling([&](int /*channel*/, int channels, int place) {
      device.packing.put(o.weight[place], to, channels * fan_in_, false);
      to += channels * fan_in_;
    });
  }

  void forward(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.batch == 0) {
      return;
    }
    Stream const& stream = p.device.compute;
    plan(forward_, ConvolutionPass::forward, p.batch)
        .run(stream, o.x[0], weights(o), o.y, p.device.scratch);
    if constexpr (Bias) {
      if (!(absorbed_ && p.training)) {
        each_sibling([&](int channel, int channels, int place) {
          add_bias(stream, o.y + channel, o.parameter[place + 1], p.batch * rows_, channels,
                   geometry_.out_channels);
        });
      }
    }
  }
  void input_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    if (p.batch > 0) {
      plan(input_, ConvolutionPass::input_gradient, p.batch)
          .run(p.device.compute, o.dx[0], weights(o), o.dy, p.device.scratch);
    }
  }
  void weight_gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    if (p.batch > 0) {
      gradient(o, p);
    } else if (!p.accumulate) {
      each_sibling([&](int /*channel*/, int channels, int place) {
        clear_bytes(o.gradient[place], static_cast<std::size_t>(channels * fan_in_) * sizeof(P),
                    stream);
      });
    }
    if constexpr (Bias) {
      if (!absorbed_) {
        each_sibling([&](int channel, int channels, int place) {
          column_sum(stream, o.dy + channel, p.batch * rows_, channels, o.gradient[place + 1],
                     p.accumulate, p.device.scratch, geometry_.out_channels);
        });
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

  /// f(first channel, channels, where its parameters stand) for each convolution.
  template <class Function>
  void each_sibling(Function const& f) const {
    int channel = 0;
    for (int i = 0; i < siblings_.count; ++i) {
      f(channel, siblings_.channels[i], siblings_.parameter[i]);
      channel += siblings_.channels[i];
    }
  }
  [[nodiscard]] T const* weights(Operands<T, P> const& o) const {
    return siblings_.count > 1 ? reinterpret_cast<T const*>(o.packed) : o.weight[0];
  }

  [[nodiscard]] std::int64_t staged_bytes() const {
    return CastQueue::bytes_for(weights_, sizeof(T));
  }

  void gradient(Operands<T, P> const& o, Pass<RankDevice> const& p) {
    Stream const& stream = p.device.compute;
    ConvolutionPlan& weight = plan(weight_, ConvolutionPass::weight_gradient, p.batch);
    if (std::same_as<T, P> && !p.accumulate && siblings_.count == 1) {
      weight.run(stream, o.x[0], o.gradient[0], o.dy, p.device.scratch);
      return;
    }
    CastQueue& casts = p.device.casts;
    if (!casts.fits(siblings_.count, staged_bytes(), p.accumulate)) {
      finish_casts<T, P>(stream, casts);
    }
    bool const waits = waits_ && casts.memory != nullptr;
    std::byte* const staged = waits ? casts.take(staged_bytes()) : p.device.scratch + workspace_;
    weight.run(stream, o.x[0], staged, o.dy, p.device.scratch);
    T const* from = reinterpret_cast<T const*>(staged);
    each_sibling([&](int /*channel*/, int channels, int place) {
      casts.put(from, o.gradient[place], channels * fan_in_, p.accumulate);
      from += channels * fan_in_;
    });
    if (!waits) {
      finish_casts<T, P>(stream, casts);
    }
  }

  static constexpr bool waits_ = !std::same_as<T, P>;

  RankDevice* device_;
  bool absorbed_;  // training is without the bias
  MergedOutputs siblings_;
  ConvolutionGeometry geometry_;  // of all siblings together
  std::int64_t fan_in_;           // weights of one output
  std::int64_t weights_ = 0;
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
            setup,
            tandem::detail::own_geometry(
                Conv2d<Out, Options...>::geometry(setup.node.in, setup.node.out), setup.node),
            device} {}
};

}  // namespace tandem

// SPDX-License-Identifier: Apache-2.0

/// @file
/// Instantiates every op of Cuda in a file of plain C++: each kernel it launches is found in
/// tandem::compiled_cuda, or this program does not compile or link. The headers of cuda::std show
/// that the library's declarations for plain C++ collide with none of theirs.

#include <cstdio>
#include <ratio>

#include <cuda/std/functional>
#include <cuda/std/tuple>

#include <tandem/cuda.cuh>

namespace tandem {

template <class L, OpCalls Calls, class Backend>
void make(OpSetup const& setup, cuda::RankDevice& device, PhaseRule const& rule) {
  OpOf<Op<L, Backend>, Backend, Calls>{setup, device, rule};
}
#define OP_OF(wanted, way, Precision, ...)                                                \
  template void                                                                           \
  make<__VA_ARGS__, OpCalls{OpWay::way, Wanted::wanted}, BasicCuda<Portable, Precision>>( \
      OpSetup const&, cuda::RankDevice&, PhaseRule const&);
#define OP(wanted, way, ...)            \
  OP_OF(wanted, way, Tf32, __VA_ARGS__) \
  OP_OF(wanted, way, Fp64, __VA_ARGS__) \
  OP_OF(wanted, way, Bf16, __VA_ARGS__) \
  OP_OF(wanted, way, Fp16, __VA_ARGS__)

OP(input, whole, ReLU)
OP(input, whole, Dropout<Percent<10>>)
OP(input, whole, Gelu)
OP(input, whole, GeluTanh)
OP(input, whole, SiLU)
OP(input, whole, Sigmoid)
OP(input, whole, Tanh)
OP(input, whole, Softmax)
OP(input, whole, SwiGlu)
OP(input, whole, Flatten)
OP(input, whole, MaxPool2d<Kernel<2, 2>>)
OP(input, whole, AvgPool2d<Kernel<2, 2>>)
OP(input, whole, GlobalAvgPool)
OP(input, whole, Subsample2d<4, 2>)
OP(input, whole, Pad2d<Padding<1, 1>>)
OP(input, whole, Upsample<2, Bilinear>)
OP(both, whole, Conv2d<4, Kernel<3, 3>>)
OP(both, whole, Conv2d<4, Kernel<3, 3>, NoBias>)
OP(both, whole, ConvTranspose2d<4, Kernel<3, 3>>)
OP(both, whole, BatchNorm2d<>)
OP(both, phased, SyncBatchNorm2d<>)
OP(both, whole, GroupNorm<2>)
OP(input, whole, GroupNorm<2, NoAffine>)
OP(input, whole, InstanceNorm2d<>)
OP(both, whole, LayerNorm<>)
OP(both, whole, LayerNorm<NoBias>)
OP(both, whole, RmsNorm<>)
OP(both, whole, Linear<4>)
OP(both, whole, Linear<4, NoBias>)
OP(weight, whole, Embedding<8, 4>)
OP(weight, whole, Embedding<8, 4, RowGradient>)
OP(weight, whole, WordSlice<Embedding<8, 4>>)
OP(both, whole, Positions<>)
OP(input, whole, RotaryPositions<2>)
OP(input, whole, Attention<2>)
OP(input, whole, Attention<2, Causal>)
OP(both, whole, Bahdanau<4>)
OP(both, whole, Lstm<4>)
OP(both, whole, Lstm<4, Projection<2>>)
OP(both, whole, Gru<4>)
OP(input, whole, LastRow)
OP(input, whole, MeanOverTime)
OP(both, whole, Vocabulary<8>)
OP(both, whole, Vocabulary<8, NoBias>)
OP(both, whole, Vocabulary<8, Sampled<4>>)
OP(both, phased, WordSlice<Vocabulary<8>>)
OP(input, whole, ConcatJoin)
OP(nothing, whole, AddJoin)
OP(input, whole, MultiplyJoin)
OP(weight, whole, RowBias)
OP(input, exchange, TileExchange)

#define LOSS_OF(Precision, ...) \
  template class detail::OwnCriterion<__VA_ARGS__, BasicCuda<Portable, Precision>>;
#define LOSS(...)            \
  LOSS_OF(Tf32, __VA_ARGS__) \
  LOSS_OF(Fp64, __VA_ARGS__) \
  LOSS_OF(Bf16, __VA_ARGS__) \
  LOSS_OF(Fp16, __VA_ARGS__)

LOSS(SoftmaxCrossEntropy<>, Accuracy)
LOSS(SoftmaxCrossEntropy<Percent<10>>, TopK<5>)
LOSS(SoftmaxCrossEntropy<IgnoreIndex<-100>>, Accuracy)
LOSS(SoftCrossEntropy<>, Accuracy)
LOSS(MeanSquaredError, NoMetric)
LOSS(MeanAbsoluteError, NoMetric)
LOSS(Huber<>, NoMetric)
LOSS(BinaryCrossEntropy, BinaryAccuracy)
LOSS(PerToken, Accuracy)
LOSS(PerSample, Accuracy)

}  // namespace tandem

int main() { std::puts("every op of Cuda is declared"); }

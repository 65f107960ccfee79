// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The whole library with the Cuda backend, for files that nvcc compiles; with
/// TANDEM_SEPARATE_COMPILATION also for a C++ compiler, see impl/src.cuh.
///
/// Link with -lcublasLt. With -DTANDEM_CUDNN (and -lcudnn) convolutions are cuDNN's, with
/// -DTANDEM_NCCL (and -lnccl) several GPUs talk through NCCL; both must be the same in all files of
/// a program. CMake's target tandem::cuda sees to all of this.

#if !defined(__CUDACC__) && !defined(TANDEM_CUDA_EMULATED) && !defined(TANDEM_SEPARATE_COMPILATION)
#error \
    "tandem/cuda.cuh: compile this file with nvcc (name it .cu), or include <tandem/tandem.hpp> and use Host"
#else

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/comm/cuda_virtual/transport.cuh>
#include <tandem/engine/memory/cuda/mirror.hpp>
#include <tandem/engine/step/cuda/check_queues.hpp>
#include <tandem/engine/step/cuda/feed.cuh>
#include <tandem/engine/step/cuda/runner.hpp>
#include <tandem/engine/step/cuda/sums.cuh>
#include <tandem/engine/step/cuda/update.cuh>
#include <tandem/ops/cuda/activation.cuh>
#include <tandem/ops/cuda/attention.cuh>
#include <tandem/ops/cuda/bahdanau.cuh>
#include <tandem/ops/cuda/batch_norm.cuh>
#include <tandem/ops/cuda/conv_transpose.cuh>
#include <tandem/ops/cuda/convolution.cuh>
#include <tandem/ops/cuda/embedding.cuh>
#include <tandem/ops/cuda/flatten.cuh>
#include <tandem/ops/cuda/group_norm.cuh>
#include <tandem/ops/cuda/join.cuh>
#include <tandem/ops/cuda/layer_norm.cuh>
#include <tandem/ops/cuda/linear.cuh>
#include <tandem/ops/cuda/loss.cuh>
#include <tandem/ops/cuda/no_metric.cuh>
#include <tandem/ops/cuda/own_join.cuh>
#include <tandem/ops/cuda/own_layer.cuh>
#include <tandem/ops/cuda/own_loss.cuh>
#include <tandem/ops/cuda/pool.cuh>
#include <tandem/ops/cuda/recurrent.cuh>
#include <tandem/ops/cuda/resample.cuh>
#include <tandem/ops/cuda/row_bias.cuh>
#include <tandem/ops/cuda/sampled_vocabulary.cuh>
#include <tandem/ops/cuda/smooth_activation.cuh>
#include <tandem/ops/cuda/sync_batch_norm.cuh>
#include <tandem/ops/cuda/tile_exchange.cuh>
#include <tandem/ops/cuda/time_pool.cuh>
#include <tandem/ops/cuda/update.cuh>
#include <tandem/ops/cuda/verbs.cuh>
#include <tandem/ops/cuda/vocabulary.cuh>
#include <tandem/ops/cuda/vocabulary_slice.cuh>
#include <tandem/tandem.hpp>
#include <tandem/train/options/cuda/devices_there.hpp>
#if defined(TANDEM_CUDNN)
#include <tandem/ops/cuda/attention_cudnn.cuh>
#include <tandem/ops/cuda/conv_transpose_cudnn.cuh>
#include <tandem/ops/cuda/convolution_cudnn.cuh>
#endif
#if defined(TANDEM_NCCL)
#include <tandem/comm/cuda/ordered.cuh>
#include <tandem/train/options/cuda/nccl_by_default.cuh>
#else
#include <tandem/train/options/cuda/one_gpu_by_default.cuh>
#endif

#if defined(TANDEM_SEPARATE_COMPILATION)
#include <tandem/impl/cuda_instances.cuh>
#endif

#include <tandem/core/letters_back.hpp>

#endif

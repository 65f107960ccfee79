// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The whole library for plain C++: networks, strategies, the Host backend, data and training.

#include <tandem/core/letters_aside.hpp>

// Here, so that their sentences are not found by way of nine headers.
#include <tandem/core/config.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/graph/network.hpp>

#include <tandem/engine/rank/rank.hpp>
#include <tandem/ops/op.hpp>

#include <tandem/comm/threads/transport.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/augment.hpp>
#include <tandem/data/cifar10.hpp>
#include <tandem/data/first.hpp>
#include <tandem/data/in_buckets.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/data/mnist.hpp>
#include <tandem/data/soft_labels.hpp>
#include <tandem/data/tensor_dataset.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/layers/bahdanau.hpp>
#include <tandem/layers/batch_norm2d.hpp>
#include <tandem/layers/conv2d.hpp>
#include <tandem/layers/conv_transpose2d.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/layers/pool.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/resample.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/layers/subsample2d.hpp>
#include <tandem/layers/sync_batch_norm2d.hpp>
#include <tandem/layers/time_pool.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/models/big_lstm.hpp>
#include <tandem/models/gnmt.hpp>
#include <tandem/models/googlenet.hpp>
#include <tandem/models/gpt.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/models/resnet_cifar.hpp>
#include <tandem/models/resnet_imagenet.hpp>
#include <tandem/models/small_cnn.hpp>
#include <tandem/models/vgg.hpp>
#include <tandem/ops/check_join.hpp>
#include <tandem/ops/check_layer.hpp>
#include <tandem/ops/host/all.hpp>
#include <tandem/ops/null.hpp>
#include <tandem/optim/adagrad.hpp>
#include <tandem/optim/lamb.hpp>
#include <tandem/optim/lion.hpp>
#include <tandem/optim/rmsprop.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>
#include <tandem/strategy/types/data_parallel.hpp>
#include <tandem/strategy/types/hybrid.hpp>
#include <tandem/strategy/types/model_parallel.hpp>
#include <tandem/strategy/types/pipeline.hpp>
#include <tandem/train/checkpoint/gpt2/export.hpp>
#include <tandem/train/checkpoint/gpt2/load.hpp>
#include <tandem/train/elastic/run.hpp>
#include <tandem/train/event_log.hpp>
#include <tandem/train/plateau.hpp>
#include <tandem/train/predict/predictor.hpp>
#include <tandem/train/ranks/world.hpp>
#include <tandem/train/step_log.hpp>
#include <tandem/train/trainer.hpp>
#include <tandem/train/translate.hpp>

#if defined(TANDEM_ONEDNN)
#include <tandem/ops/onednn/all.hpp>
#endif

#if defined(TANDEM_SEPARATE_COMPILATION)
#include <tandem/impl/instances.hpp>
#endif

#include <tandem/core/letters_back.hpp>

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All ops of the portable Host backend.

#include <tandem/ops/host/activation.hpp>
#include <tandem/ops/host/attention.hpp>
#include <tandem/ops/host/bahdanau.hpp>
#include <tandem/ops/host/batch_norm.hpp>
#include <tandem/ops/host/conv_transpose.hpp>
#include <tandem/ops/host/convolution.hpp>
#include <tandem/ops/host/embedding.hpp>
#include <tandem/ops/host/group_norm.hpp>
#include <tandem/ops/host/join.hpp>
#include <tandem/ops/host/layer_norm.hpp>
#include <tandem/ops/host/loss.hpp>
#include <tandem/ops/host/own_join.hpp>
#include <tandem/ops/host/own_layer.hpp>
#include <tandem/ops/host/pool.hpp>
#include <tandem/ops/host/recurrent.hpp>
#include <tandem/ops/host/resample.hpp>
#include <tandem/ops/host/row_bias.hpp>
#include <tandem/ops/host/sampled_vocabulary.hpp>
#include <tandem/ops/host/smooth_activation.hpp>
#include <tandem/ops/host/sync_batch_norm.hpp>
#include <tandem/ops/host/tile_exchange.hpp>
#include <tandem/ops/host/time_pool.hpp>
#include <tandem/ops/host/user_layer.hpp>
#include <tandem/ops/host/vocabulary.hpp>
#include <tandem/ops/host/vocabulary_slice.hpp>

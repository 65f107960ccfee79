// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All ops of the oneDNN Host backend; included where TANDEM_ONEDNN is defined.

#include <tandem/ops/onednn/activation.hpp>
#include <tandem/ops/onednn/attention.hpp>
#include <tandem/ops/onednn/bahdanau.hpp>
#include <tandem/ops/onednn/batch_norm.hpp>
#include <tandem/ops/onednn/border.hpp>
#include <tandem/ops/onednn/conv_transpose.hpp>
#include <tandem/ops/onednn/convolution.hpp>
#include <tandem/ops/onednn/flatten.hpp>
#include <tandem/ops/onednn/group_norm.hpp>
#include <tandem/ops/onednn/join.hpp>
#include <tandem/ops/onednn/linear.hpp>
#include <tandem/ops/onednn/loss.hpp>
#include <tandem/ops/onednn/own_join.hpp>
#include <tandem/ops/onednn/pool.hpp>
#include <tandem/ops/onednn/recurrent.hpp>
#include <tandem/ops/onednn/resample.hpp>
#include <tandem/ops/onednn/row_bias.hpp>
#include <tandem/ops/onednn/sync_batch_norm.hpp>
#include <tandem/ops/onednn/user_layer.hpp>
#include <tandem/ops/onednn/vocabulary.hpp>

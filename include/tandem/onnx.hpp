// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trained networks as ONNX files, for onnxruntime and others.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/train/onnx/export.hpp>

#include <tandem/core/letters_back.hpp>

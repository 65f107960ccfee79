// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The three passes of a convolution: convolution_forward, convolution_input_gradient and
/// convolution_weight_gradient; and convolution_scratch.

#include <tandem/kernels/host/convolution_forward.hpp>
#include <tandem/kernels/host/convolution_input_gradient.hpp>
#include <tandem/kernels/host/convolution_weight_gradient.hpp>

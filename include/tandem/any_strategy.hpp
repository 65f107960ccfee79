// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// AnyStrategy: a Trainer is told at start which strategy it trains under; fits() asks of such one.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/train/any_strategy.hpp>

#include <tandem/core/letters_back.hpp>

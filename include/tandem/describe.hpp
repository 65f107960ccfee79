// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A network as text: its layers with shapes, parameters and multiply-accumulates, and the memory
/// of each device that trains it.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/measure/account/text.hpp>
#include <tandem/train/describe/describe.hpp>

#include <tandem/core/letters_back.hpp>

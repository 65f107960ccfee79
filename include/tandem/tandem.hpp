// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// All of tandem that a plain C++20 compiler takes.

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/core/shape.hpp>

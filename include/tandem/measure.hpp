// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the planner can be told of this machine and of real data: the times of a network's nodes,
/// and the epochs that training takes by batch.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/measure/epochs/measure_epochs.hpp>
#include <tandem/measure/epochs/report.hpp>
#include <tandem/measure/profile/profile.hpp>

#include <tandem/core/letters_back.hpp>

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the planner can be told of this machine and of real data: the times of a network's nodes,
/// and the epochs that training takes by batch.

#include <tandem/train/measure_epochs.hpp>
#include <tandem/train/measure_epochs_report.hpp>
#include <tandem/train/profile.hpp>

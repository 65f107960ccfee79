// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tables and arrays of files for training: .csv, and NumPy's .npy.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/data/csv_dataset.hpp>
#include <tandem/data/npy_dataset.hpp>

#include <tandem/core/letters_back.hpp>

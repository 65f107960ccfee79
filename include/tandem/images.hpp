// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Images for training: folders of JPEG and PNG files, and transforms that make more of them.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/data/image/color_jitter.hpp>
#include <tandem/data/image/image_folder.hpp>
#include <tandem/data/image/rand_augment.hpp>
#include <tandem/data/image/random_erasing.hpp>
#include <tandem/data/image/random_resized_crop.hpp>
#include <tandem/data/image/resizing.hpp>

#include <tandem/core/letters_back.hpp>

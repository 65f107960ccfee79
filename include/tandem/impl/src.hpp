// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bodies of all that headers declare with TANDEM_SEPARATE_COMPILATION. One unit of a program
/// includes this header and nothing else of the library. Four units may divide the bodies, to be
/// compiled at the same time. Each defines TANDEM_IMPL_PART first: 1 for plain functions, 2 for
/// ranks and steps, 3 for portable kernels, 4 for kernels with oneDNN. The CMake target
/// tandem::compiled consists of these four units.

#if !defined(TANDEM_SEPARATE_COMPILATION)
#error "TANDEM_SEPARATE_COMPILATION must be defined for every file of the program, this one too"
#include <see the error above>
#elif defined(TANDEM_BODIES)
#error "include <tandem/impl/src.hpp> before every other header of tandem, in a file of its own"
#include <see the error above>
#endif
#define TANDEM_IMPL_UNIT
#if !defined(TANDEM_IMPL_PART)
#define TANDEM_IMPL_SRC
#elif TANDEM_IMPL_PART == 1
#define TANDEM_IMPL_SRC
#elif TANDEM_IMPL_PART < 1 || TANDEM_IMPL_PART > 4
#error "TANDEM_IMPL_PART is 1, 2, 3 or 4: four units, one of each"
#include <see the error above>
#endif

#include <tandem/core/letters_aside.hpp>

#include <tandem/comm/lifeline/inquiry.hpp>
#include <tandem/comm/lifeline/lifeline.hpp>
#include <tandem/comm/lifeline/meeting.hpp>
#include <tandem/comm/rendezvous/rendezvous.hpp>
#include <tandem/kernels/channels_last/attention_mask.hpp>
#include <tandem/kernels/channels_last/group_norm.hpp>
#include <tandem/kernels/channels_last/winograd.hpp>

#include <tandem/any_strategy.hpp>
#include <tandem/describe.hpp>
#include <tandem/images.hpp>
#include <tandem/measure.hpp>
#include <tandem/onnx.hpp>
#include <tandem/plan.hpp>
#include <tandem/schedules.hpp>
#include <tandem/tables.hpp>
#include <tandem/tandem.hpp>
#include <tandem/text.hpp>
#if !defined(TANDEM_IMPL_PART) || TANDEM_IMPL_PART == 2
#include <tandem/impl/rank_parts.hpp>
#endif

#include <tandem/core/letters_back.hpp>

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The whole library with MPI beneath Host: OverMpi<Host> and mpi_world().
///
/// Compile with mpicxx, or link what CMake's target tandem::mpi does. Only MPI's C functions are
/// called.

#if defined(__has_include) && !__has_include(<mpi.h>)
#error "tandem/mpi.hpp: mpi.h is not found: compile with mpicxx, or link CMake's tandem::mpi"
#elif !defined(__linux__)
#error "tandem/mpi.hpp: processes over MPI need Linux; tandem/tandem.hpp alone has Host's threads"
#else

#include <tandem/core/letters_aside.hpp>

#include <tandem/comm/mpi/transport.hpp>
#include <tandem/comm/mpi/world.hpp>
#include <tandem/tandem.hpp>
#include <tandem/train/options/mpi/over_mpi.hpp>
#if defined(TANDEM_SEPARATE_COMPILATION)
#include <tandem/impl/rank_parts.hpp>
#endif

#include <tandem/core/letters_back.hpp>

#endif

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline schedules as values, without networks, devices or training: made, read, verified,
/// simulated, printed and drawn.

#include <tandem/strategy/live_microbatches.hpp>
#include <tandem/strategy/lower_table.hpp>
#include <tandem/strategy/make_schedule.hpp>
#include <tandem/strategy/makespan.hpp>
#include <tandem/strategy/schedule_summary.hpp>
#include <tandem/strategy/schedule_svg.hpp>
#include <tandem/strategy/strategy_svg.hpp>
#include <tandem/strategy/table_check.hpp>
#include <tandem/strategy/table_csv.hpp>
#include <tandem/strategy/table_updates.hpp>
#include <tandem/strategy/verify.hpp>
#include <tandem/strategy/verify_message.hpp>
#include <tandem/strategy/verify_updates.hpp>

// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pipeline schedules as values, without networks, devices or training: made, read, verified,
/// simulated, printed and drawn.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/schedule/csv/check.hpp>
#include <tandem/schedule/csv/type_writer.hpp>
#include <tandem/schedule/csv/writer.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/schedule/orders/search_schedule.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/picture/strategy_svg.hpp>
#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/live_microbatches.hpp>
#include <tandem/schedule/table/lower.hpp>
#include <tandem/schedule/time/simulate.hpp>
#include <tandem/schedule/time/step_period.hpp>
#include <tandem/schedule/time/summary.hpp>
#include <tandem/schedule/verify/sentence.hpp>
#include <tandem/schedule/verify/step.hpp>
#include <tandem/schedule/verify/updates.hpp>
#include <tandem/schedule/verify/verify.hpp>

#include <tandem/core/letters_back.hpp>

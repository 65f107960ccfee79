// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The planner's parts: time to converge, machines and collectives, epochs by batch, and dataflow
/// graphs with costs, cut, placed and simulated. Values only, no device is needed.

#include <tandem/plan/calibrate.hpp>
#include <tandem/plan/chain_partition.hpp>
#include <tandem/plan/collectives.hpp>
#include <tandem/plan/convergence_time.hpp>
#include <tandem/plan/critical_path.hpp>
#include <tandem/plan/epochs.hpp>
#include <tandem/plan/machine_json.hpp>
#include <tandem/plan/machines.hpp>
#include <tandem/plan/measured_costs.hpp>
#include <tandem/plan/pipedream_graph.hpp>
#include <tandem/plan/place.hpp>
#include <tandem/plan/place_ordered.hpp>
#include <tandem/plan/placement_lp.hpp>
#include <tandem/plan/placement_report.hpp>
#include <tandem/plan/profile_json.hpp>
#include <tandem/plan/profile_step.hpp>
#include <tandem/plan/search_report.hpp>
#include <tandem/plan/simulator_placement.hpp>
#include <tandem/plan/simulator_report.hpp>
#include <tandem/plan/simulator_svg.hpp>
#include <tandem/plan/simulator_trace.hpp>
#include <tandem/plan/simulator_worker.hpp>
#include <tandem/plan/static_costs.hpp>
#include <tandem/plan/timed_all_reduces.hpp>

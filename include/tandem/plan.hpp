// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The planner's parts: time to converge, machines and collectives, epochs by batch, and dataflow
/// graphs with costs, cut, placed and simulated. Values only, no device is needed.

#include <tandem/core/letters_aside.hpp>

#include <tandem/core/config.hpp>

#include <tandem/plan/cost/big_lstm_graph.hpp>
#include <tandem/plan/cost/chain_partition.hpp>
#include <tandem/plan/cost/gnmt_graph.hpp>
#include <tandem/plan/cost/gpt_graph.hpp>
#include <tandem/plan/cost/graph_file.hpp>
#include <tandem/plan/cost/measured_costs.hpp>
#include <tandem/plan/cost/pipedream_graph.hpp>
#include <tandem/plan/cost/profile_json.hpp>
#include <tandem/plan/cost/static_costs.hpp>
#include <tandem/plan/epochs/convergence_time.hpp>
#include <tandem/plan/epochs/epochs.hpp>
#include <tandem/plan/epochs/failures.hpp>
#include <tandem/plan/epochs/tokens.hpp>
#include <tandem/plan/machine/calibrate.hpp>
#include <tandem/plan/machine/collectives.hpp>
#include <tandem/plan/machine/fit_kernels.hpp>
#include <tandem/plan/machine/json.hpp>
#include <tandem/plan/machine/machines.hpp>
#include <tandem/plan/machine/timed_all_reduces.hpp>
#include <tandem/plan/machine/timed_products.hpp>
#include <tandem/plan/page/mesh_page.hpp>
#include <tandem/plan/page/page.hpp>
#include <tandem/plan/place/critical_path.hpp>
#include <tandem/plan/place/ordered.hpp>
#include <tandem/plan/place/place.hpp>
#include <tandem/plan/place/report.hpp>
#include <tandem/plan/scale/mesh_report.hpp>
#include <tandem/plan/search/bounded_search.hpp>
#include <tandem/plan/search/compare.hpp>
#include <tandem/plan/search/profiled_step.hpp>
#include <tandem/plan/search/report.hpp>
#include <tandem/plan/search/simulate_worker.hpp>
#include <tandem/plan/simulate/placement.hpp>
#include <tandem/plan/simulate/report.hpp>
#include <tandem/plan/simulate/svg.hpp>
#include <tandem/plan/simulate/symmetric.hpp>
#include <tandem/plan/simulate/trace.hpp>
#include <tandem/strategy/read_strategy.hpp>
#include <tandem/strategy/value_text.hpp>

#include <tandem/core/letters_back.hpp>

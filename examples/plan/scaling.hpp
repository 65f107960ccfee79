// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// plan --global-batch: data × pipeline × tensor parallelism of a language model by its sizes.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tandem/plan/machine/machine.hpp>
#include <tandem/plan/page/mesh_page.hpp>
#include <tandem/plan/scale/mesh_report.hpp>

#include "arguments.hpp"
#include "inputs.hpp"
#include "pictures.hpp"

/// @throws std::runtime_error  the sizes are of no network, or the machine has fewer devices
inline std::string scaling_text(PlanArguments const& a) {
  tandem::GptSizes const gpt = gpt_sizes(a);
  tandem::MeshTask const task{
      .sizes = {.layers = gpt.layers,
                .width = gpt.width,
                .heads = gpt.heads,
                .context = gpt.context,
                .vocabulary = gpt.vocabulary,
                .key_heads = a.key_heads,
                .hidden = a.hidden,
                .gated = a.gated,
                .dropout = a.dropout,
                .tied = !a.untied,
                .attention = a.separate ? tandem::AttentionKernels::separate
                                        : tandem::AttentionKernels::fused},
      .machine = machine_of(a),
      .precision = a.precision_given ? a.precision : tandem::MathPrecision::bf16,
      .batch = a.global_batch,
      .states = a.optimizer == "sgd"        ? 0
                : a.optimizer == "momentum" ? 1
                                            : 2,
      .gradient_bytes = a.gradient_bytes};
  tandem::MeshLimits limits = a.limits;
  limits.memory = a.memory < 0 ? 0 : a.memory;
  std::string text;
  tandem::MeshResult result;
  for (int const devices : a.counts) {
    if (!task.machine.has(devices)) {
      throw std::runtime_error{"--devices: " + task.machine.name + " has fewer than " +
                               std::to_string(devices)};
    }
    tandem::MeshSearch found = tandem::search_meshes(task, devices, limits);
    std::vector<tandem::MeshReason> why;
    if (!found.plans.empty()) {
      why = tandem::mesh_reasons(task, devices, limits, found.plans.front().layout);
    }
    text += a.format == "json" ? tandem::mesh_json(task, devices, found, why)
                               : tandem::mesh_text(task, devices, found, why);
    result.of.push_back({devices, std::move(found), std::move(why)});
  }
  if (!a.html.empty()) {
    write_text(a.html,
               tandem::mesh_page(
                   task, result,
                   a.net + " on " + task.machine.name + ", batch " + std::to_string(task.batch),
                   limits.memory > 0 ? limits.memory : static_cast<double>(task.machine.memory)));
  }
  return text;
}

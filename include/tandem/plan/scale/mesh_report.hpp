// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What search_meshes() has found: a table for people, JSON for programs.

#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/report_text.hpp>
#include <tandem/plan/scale/mesh_reasons.hpp>
#include <tandem/plan/scale/mesh_search.hpp>
#include <tandem/plan/scale/mesh_type.hpp>

namespace tandem {

namespace detail {

inline int microbatches_of(MeshTask const& task, MeshLayout const& layout) {
  return task.batch / layout.data / layout.microbatch;
}

}  // namespace detail

/// A line for each plan: seconds, the share of the machine's peak that the model's own operations
/// are (6 a weight and token, and attention's), GB of a device, where time goes, and the type; then
/// why the first was chosen.
TANDEM_ONCE [[nodiscard]] std::string mesh_text(MeshTask const& task, int devices,
                                                MeshSearch const& found,
                                                std::vector<MeshReason> const& why = {});

TANDEM_ONCE [[nodiscard]] std::string mesh_json(MeshTask const& task, int devices,
                                                MeshSearch const& found,
                                                std::vector<MeshReason> const& why = {});

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Operations of a step that the model needs, nothing computed again, all pairs of tokens: two for
/// each weight of a product and token forward, four backward.
TANDEM_ONCE double model_operations(MeshTask const& task) {
  TransformerSizes const& sizes = task.sizes;
  double const tokens = static_cast<double>(task.batch) * static_cast<double>(sizes.context);
  double const pairs = 12.0 * static_cast<double>(sizes.layers * sizes.width * sizes.context);
  return tokens * (6 * (static_cast<double>(sizes.layers) * sizes.block_parameters() +
                        sizes.embedding_parameters()) +
                   pairs);
}

TANDEM_ONCE double model_share(MeshTask const& task, MeshPlan const& plan) {
  return model_operations(task) /
         (plan.step.seconds() * plan.layout.devices() * task.machine.peak.of(task.precision));
}

TANDEM_ONCE std::string mesh_line(MeshTask const& task, MeshPlan const& plan) {
  MeshStep const& step = plan.step;
  double const all = step.seconds();
  auto const share = [&](double part) {
    return right(std::to_string(static_cast<int>(100 * part / all + 0.5)), 5);
  };
  return right(digits(all, 4), 10) + right(digits(100 * model_share(task, plan), 3), 7) +
         right(digits(plan.memory.total() / 1e9, 3), 7) + share(step.computing) +
         share(step.products) + share(step.messages) + share(step.filling) +
         share(step.sums + step.waiting) + share(step.update) +
         right(std::to_string(plan.layout.microbatch), 5) + "  " +
         mesh_type(plan.layout, microbatches_of(task, plan.layout)) + "\n";
}

TANDEM_ONCE std::string mesh_json_line(MeshTask const& task, MeshPlan const& plan) {
  MeshLayout const& layout = plan.layout;
  MeshStep const& step = plan.step;
  auto const field = [](char const* name, double value) {
    return std::string{"\""} + name + "\": " + json_number(value, 6) + ", ";
  };
  constexpr char const* again[] = {"none", "selective", "full"};
  std::string const problem = plan_only(layout);
  return "    {" + field("seconds", step.seconds()) + field("share", model_share(task, plan)) +
         field("memory", plan.memory.total()) + field("computing", step.computing) +
         field("products", step.products) + field("messages", step.messages) +
         field("filling", step.filling) + field("waiting", step.waiting) +
         field("sums", step.sums) + field("update", step.update) + field("data", layout.data) +
         field("pipeline", layout.pipeline) + field("tensor", layout.tensor) +
         field("sequence", layout.sequence) + field("chunks", layout.chunks) +
         field("time_chunks", layout.time_chunks) + field("microbatch", layout.microbatch) +
         "\"recompute\": \"" + again[static_cast<int>(layout.recomputation)] +
         "\", \"sequence_rows\": " + (layout.sequence_rows ? "true" : "false") +
         ", \"shard\": " + json_text(sharding_name(layout.shard)) +
         ", \"strategy\": " + json_text(mesh_type(layout, microbatches_of(task, layout))) +
         ", \"plan_only\": " + (problem.empty() ? "null" : json_text(problem)) + "}";
}

/// Why the first was chosen, whether the library runs it, and the type of the fastest that it runs.
/// @pre there is a plan
TANDEM_ONCE std::string chosen_text(MeshTask const& task, MeshSearch const& found,
                                    std::vector<MeshReason> const& why) {
  MeshPlan const& best = found.plans.front();
  std::string text = reasons_text(why, best.step.seconds());
  std::string const only = plan_only(best.layout);
  if (!only.empty()) {
    text += "a plan only: the library has no " + only + " for it yet";
    text += found.runs
                ? "; the fastest that it runs, " +
                      digits(100 * (found.runs->step.seconds() / best.step.seconds() - 1), 2) +
                      " % slower:\n"
                : "\n";
  }
  if (found.runs) {
    MeshLayout const& layout = found.runs->layout;
    text += "using Strategy = " + mesh_type(layout, microbatches_of(task, layout)) + ";\n";
  }
  return text;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE std::string mesh_text(MeshTask const& task, int devices, MeshSearch const& found,
                                  std::vector<MeshReason> const& why) {
  std::string const gb = detail::digits(found.least_memory / 1e9, 3);
  std::string text = std::to_string(devices) + " devices of " + task.machine.name + ", " +
                     detail::digits(task.sizes.parameters() / 1e9, 4) + " G weights, batch " +
                     std::to_string(task.batch) + "; " + std::to_string(found.tried) +
                     " layouts tried\n";
  if (found.plans.empty()) {
    return text + (found.tried == 0
                       ? "no layout divides devices, batch, heads and blocks as they are\n"
                       : "nothing fits: a device needs " + gb + " GB at least\n");
  }
  text +=
      "    step s  peak %     GB   of the step %: computing, products, messages, filling, sums,\n"
      "                          update; samples of a microbatch; strategy\n";
  for (MeshPlan const& plan : found.plans) {
    text += detail::mesh_line(task, plan);
  }
  return text + detail::chosen_text(task, found, why);
}

TANDEM_ONCE std::string mesh_json(MeshTask const& task, int devices, MeshSearch const& found,
                                  std::vector<MeshReason> const& why) {
  std::string text = "{\n  \"devices\": " + std::to_string(devices) +
                     ",\n  \"machine\": " + detail::json_text(task.machine.name) +
                     ",\n  \"batch\": " + std::to_string(task.batch) +
                     ",\n  \"weights\": " + detail::json_number(task.sizes.parameters(), 15) +
                     ",\n  \"plans\": [\n";
  for (MeshPlan const& plan : found.plans) {
    text += (&plan == &found.plans.front() ? "" : ",\n") + detail::mesh_json_line(task, plan);
  }
  text += "\n  ],\n  \"why\": [";
  for (MeshReason const& reason : why) {
    text += (&reason == &why.front() ? "\n" : ",\n");
    text += "    {\"other\": " + detail::json_text(reason.other) + ", \"seconds\": " +
            (reason.seconds < 1e300 ? detail::json_number(reason.seconds, 6) : "null") + "}";
  }
  return text + (why.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

}  // namespace tandem

#endif

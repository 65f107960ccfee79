// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What search_meshes() has found: a table for people, JSON for programs, and layouts as types.

#include <string>

#include <tandem/io/report_text.hpp>
#include <tandem/plan/scale/mesh_search.hpp>

namespace tandem {

/// Why the library cannot run @p layout yet, a few words; empty where mesh_type() is to be pasted.
template <class = void>  // compiled where it is called, not by every include
[[nodiscard]] std::string plan_only(MeshLayout const& layout) {
  return layout.tensor > 1                                  ? "tensor parallelism on GPUs"
         : layout.sequence > 1                              ? "parallelism of sequences"
         : layout.recomputation == Recomputation::selective ? "scores alone that are computed again"
         : layout.recomputation == Recomputation::full && layout.pipeline == 1
             ? "recomputation outside of a pipeline"
         : layout.data > 4096 ? "more than 4096 replicas"
                              : "";
}

/// The strategy of @p microbatches a replica: "Hybrid<DataParallel<8, ShardedState>,
/// Pipeline<OneFOneB, 16, Auto<4>>>". What the library cannot run yet stands in words around it.
template <class = void>
[[nodiscard]] std::string mesh_type(MeshLayout const& layout, int microbatches) {
  std::string const sharded = layout.shard_state ? ", ShardedState" : "";
  std::string const again =
      layout.recomputation == Recomputation::full ? ", Checkpoint<Every<1>>" : "";
  std::string const count = std::to_string(microbatches);
  std::string text;
  if (layout.pipeline > 1) {
    std::string const schedule =
        layout.chunks > 1 ? "Interleaved<" + std::to_string(layout.chunks) + ">" : "OneFOneB";
    text = "Pipeline<" + schedule + ", " + count + ", Auto<" +
           std::to_string(layout.pipeline * layout.chunks) + ">" + again + ">";
    if (layout.data > 1) {
      text = "Hybrid<DataParallel<" + std::to_string(layout.data) + sharded + ">, " + text + ">";
    }
  } else {
    std::string const accumulated = microbatches > 1 ? "Microbatches<" + count + ">" : "";
    std::string options = layout.data > 1 ? sharded : "";
    options = accumulated.empty() ? options : ", " + accumulated + options;
    text = layout.data > 1 ? "DataParallel<" + std::to_string(layout.data) + options + ">"
                           : "SingleDevice<" + (options.empty() ? "" : options.substr(2)) + ">";
  }
  if (layout.tensor > 1) {
    text += " x tensor " + std::to_string(layout.tensor) +
            (layout.sequence_rows ? " with sequence rows" : "");
  }
  if (layout.sequence > 1) {
    text += " x sequence " + std::to_string(layout.sequence);
  }
  bool const alone = layout.recomputation == Recomputation::full && layout.pipeline == 1;
  return text + (layout.recomputation == Recomputation::selective ? ", scores again"
                 : alone                                          ? ", blocks again"
                                                                  : "");
}

namespace detail {

/// Operations of a step that the model needs, nothing computed again, all pairs of tokens: two for
/// each weight of a product and token forward, four backward.
template <class = void>
double model_operations(MeshTask const& task) {
  TransformerSizes const& sizes = task.sizes;
  double const tokens = static_cast<double>(task.batch) * static_cast<double>(sizes.context);
  double const pairs = 12.0 * static_cast<double>(sizes.layers * sizes.width * sizes.context);
  return tokens * (6 * (static_cast<double>(sizes.layers) * sizes.block_parameters() +
                        sizes.embedding_parameters()) +
                   pairs);
}

template <class = void>
double model_share(MeshTask const& task, MeshPlan const& plan) {
  return model_operations(task) /
         (plan.step.seconds() * plan.layout.devices() * task.machine.peak.of(task.precision));
}

inline int microbatches_of(MeshTask const& task, MeshLayout const& layout) {
  return task.batch / layout.data / layout.microbatch;
}

template <class = void>
std::string mesh_line(MeshTask const& task, MeshPlan const& plan) {
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

template <class = void>
std::string mesh_json_line(MeshTask const& task, MeshPlan const& plan) {
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
         field("microbatch", layout.microbatch) + "\"recompute\": \"" +
         again[static_cast<int>(layout.recomputation)] +
         "\", \"sequence_rows\": " + (layout.sequence_rows ? "true" : "false") +
         ", \"shard_state\": " + (layout.shard_state ? "true" : "false") +
         ", \"strategy\": " + json_text(mesh_type(layout, microbatches_of(task, layout))) +
         ", \"plan_only\": " + (problem.empty() ? "null" : json_text(problem)) + "}";
}

}  // namespace detail

/// A line for each plan: seconds, the share of the machine's peak that the model's own operations
/// are (6 a weight and token, and attention's), GB of a device, where time goes, and the type.
template <class = void>
[[nodiscard]] std::string mesh_text(MeshTask const& task, int devices, MeshSearch const& found) {
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
  MeshPlan const& best = found.plans.front();
  std::string const only = plan_only(best.layout);
  std::string const type = mesh_type(best.layout, detail::microbatches_of(task, best.layout));
  return text + (only.empty() ? "using Strategy = " + type + ";\n"
                              : "a plan only: the library has no " + only + " for it yet\n");
}

template <class = void>
[[nodiscard]] std::string mesh_json(MeshTask const& task, int devices, MeshSearch const& found) {
  std::string text = "{\n  \"devices\": " + std::to_string(devices) +
                     ",\n  \"machine\": " + detail::json_text(task.machine.name) +
                     ",\n  \"batch\": " + std::to_string(task.batch) +
                     ",\n  \"weights\": " + detail::json_number(task.sizes.parameters(), 15) +
                     ",\n  \"plans\": [\n";
  for (MeshPlan const& plan : found.plans) {
    text += (&plan == &found.plans.front() ? "" : ",\n") + detail::mesh_json_line(task, plan);
  }
  return text + "\n  ]\n}\n";
}

}  // namespace tandem

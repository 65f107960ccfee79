#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks a copy of the library on purpose, in one place at a time, and sees that the fuzzer finds it.

  mutations.py [--seconds 180] [--jobs 2] [--shrink-seconds 0] [--types-every 4] [NAME ...]

A mutation is one edit of one header; the text must stand there exactly once.
"""
import argparse
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"

# name: (header, what stands there, what is to stand there)
MUTATIONS = {
    "send_not_awaited": (  # what was sent is overwritten
        "engine/links/rank_links.hpp", "wait.rule.before == before &&",
        "wait.rule.before == before && before == ActionKind::backward &&"),
    "gradient_send_not_awaited": (
        "engine/links/rank_links.hpp", "wait.rule.before == before &&",
        "wait.rule.before == before && before != ActionKind::backward &&"),
    "receive_not_awaited": (
        "engine/links/rank_links.hpp", "                            label);\n    });\n    await(device);",
        "                            label);\n    });"),
    "bucket_not_awaited": (  # an update by gradients that are not yet summed
        "engine/links/bucket_sums.hpp",
        "    device.await_on(device.communication, mark(bucket));\n", ""),
    "bucket_reduced_early": (  # behind the first leaf
        "engine/links/gradient_reduction.hpp", "overlaps_ && leaf == leaves_ - 1", "overlaps_ && leaf == 0"),
    "leaf_ends_early": (  # behind its first microbatch
        "engine/step/microbatches.hpp", "chunk == 0 && (m + 1) % leaf_ == 0", "chunk == 0 && m % leaf_ == 0"),
    "chunks_go_back_forward": (  # gradients of chunks of time from the first rows to the last
        "schedule/table/chunked.hpp", "back ? index + chunks - 1 - 2 * (index % chunks) : index", "index"),
    "recomputed_over_gradients": (  # as in 0.1
        "engine/prepare/arenas.hpp", "return !plan_.between_gradients && deferred_ == 0;",
        "return plan_.recomputed_bytes == 0 && deferred_ == 0;"),
    "received_over_message": (  # as in 0.1: the next message comes where one is still being sent
        "engine/links/rank_links.hpp", "        await(device, action.kind, action.stage, training, own.chunk);\n", ""),
    "slot_shared": (  # one live microbatch less than there are
        "engine/prepare/arenas.hpp", "slot(table, own.first_microbatch, own.live)",
        "slot(table, own.first_microbatch, own.live > 1 ? own.live - 1 : 1)"),
    "deferred_slot_shared": (  # gradients that wait for their weight gradients, likewise
        "engine/prepare/arenas.hpp", "slot(table, task_.stages.front().first_microbatch, deferred_)", "0"),
    "overwritten_in_place": (  # though another node reads it later
        "engine/prepare/memory_plan.hpp", "(m > n || later || meanwhile)", "(later || meanwhile)"),
    "value_ends_early": (
        "engine/prepare/memory_plan.hpp", "place_transient(size, n, last[r])",
        "place_transient(size, n, last[r] > n ? last[r] - 1 : n)"),
    "loss_by_microbatches": (  # right where all microbatches are of one size
        "engine/rank/microbatch_passes.hpp", "slot.loss_scale(at)",
        "1.0 / (at.own.size * parts.plan.batching.all_microbatches())"),
    "smoothing_over_a_slice": (  # of the words, which several devices share
        "ops/host/vocabulary_slice.hpp", "own_, all_words_, logits", "own_, own_.count, logits"),
    "copy_sum_not_awaited": (
        "engine/rank/slice_exchange.hpp", "        host.await_slices();\n      } else {", "      } else {"),
    "sum_dropped": (  # each slice goes on with its part of a value
        "engine/rank/slice_exchange.hpp", "begin_slices(own.y, pass.elements(node.out), n,",
        "begin_slices(own.y, 0, n,"),
    "sum_twice": (
        "engine/rank/slice_exchange.hpp", "      host.begin_slices(own.y,",
        "      host.begin_slices(own.y, pass.elements(node.out), n, \"reduce\");\n"
        "      host.await_slices();\n      host.begin_slices(own.y,"),
    "sum_not_awaited": (  # its reader comes first
        "engine/rank/slice_exchange.hpp",
        "\"reduce\");\n      host.await_slices();", "\"reduce\");"),
    "copy_summed_before_its_reader": (  # which gives the gradient
        "engine/rank/node_passes.hpp",
        "          compute(at_once ? wanted : wanted & Wanted::input);\n"
        "          wanted = at_once ? Wanted::nothing : wanted & Wanted::weight;\n"
        "          exchange(host, all_rows(pass, step), table, step.begins).begin();\n",
        "          exchange(host, all_rows(pass, step), table, step.begins).begin();\n"
        "          host.await_slices();\n"
        "          compute(at_once ? wanted : wanted & Wanted::input);\n"
        "          wanted = at_once ? Wanted::nothing : wanted & Wanted::weight;\n"),
    "losses_of_own_words": (  # each slice makes them of its words
        "engine/rank/rank_core.hpp", "slices->bring_together(device, data, Label{\"vocabulary\"});",
        "static_cast<void>(data);"),
    "rows_not_gathered": (  # behind those of which each rank has some
        "engine/links/slice_sums.hpp",
        "      if constexpr (AllGathers<Communicator, T>) {", "      if constexpr (false) {"),
    "rows_not_summed": (  # a rank's rows of its own part alone
        "engine/links/slice_sums.hpp", "      group_.reduce_scatter(from, to, Sum{}, device.communication, label);",
        "      std::copy_n(from.data() + rows.first() * width, to.size(), to.data());"),
    "gradients_of_rows_apart": (  # of norms on a rank's rows
        "engine/rank/rank_core.hpp", "    if (partials) {\n      partials->add(", "    if (false) {\n      partials->add("),
    "mask_of_first_rows": (  # each rank drops as the first does
        "ops/dropout_columns.hpp", "return {p.shard.first_row, p.rows(shape), of_sample};",
        "return {0, p.rows(shape), of_sample};"),
    "dropout_of_shard": (  # samples counted from the replica's first, not from the batch's
        "engine/rank/step_slot.hpp", ".first_sample = own.first,",
        ".first_sample = own.first - static_cast<int>(microbatches.begin()),"),
    "statistics_by_microbatches": (
        "engine/rank/step_slot.hpp", "static_cast<double>(own.size) / samples_of(own)",
        "1.0 / parts.plan.batching.all_microbatches()"),
    "fork_dropped": (
        "engine/rank/node_passes.hpp", "forks, at(n).uses, table.gradient[n], elements,\n                          r",
        "forks, at(n).uses - 1, table.gradient[n], elements,\n                          r"),
    "copy_not_summed": (  # each slice goes on with its part of a gradient
        "engine/rank/slice_exchange.hpp", "begin_slices(table.gradient[n], pass.elements(node.out), n,",
        "begin_slices(table.gradient[n], 0, n,"),
    "mask_of_first_slice": (
        "kernels/host/dropout.hpp", "columns.whole + columns.at[run]", "columns.whole"),
    "mask_of_first_channels": (  # of an image
        "ops/onednn/activation.hpp", "columns_.runs > 0 ? columns_.at[0] : 0", "0"),
    "kernel_of_one_cell": (  # a slice of a kernel's inputs is found as if it were 1x1
        "engine/memory/rank_mirror.hpp", "to * cells, columns * cells", "to, columns"),
    "halo_gradient_dropped": (  # what neighbours have of a tile's gradient
        "ops/host/tile_exchange.hpp", "      if (!route.in.empty()) {\n        move<true>", "      if (false) {\n        move<true>"),
    "halo_one_short": (
        "ops/host/tile_exchange.hpp", "messages_[i].in, in, o.y, own, in);",
        "messages_[i].in, in, o.y, own, {in.row, in.column, {in.size.height - 1, in.size.width}});"),
    "halo_of_last_neighbour": (  # what all send comes to one place
        "ops/tile_routes.hpp", "scratch + route.in_at * numbers", "scratch + routes_.back().in_at * numbers"),
    "statistics_of_one_tile": ("engine/rank/prepared_op.hpp", "if (rule.tiles)", "if (false)"),
    "gradients_of_one_tile": ("engine/rank/rank_core.hpp", "if (slices && tables.has_tiles && leaf >= 0)", "if (false)"),
    "statistics_of_each_tile": (  # each adds what all have
        "engine/rank/rank_core.hpp", "p < graph.parameters && slice().number > 0", "p < 0"),
    "norm_of_each_slice": (  # what is whole on all of them counts for each
        "optim/parameter_group.hpp", "(is_slice || rank.number == 0)", "true"),
    "first_slice_of_rank": (  # a rank's slices all take themselves for its first
        "engine/rank/op_list.hpp", "(own.slices / slice.count) + own.slice", "(own.slices / slice.count)"),
    "recomputed_without_first": (  # a checkpointed run that begins one node late
        "engine/rank/node_passes.hpp", "      forward_nodes(host, pass, table, run);\n",
        "      LocalStage late = run;\n      late.first += run.last - run.first > 1 ? 1 : 0;\n"
        "      forward_nodes(host, pass, table, late);\n"),
    "empty_microbatch_adds": (  # to the gradients of the last step
        "engine/step/microbatches.hpp", "adds = adds || size > 0;", "adds = true;"),
    "twin_dropped": (  # the middle device of two models sums one of them
        "engine/links/gradient_reduction.hpp", "          join_twin(device, memory.gradients(), b);\n",
        ""),
    "tied_not_summed": (  # over the devices that hold a shared weight
        "engine/links/tied_sums.hpp", "group.all_reduce(data, data, Sum{}, device.communication, label);",
        "static_cast<void>(group), static_cast<void>(data);"),
    "tied_not_added": (  # where one device holds it twice
        "engine/links/tied_sums.hpp",
        "        Verbs<Backend>::add(device, gradients.lend(device, memory, tie.held[i].begin, 1), sum,\n"
        "                            count);\n", ""),
    "parameters_of_last_step": (  # what was gathered before the update
        "strategy/memory/slot_turns.hpp", "in_slot_[0] = in_slot_[1] = none;", "in_slot_[0] = none;"),
    "microbatch_not_added": (  # to the part of the gradients that a rank keeps
        "engine/links/scattered_buckets.hpp", "slot.adds = microbatch > 0;", "slot.adds = false;"),
    "divisor_of_shard": (  # a mean of the replicas' means over their own targets
        "engine/rank/step_slot.hpp", "counts[1] = weight(0, batch.size)",
        "counts[1] = weight(microbatches.begin(), microbatches.end() - microbatches.begin()) *\n"
        "              batch.size / std::max(1.0, static_cast<double>(microbatches.end() - microbatches.begin()))"),
    "lengths_ignored": (  # what stands behind the end of a sequence is a key
        "kernels/functors/attention.hpp", "return lengths == nullptr ? time : lengths[sample];", "return time;"),
    "dropout_of_time": (  # rows of padding change the masks of attention
        "ops/host/attention.hpp", "static_cast<std::uint32_t>(p.state->step), layer_,",
        "static_cast<std::uint32_t>(p.state->step + p.time), layer_,"),
    "average_on_first_replica": (  # the others keep what they had
        "engine/rank/updates.hpp",
        "    average_.update(parts.device, parts.memory, slot.state, update_.stopped());\n",
        "    if (slot.microbatches.begin() == 0)\n"
        "      average_.update(parts.device, parts.memory, slot.state, update_.stopped());\n"),
    "second_input_of_shard": (  # a microbatch's samples counted from the replica's first
        "engine/step/feed.hpp", "place(m) * second_.elements", "(m.first - first_) * second_.elements"),
    "second_lengths_of_shard": (
        "engine/step/feed.hpp", "batch_.second.lengths + m.first : nullptr",
        "batch_.second.lengths + (m.first - first_) : nullptr"),
    "input_of_another_stage": (  # of two stages of a device the later one sets both inputs
        "engine/memory/rank_memory.hpp", "    for (std::ptrdiff_t const edge : inputs_[static_cast<std::size_t>(2 * stage + input)]) {",
        "    for (std::size_t i = static_cast<std::size_t>(input); i < inputs_.size(); i += 2)\n"
        "    for (std::ptrdiff_t const edge : inputs_[i]) {"),
    "padding_pooled": (
        "kernels/functors/time_pool.hpp", "return lengths != nullptr ? lengths[sample] : time;", "return time;"),
    "carried_over_first": (  # keys of the rows before are lost
        "ops/host/attention.hpp", "p.sequence.position + static_cast<int>(row - first * p.time)",
        "static_cast<int>(row - first * p.time)"),
    "position_not_loaded": (  # the steps of a checkpoint count anew
        "train/trainer_core.hpp", "  options_.seed = static_cast<std::uint64_t>(position_.seed);\n",
        "  position_ = {.seed = position_.seed};\n"),
    "summed_as_they_arrive": (  # whichever process comes first
        "comm/mpi/group.hpp", "wire_->receive(messages_, process(p), tag_, place, bytes_of<T>(of));",
        "wire_->receive(messages_, MPI_ANY_SOURCE, tag_, place, bytes_of<T>(of));"),
    "pieces_in_other_order": (  # of a process that has several
        "comm/mpi/group.hpp", "tree.set(layout_.pieces(p)[i],", "tree.set(layout_.pieces(p)[pieces - 1 - i],"),
    "joined_by_halves": (  # as no single process does
        "comm/mpi/layout.hpp", "return static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)) / 2);",
        "return count / 2;"),
    "states_stay_elsewhere": (  # of optimizers, in checkpoints
        "train/checkpoint/elsewhere.hpp", "        exchange(workers, state, here);\n",
        "        static_cast<void>(state);\n"),
    "part_of_first_rank": (  # what a process reads of an evaluation
        "train/ranks/worker_group.hpp", "mesh_.coordinate(first_rank_ + this->size() - 1, Axis::data)",
        "mesh_.coordinate(first_rank_, Axis::data)"),
    "scores_of_own_samples": (  # of a text that is written
        "train/over_processes.hpp", "      add_over_processes(workers, numbers);\n", ""),
    "update_not_taken_back": (  # that was made before the norm was known
        "engine/rank/updates.hpp", "      undo_.give_back(parts.device, parts.memory);\n", ""),
    "states_not_taken_back": (
        "engine/rank/updates.hpp", "copy(i), place(memory, i), trained_);", "copy(0), place(memory, 0), trained_);"),
    "messages_of_dropped_step": (  # stay on their way
        "engine/rank/ahead_run.hpp", "        pass_by(rank, next);\n", ""),
}

# Those that only networks of tokens show are looked for in such networks alone.
OF_TOKENS = ("tied_not_summed", "tied_not_added", "divisor_of_shard", "lengths_ignored", "dropout_of_time",
             "carried_over_first", "second_input_of_shard", "second_lengths_of_shard", "input_of_another_stage",
             "padding_pooled", "scores_of_own_samples", "smoothing_over_a_slice", "losses_of_own_words", "gradients_of_rows_apart",
             "mask_of_first_rows", "rows_not_gathered", "rows_not_summed", "chunks_go_back_forward")
# Those of what lies between processes are looked for by programs that run as several.
OF_PROCESSES = ("summed_as_they_arrive", "pieces_in_other_order", "joined_by_halves", "states_stay_elsewhere",
                "part_of_first_rank", "scores_of_own_samples")
# What hardly any draw shows, kept cases do.
OF_CASES = ("recomputed_over_gradients", "input_of_another_stage")
# What oneDNN's ops do is looked for with them alone.
OF_BACKEND = {"onednn": ("mask_of_first_channels",)}
# Those of one way to share layers are looked for where strategies have it alone.
OF_OPTION = {
    "chunks": ("chunks_go_back_forward",),
    "tied": ("tied_not_summed", "tied_not_added"),
    "ahead": ("update_not_taken_back", "states_not_taken_back", "messages_of_dropped_step"),
    "split_outputs": ("losses_of_own_words",),
    "split_outputs,smoothing": ("smoothing_over_a_slice",),
    "in_rows": ("gradients_of_rows_apart", "rows_not_gathered", "rows_not_summed"),
    "in_rows,drops": ("mask_of_first_rows",),
    "pieces,masks": ("first_slice_of_rank",),
    "slices,masks": ("mask_of_first_slice",),
    "slices": ("copy_sum_not_awaited", "copy_not_summed", "kernel_of_one_cell", "norm_of_each_slice", "sum_dropped",
               "sum_twice", "sum_not_awaited", "copy_summed_before_its_reader"),
    "sharded_parameters": ("parameters_of_last_step",),
    "sharded_gradients": ("microbatch_not_added",),
    "norms": ("statistics_by_microbatches",),
    "slices,drops": ("mask_of_first_channels",),
    "tiles": ("halo_gradient_dropped", "halo_one_short", "halo_of_last_neighbour", "statistics_of_one_tile",
              "gradients_of_one_tile", "statistics_of_each_tile"),
}


def stale():
    """Mutations whose text the library no longer has once."""
    return [name for name, (header, old, _) in MUTATIONS.items()
            if (INCLUDE / "tandem" / header).read_text().count(old) != 1]


def mutated_include(name, scratch):
    header, old, new = MUTATIONS[name]
    include = scratch / "include"
    shutil.copytree(INCLUDE, include)
    path = include / "tandem" / header
    text = path.read_text()
    if text.count(old) != 1:
        sys.exit(f"mutation {name}: '{old}' stands {text.count(old)} times in {header}; write the mutation anew")
    path.write_text(text.replace(old, new))
    return include


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--shrink-seconds", default="0")
    parser.add_argument("--types-every", default="4", help="as of run.py")
    options = parser.parse_args()
    missed = []
    shared = tempfile.TemporaryDirectory(prefix="tandem-kernels-")  # mutations leave kernels as they are
    print("| mutation | seconds | of a CPU | pairs | found as |\n| --- | --- | --- | --- | --- |", flush=True)
    for name in options.names or MUTATIONS:
        with tempfile.TemporaryDirectory(prefix=f"tandem-{name}-") as folder:
            scratch = pathlib.Path(folder)
            command = [sys.executable, HERE / "run.py", "--seconds", str(options.seconds), "--jobs",
                       options.jobs, "--include", mutated_include(name, scratch), "--scratch", scratch / "build",
                       "--shrink-seconds", options.shrink_seconds, "--seed", "mutations", "--pairs", "8",
                       "--types-every", options.types_every, "--kernels", shared.name]
            command += ["--tokens", "1"] if name in OF_TOKENS else []
            command += [word for option, names in OF_OPTION.items() if name in names
                        for word in ("--having", option, "--sanitize-every", "0")]
            command += ["--programs", "0"] if name in OF_CASES else ["--no-cases"]
            command += ["--processes", "--backends", "double"] if name in OF_PROCESSES else []
            command += [word for backend, names in OF_BACKEND.items() if name in names
                        for word in ("--backends", backend)]
            begin, before = time.monotonic(), cpu_seconds()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            seconds, of_cpu = time.monotonic() - begin, cpu_seconds() - before
        pairs = re.search(r"^(\d+) pairs", done.stdout, re.M)
        why = re.search(r"^(?:seed .*?, pair \d+|FAILED 0): (.*)$", done.stdout, re.M)
        if options.shrink_seconds != "0":
            print(done.stdout)
        if done.returncode == 0 or why is None:  # the latter: the fuzzer itself came to nothing
            missed.append(name)
        print(f"| `{name}` | {seconds:.0f} | {of_cpu:.0f} | {pairs[1] if pairs else '?'} | "
              f"{'missed' if done.returncode == 0 else why[1][:90] if why else done.stderr[-300:]} |", flush=True)
    if missed:
        sys.exit(f"not found: {', '.join(missed)}")


if __name__ == "__main__":
    main()

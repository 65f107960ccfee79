# SPDX-License-Identifier: Apache-2.0
"""The reference: a page of Markdown for each folder of headers, made of their comments."""

import html
import pathlib
import re

import headers

# Page, title, what stands above; what of include/tandem it shows, and what of that it leaves out.
PAGES = [
    ("networks", "Networks", "How layers become a network.",
     ["graph/network.hpp", "graph/layer.hpp", "core/shape.hpp"], []),
    ("layers", "Layers, losses, metrics", "What a network is made of, and what its output is measured by.",
     ["layers/linear.hpp", "layers/conv2d.hpp", "layers/pool.hpp", "layers/batch_norm2d.hpp", "layers/activation.hpp",
      "layers/smooth_activation.hpp", "layers/loss.hpp", "layers/"],
     ["rows.hpp"]),
    ("models", "Models", "Networks that are there.", ["models/"], []),
    ("data", "Data", "Data sets, and what changes their samples.", ["data/dataset.hpp", "data/tensor_dataset.hpp", "data/mnist.hpp", "data/cifar10.hpp", "data/transform.hpp",
      "data/augment.hpp", "data/*", "data/image/image_folder.hpp", "data/image/"],
     ["batch_reader.hpp", "batch_progress.hpp", "read_watch.hpp", "order.hpp", "csv_cells.hpp", "npy_header.hpp",
      "colour.hpp", "decode.hpp", "jpeg.hpp", "pixels.hpp", "png.hpp", "random_words.hpp",
      "resample.hpp"]),
    ("text", "Text", "Files to strings, strings to tokens, tokens to windows.", ["data/text/"], ["markup.hpp"]),
    ("strategies", "Strategies", "How a batch and a network are spread over devices.",
     ["strategy/types/", "strategy/batch/options.hpp", "strategy/cut/", "strategy/fits.hpp", "schedule/orders/"],
     ["_checks.hpp", "ties.hpp", "device_graph.hpp", "local_stage.hpp", "balance.hpp", "partition.hpp", "all.hpp",
      "model_shape.hpp", "_table.hpp", "model_options.hpp", "slots.hpp"]),
    ("training", "Training", "The trainer, its options, what watches it, and what it saves.",
     ["train/trainer.hpp", "train/options/options.hpp", "train/*", "train/checkpoint/",
      "train/predict/predictor.hpp", "train/describe/", "train/onnx/"],
     ["bad_sample.hpp", "epoch_loop.hpp", "graph.hpp", "layers.hpp", "attention.hpp",
      "epoch_cursor.hpp", "one_call.hpp", "progress_words.hpp", "step_batches.hpp", "replicas.hpp",
      "two_models.hpp", "load.hpp", "position.hpp", "tensors.hpp", "check_finite.hpp", "work_kind.hpp"]),
    ("optimizers", "Optimizers and schedules", "What a step does with a gradient.", ["optim/"], ["clip_sets.hpp"]),
    ("backends", "Backends", "What computes, in which precision, and how ranks talk.",
     ["runtime/host/host.hpp", "runtime/cuda/cuda.hpp", "core/precision.hpp", "comm/world.hpp",
      "comm/transport_options.hpp", "comm/threads/transport.hpp", "comm/nccl/transport.hpp",
      "comm/cuda_virtual/transport.hpp", "comm/cuda_virtual/transport.cuh"], []),
    ("errors", "Errors", "What is thrown.", ["core/error.hpp", "core/contract.hpp", "core/stall.hpp"], []),
    ("planner", "Planner", "How long training would take, and which strategy is first.",
     ["plan/search/search.hpp", "plan/search/", "plan/machine/", "plan/epochs/", "plan/place/", "plan/simulate/",
      "plan/cost/"], []),
    ("schedules", "Tables of actions", "What each device does in which order, checked, timed and drawn.",
     ["schedule/*", "schedule/table/", "schedule/rules/", "schedule/verify/", "schedule/time/", "schedule/csv/",
      "schedule/picture/"], []),
    ("measure", "Measurements", "Of this machine, for the planner.", ["measure/"], []),
    ("ops", "Ops", "What a layer, a loss or a metric is on a backend: for those who add one.",
     ["ops/*", "ops/host/user_layer.hpp", "runtime/concepts.hpp"], []),
    ("communicators", "Communicators", "What ranks send each other: for those who add a transport.",
     ["comm/*", "comm/threads/", "comm/nccl/"], []),
    ("files", "Files", "Read whole, written at once or not at all.", ["io/"], []),
]

PROSE = re.compile(r"`([^`]+)`|@p (\w+)|\b((?:[a-z]+/)+[\w.]+\.(?:hpp|cuh|md))\b|"
                   r"(\b[A-Z]\w*(?:<[^<>\s]*(?:, [^<>]*)?>)?(?:::\w+)*(?:\(\))?)|(\b[a-z_]\w*\((?:[a-z_]{3,}[\w, ]*)?\)(?:\.\w+(?:\(\))?)*)")


def headers_of(folder, shown, hidden):
    """Headers below `folder`, in the order of `shown`: a file, `room/*` (not below), `room/` (below, too)."""
    found = []
    for pattern in shown:
        if pattern.endswith("/*"):
            paths = sorted(folder.glob(pattern + ".*"))
        elif pattern.endswith("/"):
            paths = sorted(p for kind in ("hpp", "cuh") for p in folder.glob(f"{pattern}**/*.{kind}"))
        else:
            paths = [folder / pattern] if (folder / pattern).is_file() else []
        found += [p for p in paths if p not in found and not any(p.name == h or p.name.endswith(h) and h[0] == "_" for h in hidden)]
    return found


def unique(anchor, taken):
    taken[anchor] = taken.get(anchor, 0) + 1
    return anchor if taken[anchor] == 1 else f"{anchor}-{taken[anchor]}"


class Reference:
    """Pages by name, and on which of them what is."""

    def __init__(self, folder, source_link):
        self.folder = folder
        self.source_link = source_link  # of a path below the root, and a line
        self.place = {}                 # name -> (page, anchor)
        self.read = {}
        for name, _, _, shown, hidden in PAGES:
            self.read[name] = [(path, headers.read(path.read_text(encoding="utf-8")))
                               for path in headers_of(folder, shown, hidden)]
            self.read[name] = [(p, h) for p, h in self.read[name] if h.entities or h.aliases]
            for _, header in self.read[name]:
                for entity in header.entities + header.aliases:
                    if entity.kind in ("type", "concept", "alias"):
                        self.place.setdefault(entity.name, (name, entity.name.lower()))

    def prose(self, text, page, own=""):
        """Text of a comment as HTML: names as code, those of this reference as links."""
        def shown(match):
            quoted, argument, path, name, function = match.groups()
            code = html.escape(quoted or argument or path or name or function)
            if path:
                return f"<code>{code}</code>"
            if name:
                bare = re.match(r"\w+", name)[0]
                technical = re.search(r"[a-z0-9][A-Z]|[<:(]|\d", name) or bare in ("Adam", "Sgd", "Cuda", "Host")
                if bare in self.place and bare != own and technical:
                    where, anchor = self.place[bare]
                    return f'<a href="{"" if where == page else where + ".html"}#{anchor}"><code>{code}</code></a>'
                return f"<code>{code}</code>" if re.search(r"[a-z][A-Z]|[<:(]", name) else code
            return f"<code>{code}</code>"

        at, out = 0, []
        for match in PROSE.finditer(text):
            out += [html.escape(text[at:match.start()]), shown(match)]
            at = match.end()
        return "".join(out + [html.escape(text[at:])])

    def comment(self, lines, page, own=""):
        parts = headers.understood(lines)
        out = []
        for part in parts.text:
            if isinstance(part, list):
                indent = min(len(line) - len(line.lstrip()) for line in part)
                out += ["```cpp", *(line[indent:] for line in part), "```", ""]
            else:
                out += [f"<p>{self.prose(part, page, own)}</p>", ""]
        if parts.items:
            out.append('<dl class="facts">')
            for label, name, words in parts.items:
                subject = f" <code>{html.escape(name)}</code>" if name else ""
                out.append(f"<dt>{label}{subject}</dt><dd>{self.prose(words, page, own)}</dd>")
            out += ["</dl>", ""]
        return out

    def entity(self, entity, path, page, anchor, taken):
        code = entity.signature
        if entity.kind == "type":
            code += " {\n" + "\n".join("  " + line for line in entity.fields) + "\n};" if entity.fields else ";"
        title = "operator" + html.escape(entity.name[8:]) if entity.name.startswith("operator") else entity.name
        source = self.source_link(path, entity.line)
        out = [f"### `{title}` {{ #{anchor} }}", "", "```cpp", *code.splitlines(), "```", ""]
        out += self.comment(entity.doc, page, entity.name)
        out += [f'<p class="source"><a href="{source}">{path.relative_to(self.folder)}:{entity.line}</a></p>', ""]
        for member in entity.members:
            out += self.member(member, page, f"{anchor}-{re.sub(r'[^a-z0-9_]+', '', member.name.lower()) or 'operator'}", taken)
        return out

    def member(self, member, page, anchor, taken):
        return [f'<div class="member" id="{unique(anchor, taken)}" markdown="1">', "", "```cpp", *member.signature.splitlines(), "```", "",
                *self.comment(member.doc, page), "</div>", ""]

    def page(self, name):
        title, about = next((t, a) for n, t, a, _, _ in PAGES if n == name)
        out = [f"# {title}", "", about, ""]
        taken = {}
        for path, header in self.read[name]:
            at = str(path.relative_to(self.folder))
            out += [f"## {at} {{ #{re.sub(r'[^a-z0-9]+', '-', at.lower())} }}", ""]
            out += self.comment(header.about, name)
            for entity in header.entities:
                anchor = entity.name.lower()
                if anchor.startswith("operator"):
                    anchor = "operator"
                out += self.entity(entity, path, name, unique(anchor, taken), taken)
            if header.aliases:
                out += ["<p>Also here:</p>", ""]
                for alias in header.aliases:
                    out += [f'<div class="member" id="{alias.name.lower()}" markdown="1">', "", "```cpp",
                            *alias.signature.splitlines(), "```", "", "</div>", ""]
        return "\n".join(out)

    def index(self):
        out = ["# Reference", "",
               "What the headers declare, in namespace `tandem`, with their comments: made from `include/tandem/`. "
               "Shape letters: B batch, T time, C channels, H heads, V vocabulary, N ranks.", "",
               "| | |", "| --- | --- |"]
        for name, title, about, _, _ in PAGES:
            out.append(f"| [{title}]({name}.md) | {about} |")
        return "\n".join(out + [""])

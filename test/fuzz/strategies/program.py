# SPDX-License-Identifier: Apache-2.0
"""A program: one network, some strategies, and the pairs that compare them; random ones, and as C++.

{"network", "backend", "processes", "values", "strategies": [...], "pairs": [...]}; a pair names its strategy by index and has
"rows", "microbatches" (of a replica), "settings" and what follows from them. With "values" no trainer of a strategy's type is
compiled but one of AnyStrategy, which is told the strategies as values. A pair of a "twin" compares the two forms.
"""
import collections
import random

import classifiers
import networks
import sequences
import strategies

CRITERION = "graph<Net>.output().path.part[0]"  # a Repeat is one part of a path
FORMS = ("data", "model", "pipeline", "pipeline", "placed", "cross", "model", "pipeline", "late", "data", "tensor")
STRATEGIES_OF_VALUES = 15  # each costs little to compile
BACKENDS = {"double": "BasicHost<Portable, Fp64>", "float": "BasicHost<Portable>", "onednn": "BasicHost<OneDnn>",
            "bf16": "BasicHost<OneDnn, Bf16>", "emulated": "BasicCuda<Portable, Fp64>"}
ADAGRAD = "own_optimizer<Backend>(Adagrad{.learning_rate = 0.02F, .lr_decay = 0.1F, .epsilon = 1e-1F})"
OPTIMIZERS = ("Sgd{.learning_rate = 0.05F}", "Sgd{.learning_rate = 0.03F, .momentum = 0.9F, .weight_decay = 1e-3F}",
              "Sgd{.learning_rate = 0.02F, .momentum = 0.8F, .nesterov = true}",
              "Adam{.learning_rate = 0.01F, .epsilon = 1e-2F}", "AdamW{.learning_rate = 0.01F, .epsilon = 1e-2F}",
              "own_optimizer<Backend>(RMSprop{.epsilon = 1e-2F, .momentum = 0.5F, .centered = true})",
              ADAGRAD,
              "own_optimizer<Backend>(Lamb{.learning_rate = 0.01F, .epsilon = 1e-2F})")
LAMB = OPTIMIZERS[-1]
# A step by a sign is as long as any other, so that rounding is not bounded by it: of pairs that agree in bits.
LION = "own_optimizer<Backend>(Lion{.learning_rate = 0.01F, .weight_decay = 0.1F})"


# (end of names, most axes or 0, the group); those behind the second scale or bound gradients
GROUPS = ((".bias", 0, '{"*.bias", 0.5F, 0.0F}'),
          ("", 1, '{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}'),
          (".weight", 0, '{.pattern = "*.weight", .clip_norm = 0.2}'),
          (".bias", 0, '{.pattern = "*.bias", .clip_norm = 0.1, .gradient_scale = 2.0F}'),
          ("", 1, '{.pattern = "*", .learning_rate_scale = 0.5F, .below_axes = 2, .clip_norm = 0.3}'),
          (".weight", 0, '{.pattern = "*.weight", .gradient_scale = 0.5F}'),
          (".weight", 0, '{.pattern = "*.weight", .clip_value = 0.01}'),
          (".bias", 0, '{.pattern = "*.bias", .frozen = true}'))


def fitting_groups(body, plain=False):
    """Those that match a trained parameter, as they must."""
    names = networks.trained_names(body)
    return [text for end, most, text in (GROUPS[:2] if plain else GROUPS)
            if any(name.endswith(end) and (most == 0 or axes <= most) for name, axes in names)]


def random_settings(r, network, all_microbatches, one_pixel, plain_sgd=False, late=False):
    """How both sides of a pair train; of sequences, the rows of each step."""
    longest = network["input"].time if networks.is_of_tokens(network) else 0
    groups = fitting_groups(network["body"], plain_sgd or late)
    average = (r.choice((0.5, 0.9)), r.choice(("*", "*", "*.weight"))) if r.random() < 0.3 else None
    least = all_microbatches * (2 if one_pixel else 1)
    sizes = [least + r.choice((0, 1, 2, 3, 5, 7)) for _ in range(r.choice((2, 3, 3)))]
    times = [r.choice((longest, longest, r.randint(1, longest))) for _ in sizes] if longest else []
    return {"sizes": sizes, "times": times, "optimizer": OPTIMIZERS[0] if plain_sgd else r.choice(OPTIMIZERS),
            "clip": r.choice((0.0, 0.0, 0.5)), "clip_value": 0.0 if late else r.choice((0.0, 0.0, 0.02)),
            "groups": r.sample(groups, min(len(groups), r.choice((0, 0, 0, 1, 1, 2)))),
            "average": None if plain_sgd or late else average, "seed": r.randrange(1, 10 ** 6),
            "threads": r.choice((1, 1, 1, 2)), "evaluated": r.choice((1, 3, 7, max(sizes) + 1))}


def random_pair(r, program, index, number, settings_of):
    """The number-th pair of a strategy: the first has its own table."""
    s = program["strategies"][index]
    network = program["network"]
    tops = len(network["body"]["parts"])
    one_pixel = networks.has_batch_norm_of_one_pixel(network["body"], network["input"])
    m, rows = s["microbatches"], ""
    if number > 0 and strategies.takes_rows(s):
        choices = [k for k in (1, 2, 3, 4, 5, 6, 8) if strategies.is_valid({**s, "schedule": None} if s.get(
            "schedule") == "Interleaved" else s, tops, k)] if strategies.CHUNKS.get(s.get("schedule"), 1) == 1 else [
            k for k in (1, 2, 3, 4, 5, 6, 8) if leaves_fit(s, k)]
        if not choices:
            return None
        m = r.choice(choices)
        if s["form"] == "data":
            rows = strategies.sequential_row(m)
        else:
            rows = strategies.random_rows(r, s, m, s.get("schedule") in strategies.SPLITTING)
    total = m * strategies.replicas_of(s)
    if total > 16:
        return None
    two_models = s.get("rule", "").startswith("AverageWeights")
    key = (total, r.randrange(2), two_models, s["form"] == "late")
    if key not in settings_of:
        made = random_settings(r, network, total, one_pixel, two_models, s["form"] == "late")
        if two_models:  # halves of one size, and no clipping
            made.update(sizes=[size + (-size) % (2 * total) for size in made["sizes"]], clip=0.0, clip_value=0.0)
        if s["form"] == "late":
            made.update(clip=0.0, sizes=(made["sizes"] * 3)[:7], times=(made["times"] * 3)[:7])
        if sequences.is_stateful(network):
            made.update(sizes=made["sizes"][:1] * len(made["sizes"]), evaluated=made["sizes"][0] * r.choice((1, 2, 3)))
        made["number"] = len(settings_of)
        settings_of[key] = made
    settings = settings_of[key]
    if s.get("schedule") == "WeightPrediction" and settings["optimizer"] not in OPTIMIZERS[1:3]:  # momentum of Sgd
        settings = {**settings, "optimizer": OPTIMIZERS[1], "number": 1000 + settings["number"]}
    if s["form"] == "tensor" and settings["optimizer"] == LAMB:  # norms of whole parameters
        settings = {**settings, "optimizer": OPTIMIZERS[4], "number": 3000 + settings["number"]}
    bits = s["leaves"] is not None or s["form"] == "late"
    if bits and s.get("schedule") != "WeightPrediction" and not two_models and r.random() < 0.15:
        settings = {**settings, "optimizer": LION, "number": 2000 + settings["number"]}
    return {"strategy": index, "rows": rows, "microbatches": m, "settings": settings, "bits": bits,
            "padded": not bits and r.random() < 0.5, "saved": r.choice((0, 1, 1)) if s["form"] != "late" else 0,
            "tardy": r.choice((0, 1)) * r.randrange(1, 10 ** 6)}


def leaves_fit(s, k):
    leaves = strategies.leaves_in(s, k)
    if leaves is None:
        return True
    own = leaves // strategies.replicas_of(s)
    return strategies.power_of_two(leaves) and strategies.power_of_two(own) and k % own == 0


def losses_of(network):
    """Spellings of a loss that a network's labels may have; class 0 is the ignored one."""
    weights = ", ".join(("0.25", "2.0", "1.0", "0.0", "3.5", "1.0")[c % 6] for c in range(network["classes"]))
    struct = f"struct Weights {{ static constexpr double class_weights[] = {{{weights}}}; }};"
    return {"ignored": ("", "SoftmaxCrossEntropy<IgnoreIndex<0>>"),
            "weighted": (struct, "SoftmaxCrossEntropy<Weights>"),
            "all": (struct, "SoftmaxCrossEntropy<Percent<10>, Weights, IgnoreIndex<0>>"),
            "soft": ("", "SoftCrossEntropy<Percent<20>>"),
            "soft_weighted": (struct, "SoftCrossEntropy<Weights>")}


def random_loss(seed, network):
    """Of a draw of its own, so that other choices stay what they were; "" is the default's."""
    r = random.Random(f"{seed} loss")
    has_labels = not networks.is_of_tokens(network) or classifiers.is_one(network)
    soft = [] if networks.is_of_tokens(network) else ["soft", "soft_weighted"]  # of images and vectors
    return r.choice(["ignored", "weighted", "all"] + soft) if has_labels and r.random() < 0.3 else ""


def takes_values(backend, processes=False):
    """Whether strategies can be values, as they can on Host in one process."""
    return backend != "emulated" and not processes


def random_program(seed, backend="double", pairs_each=10, kinds=5, largest=20, tokens=0.4, processes=False, values=False):
    """Deterministic in its arguments.

    @param tokens     probability of a network of tokens
    @param processes  one that runs as several processes, too
    @param values     its strategies are values, where they can be
    """
    r = random.Random(f"{seed} {backend}")
    values = values and takes_values(backend, processes)
    kinds = STRATEGIES_OF_VALUES if values else kinds
    if processes:  # each pair runs as one, two, three and four processes
        kinds, pairs_each = 3, min(pairs_each, 4)
    while True:
        program = try_random_program(r, seed, backend, pairs_each, kinds, largest, tokens, processes)
        program["values"] = values
        if processes:
            program = without_one_device(seed, program)
        if program["pairs"]:
            drawn = with_slices(seed, with_sharded_state(seed, with_row_gradients(seed, program)))
            words = with_shared_words(seed, with_sharded_gradients(seed, drawn))
            return with_twins(with_steps_ahead(seed, with_chunks(seed, with_dealt_rows(seed, words))))


def has(network, strategy, option):
    """Whether a strategy has an option, or a network what makes it show."""
    if option == "masks":  # within what devices, or one, have in slices
        return networks.masks_pairs(network["body"], strategy.get("pieces") or strategy.get("slices") or 1)
    if option == "drops":
        return any(part["kind"] == "dropout" and part["percent"] for part in sequences.parts_in(network["body"]))
    if option == "tied":
        return bool(network.get("tied"))
    if option == "norms":
        return any(part["kind"] == "bn" for part in sequences.parts_in(network["body"]))
    if option == "smoothing":
        return bool(network["body"]["parts"][-1].get("smoothing"))
    if option == "split_outputs":
        return any(wish.startswith("SplitOutputs") for wish in strategy.get("wishes", ()))
    return bool(strategy.get(option))


def having(program, options):
    """With those strategies alone that have all of these, and their pairs."""
    kept = [i for i, s in enumerate(program["strategies"]) if all(has(program["network"], s, one) for one in options)]
    pairs = [{**pair, "strategy": kept.index(pair["strategy"])} for pair in program["pairs"] if pair["strategy"] in kept]
    return {**program, "strategies": [program["strategies"][i] for i in kept], "pairs": pairs}


def without_one_device(seed, program):
    """Of a draw of its own: what one device cannot do, so that only processes are compared."""
    r = random.Random(f"{seed} alone")
    norms = [part for part in sequences.parts_in(program["network"]["body"]) if part["kind"] == "bn"]
    kept = [i for i, s in enumerate(program["strategies"]) if s["leaves"] is None and strategies.copies_of(s) == 1]
    replicates = any(strategies.replicas_of(program["strategies"][i]) > 1 for i in kept)
    synchronizes = bool(norms) and replicates and r.random() < 0.7
    for part in norms if synchronizes else ():
        part["sync"] = True
    kept = kept if synchronizes else list(range(len(program["strategies"])))
    pairs = []
    for pair in program["pairs"]:
        if pair["strategy"] in kept:
            alone = synchronizes or program["strategies"][pair["strategy"]].get("rule") == "AverageWeights<2>"
            pairs.append({**pair, "strategy": kept.index(pair["strategy"]), **({"alone": True, "bits": True} if alone else {})})
    return {**program, "strategies": [program["strategies"][i] for i in kept], "pairs": pairs}


def with_row_gradients(seed, program):
    """Of a draw of its own, likewise: words whose gradients are rows, with strategies and optimizers that take these."""
    r = random.Random(f"{seed} rows")
    network = program["network"]
    if r.random() >= 0.4 or not networks.is_of_tokens(network) or network.get("tied"):
        return program
    kept = [index for index, s in enumerate(program["strategies"])
            if s["form"] not in ("late", "tensor") and strategies.copies_of(s) == 1]
    pairs = [pair for pair in program["pairs"] if pair["strategy"] in kept]
    if not pairs:
        return program
    for part in sequences.parts_in(network["body"]):
        if part["kind"] == "vocabulary" and not part["shares"] and r.random() < 0.6:
            part.update({"smoothing": 0, "sampled": part.get("sampled", 0) or r.randint(1, network["vocabulary"])})
        if part["kind"] == "embedding" or part.get("sampled", 0):
            part["rows"] = True
    optimizer_of = {}
    for pair in pairs:
        number = pair["settings"]["number"]
        optimizer = optimizer_of.setdefault(number, r.choice((OPTIMIZERS[0], ADAGRAD)))
        pair["settings"] = {**pair["settings"], "optimizer": optimizer, "average": None}
        pair["strategy"] = kept.index(pair["strategy"])
    return {**program, "strategies": [program["strategies"][index] for index in kept], "pairs": pairs}


def with_sharded_state(seed, program):
    """Of a draw of its own, likewise: replicas that have parts of the optimizer's states, where they can."""
    r = random.Random(f"{seed} sharded")
    body = program["network"]["body"]
    rows = networks.is_of_tokens(program["network"]) and any(part.get("rows") for part in sequences.parts_in(body))
    takes_norms = {pair["strategy"] for pair in program["pairs"] if pair["settings"]["optimizer"] == LAMB}  # of whole parameters
    for index, s in enumerate(program["strategies"]):
        if s["replicas"] and strategies.copies_of(s) == 1 and r.random() < 0.5:
            if not rows and not s.get("tiles") and index not in takes_norms:
                s.update(sharded=True, by_world=False)
    return program


def with_sharded_gradients(seed, program):
    """Of a draw of its own, likewise: of these some have parts of the gradients, too, in another order of sums, and of parameters."""
    r = random.Random(f"{seed} sharded gradients")
    reads_rounded = program["backend"] not in ("double", "float", "emulated")  # or weights in layouts of its own
    for s in program["strategies"]:
        if s.get("sharded") and s["leaves"] is None and r.random() < 0.6:
            s["sharded_gradients"] = True
            s["sharded_parameters"] = not reads_rounded and r.random() < 0.5
    return program


def with_slices(seed, program):
    """Of a draw of its own, likewise: devices of a model that is cut, each shared by several."""
    r = random.Random(f"{seed} slices")
    network = program["network"]
    rows = networks.is_of_tokens(network) and any(part.get("rows") for part in sequences.parts_in(network["body"]))
    body = network["body"]
    choices = [n for n in (2, 2, 3) if networks.shares_pairs(body, n)]
    if rows or not choices or program["backend"] == "bf16" or sequences.is_stateful(network):
        return program
    takes_norms = {pair["strategy"] for pair in program["pairs"] if pair["settings"]["optimizer"] == LAMB}
    for index, s in enumerate(program["strategies"]):
        if s["form"] == "late" or s.get("rule", "").startswith("AverageWeights") or index in takes_norms:
            continue
        whole = s["leaves"] is None or strategies.keeps_pairs(s, body)
        if s["form"] in ("model", "pipeline", "placed") and strategies.copies_of(s) == 1 and whole and r.random() < 0.3:
            s["slices"] = r.choice(choices)
        pieces = [n for n in (2, 4, 4, 6, 8) if networks.shares_pairs(body, n) and strategies.takes_pieces(s, n)]
        if pieces and whole and not s.get("sharded_gradients") and r.random() < 0.4:
            s["pieces"] = r.choice(pieces)
    return program


def with_shared_words(seed, program):
    """Of a draw of its own, likewise: devices that share layers share tables of words, too."""
    r = random.Random(f"{seed} words")
    network = program["network"]
    if not networks.is_of_tokens(network):
        return program
    first, last = network["body"]["parts"][0], network["body"]["parts"][-1]
    samples = last.get("sampled", 0)
    wishes = ["SplitInputs<0>"] if first["kind"] == "embedding" and not (samples and last["shares"]) else []
    wishes += [f"SplitOutputs<{CRITERION}>"] if last["kind"] == "vocabulary" and not samples else []
    for s in program["strategies"]:
        if s.get("slices") and s["leaves"] is None and not s.get("pieces"):  # else tables stay whole
            s["wishes"] = [wish for wish in wishes if r.random() < 0.6]
    return program


def with_chunks(seed, program):
    """Of a draw of its own, likewise: pipelines whose rows come in chunks of time."""
    r = random.Random(f"{seed} of chunks")
    network = program["network"]
    if not networks.is_of_tokens(network) or not sequences.takes_chunks(network):
        return program
    time = network["input"].time
    choices = [k for k in range(2, time + 1) if time % k == 0]
    pairs = []
    for index, s in enumerate(program["strategies"]):
        own = [pair for pair in program["pairs"] if pair["strategy"] == index]
        plain = [pair for pair in own if not pair["rows"]]
        fits = s.get("schedule") in strategies.SYNCHRONOUS and s["leaves"] is None and not s.get("in_rows")
        fits = fits and not s.get("sharded_gradients") and not s.get("pieces")
        if fits and choices and plain and strategies.devices_of(s) > 1:
            s.update(chunks=r.choice(choices), checkpoint=None)
            own = plain
        pairs += own
    return {**program, "pairs": pairs}


def with_steps_ahead(seed, program):
    """Of a draw of its own, likewise: pipelines without a barrier between the steps of an epoch, behind the other steps."""
    r = random.Random(f"{seed} ahead")
    network = program["network"]
    rows = any(part.get("rows") for part in sequences.parts_in(network["body"])) if networks.is_of_tokens(network) else False
    if rows or program["backend"] == "emulated" or program["processes"] or sequences.is_stateful(network):
        return program
    for index, s in enumerate(program["strategies"]):
        fits = s["form"] == "pipeline" and strategies.copies_of(s) == 1 and strategies.devices_of(s) > 1
        if fits and not any(s.get(key) for key in ("sharded", "by_world", "slices", "pieces", "chunks")) and r.random() < 0.6:
            s["ahead"] = True
            for pair in program["pairs"]:
                if pair["strategy"] == index:
                    pair["epoch"] = r.choice((3, 4, 6))
    return program


def with_twins(program):
    """Of each strategy's type its first two pairs, its own table's and another's, are compared with its value, too."""
    if program["values"] or not takes_values(program["backend"], program["processes"]):
        return program
    pairs, count = [], collections.Counter()
    for pair in program["pairs"]:
        pairs.append(pair)
        count[pair["strategy"]] += 1
        if count[pair["strategy"]] <= 2:
            pairs.append({**pair, "twin": True})
    return {**program, "pairs": pairs}


def in_chunks(program):
    return any(s.get("chunks") for s in program["strategies"])


def with_dealt_rows(seed, program):
    """Of a draw of its own, likewise: devices that share layers have their rows of what stands between these."""
    r = random.Random(f"{seed} rows")
    for s in program["strategies"]:
        shares = s.get("sharded_gradients") or s.get("sharded_parameters") or s.get("pieces") or s["leaves"] is not None
        if not shares and s.get("slices") and networks.divides_rows(program["network"], s["slices"]) and r.random() < 0.6:
            s["in_rows"] = True
    return program


def random_network(r, largest, tokens):
    if r.random() >= tokens:
        return networks.random_network(r, largest)
    if r.random() < 0.6:
        return sequences.random_network(r, largest)
    return classifiers.random_network(r, largest, r.random() < 0.5)


def try_random_program(r, seed, backend, pairs_each, kinds, largest, tokens, processes=False):
    if backend == "emulated":  # a minute a strategy to compile, and kernels a thread at a time
        kinds, pairs_each = 2, 6
    network = random_network(r, largest, tokens)
    own = random.Random(f"{seed} time")
    if networks.is_of_tokens(network) and own.random() < 0.3:
        network = sequences.random_network_in_chunks(own, largest)
    while backend == "emulated" and sequences.is_of_host(network):
        network = random_network(r, largest, tokens)
    of_tokens = networks.is_of_tokens(network)
    program = {"seed": str(seed), "backend": backend, "network": network, "repeats": of_tokens or r.random() < 0.5,
               "loss": random_loss(seed, network), "processes": processes, "strategies": [], "pairs": []}
    forms = []
    while len(forms) < 2 * kinds:
        own_forms = list(FORMS)
        r.shuffle(own_forms)
        forms += own_forms
    for form in forms:
        if len(program["strategies"]) == kinds:
            break
        has_late = any(s["form"] == "late" for s in program["strategies"])  # its equation takes long to compile
        if form == "late" and (program["loss"] or backend not in ("double", "float") or has_late or network.get("tied") or
                               classifiers.is_one(network) or sequences.is_stateful(network)):
            continue
        if form == "late" and processes:  # one process has all devices of its replica
            continue
        if form == "tensor" and (backend == "bf16" or sequences.is_stateful(network)):
            continue
        s = strategies.random_strategy(r, program["network"], form)
        if processes and s is not None and s["form"] == "cross" and s["leaves"] is None and not s["replicas"]:
            s["rule"] = "AverageWeights<2>"  # which one device cannot repeat
        if processes and s is not None and s["form"] == "data" and not s["weights"] and r.random() < 0.5:
            s.update(replicas=[6], microbatches=1 + s["microbatches"] % 2, leaves=None)  # two processes have 4|2's parts
        if of_tokens and s is not None and s.get("rule") == "AverageWeights<1>" and not sequences.is_by_sample(network):
            continue  # each model's mean is over its own tokens, so that their mean is not that of one device
        if s is not None and s.get("rule") == "AverageWeights<1>" and program["loss"] in ("ignored", "weighted", "all"):
            continue  # likewise over its own labels' weights
        if s in program["strategies"]:
            continue
        exact = s is not None and (s["leaves"] is not None or form == "late")
        if exact or (s is not None and (backend in ("double", "emulated") or r.random() < 0.3)):
            program["strategies"].append(s)
    settings_of = {}
    for index, s in enumerate(program["strategies"]):
        seen = set()
        for number in range(pairs_each):
            pair = random_pair(r, program, index, number, settings_of)
            text = str(pair)
            if pair is not None and text not in seen:
                seen.add(text)
                program["pairs"].append(pair)
    return program


# ---- C++ ------------------------------------------------------------------------------------------------------------


def table_name(index):
    return f"table_{index}"


def late_equation(s):
    """The equation of an asynchronous pipeline, and a synchronous one that is cut alike."""
    cut = {**s, "form": "pipeline", "schedule": "GPipe", "checkpoint": None}
    return strategies.cpp(cut), f"test::{strategies.LATE[s['schedule']]}"


def pair_cpp(pair, one):
    settings = pair["settings"]
    options = [f".optimizer = {settings['optimizer']}"]
    options += [f".clip_norm = {settings['clip']}"] if settings["clip"] else []
    options += [f".clip_value = {settings['clip_value']}"] if settings.get("clip_value") else []
    options += [f".groups = {{{', '.join(settings['groups'])}}}"] if settings["groups"] else []
    if settings["average"]:
        options += ['.average = {{.decay = {}, .pattern = "{}"}}'.format(*settings["average"])]
    options += [f".seed = {settings['seed']}", f".threads_per_device = {settings['threads']}"]
    fields = [f".one = {one}", f".many = {pair['many']}", f".microbatches = {pair['total']}"]
    fields += [f'.rows = "{pair["rows"]}"'] if pair["rows"] else []
    fields += [f".agree = Agree::{'bits' if pair['bits'] else 'bound'}",
               f".sizes = {{{', '.join(map(str, settings['sizes']))}}}"]
    if settings["times"]:
        fields += [f".times = {{{', '.join(map(str, settings['times']))}}}"]
        fields += [".padded = true"] if pair["padded"] else []
    fields += [f".saved = {pair['saved']}"] if pair["saved"] else []
    fields += [f".evaluated = {settings['evaluated']}", f".settings = {settings['number']}",
               f".options = {{{', '.join(options)}}}"]
    fields += [f".epoch = {pair['epoch']}"] if pair.get("epoch") else []
    fields += [f".tardy = {pair['tardy']}"] if pair["tardy"] else []
    fields += [".alone = true"] if pair.get("alone") else []
    fields += [".twins = true"] if pair.get("twin") else []
    return "{" + ", ".join(fields) + "}"


def writes(program):
    """Whether its network writes text."""
    of_rows = networks.is_of_tokens(program["network"]) and sequences.generates(program["network"])
    return of_rows and not in_chunks(program)


def task_cpp(program):
    network = program["network"]
    fields = [".input = Net::input::shape", f".classes = {network['classes']}"]
    fields += [".same_kernels = true"] if program["backend"] in ("double", "float") else []
    fields += [".words = words"] if networks.is_of_tokens(network) else []
    fields += [".labelled = true"] if networks.is_of_tokens(network) and classifiers.is_one(network) else []
    if network.get("second"):
        fields += [".second = Net::input::second::shape", ".others = others"]
    fields += [".rounding = 0x1p-8"] if program["backend"] == "bf16" else []
    return f"Task{{{', '.join(fields)}}}"


def to_cpp(program, name="made", comment=()):
    """The whole program, in a namespace `name`; run_pairs() takes it from there."""
    network, backend = program["network"], BACKENDS[program["backend"]]
    of_tokens = networks.is_of_tokens(network)
    repeats = program["repeats"] and not any(s["form"] == "placed" for s in program["strategies"])
    lines = ["// SPDX-License-Identifier: Apache-2.0", *(f"// {line}".rstrip() for line in comment),
             "#include <fuzz/strategies/pairs.hpp>", "", f"namespace tandem::fuzz::{name} {{", "",
             *(sequences.definitions(network) if of_tokens else ()),
             *(f"struct Tag{tag};" for tag in sorted(networks.tags_in(network["body"]))),
             *([losses_of(network)[program["loss"]][0]] if program.get("loss") else []),
             f"struct Net : Network<{networks.input_cpp(network)},",
             f"                     {networks.cpp(network['body'], repeats)}> {{",
             *(["  static constexpr bool generates = true;"] if writes(program) else ()),
             *([f"  using loss = {losses_of(network)[program['loss']][1]};",
                "  using metric = Metrics<Accuracy, TopK<2>>;"] if program.get("loss") else []),
             "};", f"using Backend = {backend};",
             f"static_assert(graph<Net>.output().out == {networks.shape_cpp(networks.result_of(network))});"]
    entries, of_strategy, value_of_strategy = [], {}, {}
    many = "OverMpi<Backend>" if program.get("processes") else "Backend"

    def entry_of(spelled, named, backend, value):
        if value:
            return entry(f'value_entry<Net, {backend}, {spelled}{named}>("{spelled}")')
        return entry(f'entry<Net, {spelled}, {backend}{named}>("{spelled}")')

    def entry(text):
        if text not in entries:
            entries.append(text)
        return entries.index(text)

    for index, s in enumerate(program["strategies"]):
        table = table_name(index)
        if s["form"] == "placed":
            places = ", ".join(f'{{"{path}", {device}}}' for path, device in s["places"])
            lines.append(f"inline constexpr auto {table} = place<Net>({{{places}}});")
        spelled = strategies.cpp(s, table)
        named = f", {strategies.cpp(strategies.named(s), table)}" if s.get("by_world") else ""
        of_strategy[index] = entry_of(spelled, named, many, program.get("values"))
        if any(pair.get("twin") and pair["strategy"] == index for pair in program["pairs"]):
            value_of_strategy[index] = entry_of(spelled, named, many, True)
    pairs = []
    for pair in program["pairs"]:
        s = program["strategies"][pair["strategy"]]
        if pair.get("alone"):
            one = of_strategy[pair["strategy"]]
        elif pair.get("twin"):
            one = value_of_strategy[pair["strategy"]]
        elif s["form"] == "late":
            cut, equation = late_equation(s)
            one = entry(f'equation<Net, {cut}, Backend, {equation}>("{equation}")')
        else:
            reference = strategies.reference_cpp(s, pair["microbatches"])
            one = entry_of(reference, "", "Backend", program.get("values"))
        total = pair["microbatches"] * strategies.replicas_of(s)
        pairs.append(pair_cpp({**pair, "many": of_strategy[pair["strategy"]], "total": total}, one))
    lines += ["", "inline int run(int argc, char** argv) {",
              "  std::vector<Entry<Backend::Master>> const entries{"]
    lines += [f"      {text}," for text in entries]
    lines += ["  };", "  std::vector<Pair> const pairs{"]
    lines += [f"      {text}," for text in pairs]
    lines += ["  };", f"  return run_pairs<Backend::Master>(entries, {task_cpp(program)}, pairs, argc, argv);", "}", "",
              f"}}  // namespace tandem::fuzz::{name}", "", "#if !defined(TANDEM_FUZZ_CASES)",
              "int main(int argc, char** argv) {", "  tandem::fuzz::join_processes();",
              f"  return tandem::fuzz::{name}::run(argc, argv);", "}", "#endif", ""]
    return "\n".join(lines)

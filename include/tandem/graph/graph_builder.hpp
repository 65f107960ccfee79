// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GraphBuilder: the walk over a network type that writes its Graph.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/graph/graph.hpp>
#include <tandem/graph/network.hpp>

namespace tandem::detail {

/// What a layer type is known by.
template <class L>
inline constexpr char identity_of = 0;

// What a layer of several inputs says of itself. Concepts, since nvcc 13 denies such an expression
// of a function's own arguments.
template <class L, class... Shapes>
concept HasFault = requires(Shapes... in) {
  L::fault(in...);
};
template <class L, class... Shapes>
concept HasMacs = requires(Shapes... in) {
  L::macs(in...);
};
template <class L, class... Shapes>
concept HasKept = requires(Shapes... in) {
  L::kept(in...);
};
template <class L, class... Shapes>
concept HasParameters = requires(Shapes... in) {
  L::parameters(in...);
};

// Fills a Graph. Without `keep` it only counts the parameters.
template <class G, bool Keep>
struct GraphBuilder {
  G graph{};
  int nodes = 0;
  int edges = 0;
  int parameters = 0;
  int leaves = 0;
  int top = 0;
  bool counts_copies = false;  ///< of the Repeat to come: each copy is a top-level part
  bool frozen = false;
  bool ended = false;  ///< a criterion has been passed
  int inputs = 1;      ///< of the network
  static constexpr int most_lets = 32;
  int lets = 0;
  void const* tag[most_lets] = {};  ///< of each Let so far
  int value[most_lets] = {};        ///< the node that it names
  Path path{};

  constexpr Shape shape(int node) const { return graph.node[node].out; }

  constexpr void fail(Fault fault, int a, int b) {
    if (graph.fault == Fault::none) {
      graph.fault = fault;
      graph.fault_node = nodes;
      graph.fault_a = a;
      graph.fault_b = b;
    }
  }

  // A value may be passed over: an Input or a Use behind it begins anew. @p end is what the walk
  // ended at.
  constexpr void check_read(int end) {
    if (end != nodes - 1 && graph.fault == Fault::none) {
      fail(Fault::unread, 0, 0);
      graph.fault_node = nodes - 1;
    }
    for (int n = 0; n + 1 < nodes; ++n) {
      bool read = false;
      for (int e = 0; e < edges; ++e) {
        read = read || graph.source[e] == n;
      }
      if (!read && graph.fault == Fault::none) {
        fail(Fault::unread, 0, 0);
        graph.fault_node = n;
      }
    }
  }

  constexpr int add(Node node, std::initializer_list<int> inputs_of_it) {
    node.top = top;
    node.path = path;
    node.frozen = frozen;
    node.origin = nodes;
    node.first_edge = edges;
    node.edges = static_cast<int>(inputs_of_it.size());
    for (int const input : inputs_of_it) {
      graph.edge_origin[edges] = edges;
      graph.source[edges++] = input;
      node.needs_gradient = node.needs_gradient || graph.node[input].needs_gradient;
    }
    graph.node[nodes] = node;
    return nodes++;
  }

  template <Layer L>
  constexpr int walk(int input, L const*) {
    Shape const in = shape(input);
    Node node{.kind = NodeKind::layer,
              .layer = kind_of<L>(),
              .view = is_view<L>,
              .criterion = is_criterion<L>(),
              .leaf = leaves++,
              .in = in};
    node.name = L::name;
    node.identity = &identity_of<L>;
    if constexpr (kind_of<L>() == LayerKind::dropout) {
      node.rate = L::rate;
    }
    if constexpr (is_criterion<L>()) {
      node.limit = L::classes;
    }
    if (ended) {
      fail(Fault::not_last, 0, 0);
    }
    ended = ended || node.criterion;
    if (graph.node[input].kind == NodeKind::input && graph.node[input].limit > 0 &&
        !takes_indices<L>()) {
      fail(Fault::indices, 0, 0);
    }
    if constexpr (requires { L::normalizes_over_batch; }) {
      node.normalizes = L::normalizes_over_batch && !frozen;
    }
    if constexpr (requires { L::synchronizes_over_replicas; }) {
      node.synchronizes = L::synchronizes_over_replicas && !frozen;
    }
    node.first_parameter = parameters;
    if (in.valid()) {
      if (Fault const fault = fault_of<L>(in); fault != Fault::none) {
        fail(fault, in.rank == 3 ? in[1] : in.rank, in[0]);
      } else {
        node.out = L::output(in);
        node.out.clock = node.out.timed ? in.clock : std::int8_t{0};
        node.macs = macs_of<L>(in);
        node.kept = kept_of<L>(in);
        node.sharing.columns = columns_of<L>(in);
        node.sharing.neighbourhood = neighbourhood_of<L>(in);
        node.sequence.carried = carried_of<L>();
        node.sequence.hands_on = hands_on_of<L>();
        node.sequence.hands_back = hands_back_of<L>(in);
        node.sequence.in_chunks = takes_chunks<L>(in);
        Parameters const list = parameters_of<L>(in);
        add_parameters(node, list);
        if constexpr (!std::is_void_v<typename SharedBy<L>::type>) {
          share(node.first_parameter, &identity_of<typename SharedBy<L>::type>);
        }
      }
    }
    return add(node, {input});
  }

  constexpr void add_parameters(Node& node, Parameters const& list) {
    node.parameters = list.count;
    for (int p = 0; p < list.count; ++p, ++parameters) {
      node.needs_gradient = node.needs_gradient || !frozen;
      if constexpr (Keep) {
        GraphParameter& own = graph.parameter[parameters];  // field by field: nvcc's sake
        own.parameter = list.item[p];
        own.node = nodes;
        own.frozen = frozen;
        own.origin = parameters;
        own.path = path;
      }
    }
  }

  // Parameter p has the values of the first one of the layer that stands before it.
  constexpr void share(int p, void const* identity) {
    int owner = 0;
    while (owner < nodes && graph.node[owner].identity != identity) {
      ++owner;
    }
    if (owner == nodes || graph.node[owner].parameters == 0) {
      fail(Fault::no_owner, 0, 0);
      return;
    }
    if constexpr (Keep) {
      GraphParameter const& first = graph.parameter[graph.node[owner].first_parameter];
      if (graph.parameter[p].parameter.shape != first.parameter.shape) {
        fail(Fault::shared_shapes, first.parameter.shape[0], first.parameter.shape[1]);
      } else if (graph.parameter[p].frozen != first.frozen) {
        fail(Fault::shared_frozen, 0, 0);
      }
      RowsTouched const touched = graph.parameter[p].parameter.touched;
      graph.parameter[p].own_name = graph.parameter[p].parameter.name;
      graph.parameter[p].parameter = first.parameter;
      if (touched.sparse()) {  // its layer's RowGradient, for Program to refuse
        graph.parameter[p].parameter.touched = touched;
      }
      graph.parameter[p].shared = first.owner();
      graph.parameter[p].path = first.path;
    }
  }

  template <class... Parts>
    requires FewParts<Parts...>
  constexpr int walk(int input, Sequential<Parts...> const*) {
    bool const outermost = path.depth == 0 && nodes == inputs;
    int index = 0;
    int node = input;
    [[maybe_unused]] auto const step = [&]<class Part>(Part const* part) {
      path.push(index++);
      if (outermost) {
        top = graph.tops;
        counts_copies = is_repeat(part);
      }
      node = walk(node, part);
      if (outermost && !is_name(part)) {
        graph.tops = top + 1;
      }
      path.pop();
    };
    (step(static_cast<Parts const*>(nullptr)), ...);
    return node;
  }

  template <int Count, class Part>
  constexpr int walk(int input, Repeat<Count, Part> const*) {
    bool const counts = counts_copies;
    counts_copies = false;
    int const first_leaf = leaves;
    int node = input;
    for (int i = 0; i < Count; ++i) {
      leaves = first_leaf;
      top += counts && i > 0 ? 1 : 0;
      path.push(i);
      node = walk(node, static_cast<Part const*>(nullptr));
      path.pop();
    }
    return node;
  }

  template <int Index>
  constexpr int walk(int /*input*/, Input<Index> const*) {
    if (Index >= inputs) {
      fail(Fault::no_second_input, 0, 0);
      return 0;
    }
    return Index;
  }

  template <class Tag>
  constexpr int walk(int input, Let<Tag> const*) {
    bool const again = find_let(&identity_of<Let<Tag>>) < lets;
    if (again || lets == most_lets) {
      fail_of_network(again ? Fault::let_twice : Fault::many_lets);
      return input;
    }
    tag[lets] = &identity_of<Let<Tag>>;
    value[lets++] = input;
    graph.node[input].named = true;
    return input;
  }
  template <class Tag>
  constexpr int walk(int input, Use<Tag> const*) {
    int const let = find_let(&identity_of<Let<Tag>>);
    if (let == lets) {
      fail_of_network(Fault::no_let);
      return input;
    }
    return value[let];
  }
  constexpr int find_let(void const* wanted) const {
    int let = 0;
    while (let < lets && tag[let] != wanted) {
      ++let;
    }
    return let;
  }
  // Of what has no node: the network itself is named.
  constexpr void fail_of_network(Fault fault) {
    bool const first = graph.fault == Fault::none;
    fail(fault, 0, 0);
    graph.fault_node = first ? 0 : graph.fault_node;
  }
  template <class Tag>
  static constexpr bool is_name(Let<Tag> const*) {
    return true;
  }
  template <class Tag>
  static constexpr bool is_name(Use<Tag> const*) {
    return true;
  }
  static constexpr bool is_name(void const*) { return false; }

  template <int Count, class Part>
  static constexpr bool is_repeat(Repeat<Count, Part> const*) {
    return true;
  }
  static constexpr bool is_repeat(void const*) { return false; }

  // A branch of a join: its parameters are named "index.…".
  template <class Part>
  constexpr int walk_branch(int input, int index, Part const* part) {
    path.push(index);
    int const node = walk(input, part);
    path.pop();
    return node;
  }

  template <std::size_t Count>
  constexpr int add_join(Node join, int const (&ends)[Count]) {
    int const first = edges;
    int const node = add(join, {ends[0]});
    for (std::size_t i = 1; i < Count; ++i) {
      graph.edge_origin[edges] = edges;
      graph.source[edges++] = ends[i];
      graph.node[node].needs_gradient |= graph.node[ends[i]].needs_gradient;
    }
    graph.node[node].edges = edges - first;
    return node;
  }

  template <class... Branches>
  constexpr int walk(int input, Multiply<Branches...> const*) {
    int index = 0;
    int const ends[] = {walk_branch(input, index++, static_cast<Branches const*>(nullptr))...};
    Node join{.kind = NodeKind::multiply, .in = shape(ends[0]), .out = shape(ends[0])};
    join.name = "Multiply";
    join.kept = Kept::of(true, false);
    for (int const end : ends) {
      if (!shape(end).valid() || !join.out.valid()) {
        join.out = {};
      } else if (of_other_times(shape(end), join.in)) {
        fail(Fault::clocks, 0, 0);
        join.out = {};
      } else if (shape(end) != join.in) {
        fail(Fault::multiply_shapes, join.in[0], shape(end)[0]);
        join.out = {};
      }
    }
    return add_join(join, ends);
  }

  template <class... Branches>
  constexpr int walk(int input, Concat<Branches...> const*) {
    int index = 0;
    int const ends[] = {walk_branch(input, index++, static_cast<Branches const*>(nullptr))...};
    Node join{.kind = NodeKind::concat, .in = shape(ends[0]), .out = shape(ends[0])};
    join.name = "Concat";
    for (int i = 1; i < static_cast<int>(sizeof...(Branches)); ++i) {
      Shape const other = shape(ends[i]);
      if (!other.valid() || !join.out.valid()) {
        join.out = {};
      } else if (of_other_times(join.out, other)) {
        fail(Fault::clocks, 0, 0);
        join.out = {};
      } else if (!joins(join.out, other)) {
        fail(Fault::concat_shapes, join.in[1], other[1]);
        join.out = {};
      } else {
        int const axis = join.out.timed ? 1 : 0;
        join.out.extent[axis] += other[axis];
      }
    }
    return add_join(join, ends);
  }

  // A node of the kind of a layer, whose leaf is the rule.
  template <JoinRule Rule, class... Branches>
  constexpr int walk(int input, Join<Rule, Branches...> const*) {
    constexpr int count = static_cast<int>(sizeof...(Branches));
    int index = 0;
    int const ends[] = {walk_branch(input, index++, static_cast<Branches const*>(nullptr))...};
    Shape in[sizeof...(Branches)] = {};
    bool valid = true;
    for (int i = 0; i < count; ++i) {
      Node const& end = graph.node[ends[i]];
      in[i] = end.out;
      valid = valid && end.out.valid();
      if (end.kind == NodeKind::input && end.limit > 0) {
        fail(Fault::indices, 0, 0);
      }
    }
    Node join{.kind = NodeKind::layer, .leaf = leaves++, .in = in[0]};
    join.name = Rule::name;
    join.identity = &identity_of<Rule>;
    join.first_parameter = parameters;
    if (ended) {
      fail(Fault::not_last, 0, 0);
    }
    if (valid) {
      join.out = Rule::output(std::span<Shape const>{in, static_cast<std::size_t>(count)});
      if (!join.out.valid()) {
        fail(Fault::join_shapes, in[0][0], in[count - 1][0]);
      }
      join.kept = kept_of<Rule>(in[0]);
    }
    return add_join(join, ends);
  }

  static constexpr bool of_other_times(Shape a, Shape b) {
    return a.timed && b.timed && a.clock != b.clock;
  }
  template <class L, class... Branches>
    requires(!JoinRule<L> && JoinLayer<L, Branches...>)
  constexpr int walk(int input, Join<L, Branches...> const*) {
    int index = 0;
    int const ends[] = {walk_branch(input, index++, static_cast<Branches const*>(nullptr))...};
    Node join{.kind = NodeKind::layer, .layer = kind_of<L>(), .leaf = leaves++};
    join.in = shape(ends[0]);
    join.name = L::name;
    join.identity = &identity_of<L>;
    join.first_parameter = parameters;
    bool valid = true;
    for (int const end : ends) {
      valid = valid && shape(end).valid();
      if (graph.node[end].kind == NodeKind::input && graph.node[end].limit > 0) {
        fail(Fault::indices, 0, 0);
      }
    }
    if (ended) {
      fail(Fault::not_last, 0, 0);
    }
    if (valid) {
      [&]<std::size_t... I>(std::index_sequence<I...>) { fill<L>(join, shape(ends[I])...); }
      (std::make_index_sequence<sizeof...(Branches)>{});
    }
    return add_join(join, ends);
  }
  template <class L, class... Shapes>
  constexpr void fill(Node& node, Shapes... in) {
    if constexpr (HasFault<L, Shapes...>) {
      if (Fault const fault = L::fault(in...); fault != Fault::none) {
        fail(fault, node.in[0], node.in[1]);
        return;
      }
    }
    node.out = L::output(in...);
    if (!node.out.valid()) {
      fail(Fault::rejected, node.in[0], node.in[1]);
      return;
    }
    node.out.clock = node.out.timed ? node.in.clock : std::int8_t{0};
    if constexpr (HasMacs<L, Shapes...>) {
      node.macs = L::macs(in...);
    }
    if constexpr (HasKept<L, Shapes...>) {
      node.kept = L::kept(in...);
    }
    if constexpr (HasParameters<L, Shapes...>) {
      Parameters const list = L::parameters(in...);
      add_parameters(node, list);
    }
  }

  // Images along their channels, vectors, and sequences of the same rows.
  static constexpr bool joins(Shape a, Shape b) {
    return a.rank == b.rank && a.timed == b.timed && a.clock == b.clock &&
           (a.timed ? a.rank == 2 && a[0] == b[0] : a[1] == b[1] && a[2] == b[2]);
  }

  template <class Body, class Shortcut>
  constexpr int walk(int input, Residual<Body, Shortcut> const*) {
    path.push(Path::body);
    int const body = walk(input, static_cast<Body const*>(nullptr));
    path.pop();
    path.push(Path::shortcut);
    int const shortcut = walk(input, static_cast<Shortcut const*>(nullptr));
    path.pop();
    if (of_other_times(shape(body), shape(shortcut))) {
      fail(Fault::clocks, 0, 0);
    } else if (shape(body).valid() && shape(shortcut).valid() && shape(body) != shape(shortcut)) {
      fail(Fault::residual_shapes, shape(body)[0], shape(shortcut)[0]);
    }
    Node join{.kind = NodeKind::add, .in = shape(body), .out = shape(body)};
    join.name = "Add";
    return add(join, {body, shortcut});
  }

  template <class Body>
  constexpr int walk(int input, Frozen<Body> const*) {
    bool const before = frozen;
    frozen = true;
    int const node = walk(input, static_cast<Body const*>(nullptr));
    frozen = before;
    return node;
  }

  constexpr int walk(int input, void const*) {
    fail(Fault::reported, 0, 0);
    return input;
  }
};

}  // namespace tandem::detail

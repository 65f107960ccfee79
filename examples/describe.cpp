// Prints a table of a network: layer, output shape, parameters, multiply-accumulates, memory.
//   describe googlenet|resnet20|resnet18|small_cnn|gpt2|gpt2_medium|gpt2_large|gpt2_xl [--top]
// --top: a row a top-level part. Of weights that layers share: which those are, and what their sum
// moves in a step. Needs no device: everything comes from the constexpr graph.

#include <tandem/comm/volume.hpp>
#include <tandem/tandem.hpp>

#include <cstdio>
#include <cstring>
#include <string>

namespace td = tandem;

struct Row {
  std::string path;
  std::string name;
  std::string shape;
  long long parameters = 0;
  double mmacs = 0;
  double kib = 0;
};

void print(Row const& row) {
  std::printf("%-18s %-14s %12s %12lld %12.2f %12.1f\n", row.path.c_str(), row.name.c_str(),
              row.shape.c_str(), row.parameters, row.mmacs, row.kib);
}

long long weights_of(auto const& graph, td::Node const& node) {
  long long sum = 0;
  for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
    td::Parameter const& parameter = graph.parameter[p].parameter;
    sum += parameter.role == td::Role::weight ? parameter.shape.elements() : 0;
  }
  return sum;
}

/// Where the copies of a shared weight lie. The sum of their gradients is counted as a ring's.
void print_ties(td::GraphView graph) {
  for (int owner = 0; owner < graph.parameters; ++owner) {
    std::string layers;
    int holders = 0;
    for (int p = owner; p < graph.parameters; ++p) {
      if (graph.parameter[p].owner() == owner) {
        td::Node const& node = graph.node[graph.parameter[p].node];
        layers += (holders++ > 0 ? " and " : "") + std::string{node.name} + " of part " +
                  std::to_string(node.top);
      }
    }
    if (holders > 1) {
      long long const bytes = 4 * graph.parameter[owner].parameter.shape.elements();
      std::printf("shared: %s, counted once, lies with %s, %.1f MiB each\n",
                  td::parameter_name(graph, owner).c_str(), layers.c_str(),
                  static_cast<double>(bytes) / (1 << 20));
      std::printf(
          "        in a step %lld bytes of its gradient go each way between two devices that have "
          "it; on one device, none\n",
          static_cast<long long>(td::all_reduce_bytes(2, bytes)));
    }
  }
}

template <class Net>
int describe(char const* name, bool top_only) {
  auto const& graph = td::graph<Net>;
  std::printf("%s on %s, for one sample in fp32\n", name, td::to_string(graph.node[0].out).c_str());
  std::printf("%-18s %-14s %12s %12s %12s %12s\n", "layer", "kind", "output", "parameters", "MMACs",
              "KiB");
  Row part;
  for (int n = 1; n < graph.nodes; ++n) {
    td::Node const& node = graph.node[n];
    Row row{td::to_string(node.path),
            std::string{node.name},
            td::to_string(node.out),
            weights_of(graph, node),
            static_cast<double>(node.macs) / 1e6,
            node.view ? 0.0 : static_cast<double>(node.out.elements()) * 4 / 1024};
    if (!top_only) {
      print(row);
      continue;
    }
    part = {
        std::to_string(node.top), row.name,          row.shape, part.parameters + row.parameters,
        part.mmacs + row.mmacs,   part.kib + row.kib};
    if (n + 1 == graph.nodes || graph.node[n + 1].top != node.top) {
      print(part);
      part = {};
    }
  }
  print({"total", std::to_string(graph.tops) + " parts", td::to_string(graph.output().out),
         graph.parameter_elements(), static_cast<double>(graph.macs()) / 1e6,
         static_cast<double>(graph.activation_bytes()) / 1024});
  print_ties(graph);
  return 0;
}

int main(int argc, char** argv) {
  std::string const net = argc > 1 ? argv[1] : "";
  bool const top_only = argc > 2 && std::strcmp(argv[2], "--top") == 0;
  if (argc <= 3 && (argc <= 2 || top_only)) {
    if (net == "googlenet")
      return describe<td::models::GoogLeNet<10>>("GoogLeNet", top_only);
    if (net == "resnet20")
      return describe<td::models::ResNet20<10>>("ResNet-20", top_only);
    if (net == "resnet18")
      return describe<td::models::ResNet18<10>>("ResNet-18", top_only);
    if (net == "small_cnn")
      return describe<td::models::SmallCnn<10>>("SmallCnn", top_only);
    if (net == "gpt2")
      return describe<td::models::Gpt2<>>("GPT-2", top_only);
    if (net == "gpt2_medium")
      return describe<td::models::Gpt2Medium<>>("GPT-2 medium", top_only);
    if (net == "gpt2_large")
      return describe<td::models::Gpt2Large<>>("GPT-2 large", top_only);
    if (net == "gpt2_xl")
      return describe<td::models::Gpt2Xl<>>("GPT-2 XL", top_only);
  }
  char const* const wrong = argc > 3 ? argv[3] : argc > 2 && !top_only ? argv[2] : net.c_str();
  std::fprintf(stderr,
               "describe: takes googlenet, resnet20, resnet18, small_cnn, gpt2, gpt2_medium, "
               "gpt2_large or gpt2_xl, and then --top or nothing, not '%s'\n",
               td::detail::printable(wrong).c_str());
  return 2;
}

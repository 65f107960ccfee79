// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/plan/search/compare.hpp>

namespace compare_test {

using namespace tandem;

std::string compared(std::string const& one, std::string const& other) {
  return compare_results(one, "a.json", other, "b.json");
}

/// A search of so many devices.
std::string search(int devices, std::string const& plans, std::string const& recommended = "x") {
  return "{\"results\": [{\"devices\": " + std::to_string(devices) + ", \"plans\": [" + plans +
         "]}], \"recommended\": \"" + recommended + "\", \"sources\": {\"costs\": \"c\"}}";
}

std::string plan(std::string const& strategy, std::string const& rest) {
  return "{\"strategy\": \"" + strategy + "\", " + rest + "}";
}

TEST_CASE("the same says nothing, however it is laid out") {
  std::string const one =
      search(2, plan("DataParallel<2>", "\"T\": 0.50, \"late_gradients\": true"));
  std::string const other =
      search(2, plan("DataParallel<2>", "\n \"late_gradients\":true, \"T\": 5e-1"));
  CHECK(compared(one, other).empty());
  CHECK(compared(one, one).empty());
}

TEST_CASE("all that differs in a plan is one line; cuts do not make it another") {
  CHECK(
      compared(
          search(2, plan("DataParallel<2>", "\"T\": 0.5, \"C\": 10, \"bound\": \"computing\"")),
          search(2, plan("DataParallel<2>", "\"T\": 0.4, \"C\": 10, \"bound\": \"gradients\""))) ==
      "2 devices, DataParallel<2>: T 0.5 -> 0.4 (-20 %), bound computing -> gradients\n");
  CHECK(
      compared(search(2, plan("Pipeline<GPipe, 4, Split<12>, Split<3>>", "\"T\": 1")),
               search(2, plan("Pipeline<GPipe, 4, Split<11>, Split<4>>", "\"T\": 1.5"))) ==
      "2 devices, Pipeline<GPipe, 4, Split<12>, Split<3>>: strategy Pipeline<GPipe, 4, Split<12>, "
      "Split<3>> -> Pipeline<GPipe, 4, Split<11>, Split<4>>, T 1 -> 1.5 (+50 %)\n");
  CHECK(compared(search(2, plan("a", "\"T\": 1")), search(2, plan("a", "\"E\": 1"))) ==
        "2 devices, a: T in a.json only, E in b.json only\n");
}

TEST_CASE("plans that are in one file only, that cannot be, and that are first") {
  std::string const one = search(4, plan("a", "\"T\": 1") + ", " + plan("b", "\"T\": 2"));
  std::string const other =
      search(4, plan("b", "\"problem\": \"it is too large\"") + ", " + plan("c", "\"T\": 3"));
  CHECK(compared(one, other) ==
        "4 devices, the first: a -> b\n"
        "4 devices, a: in a.json only\n"
        "4 devices, b: cannot be in b.json, it is too large\n"
        "4 devices, c: in b.json only\n");
  CHECK(compared(other, one).find("4 devices, b: cannot be in a.json, it is too large\n") !=
        std::string::npos);
}

TEST_CASE("numbers of devices, what is recommended, sources, placements") {
  std::string const same = plan("a", "\"T\": 1");
  CHECK(compared(search(2, same), search(4, same)) ==
        "2 devices: in a.json only\n4 devices: in b.json only\n");
  CHECK(compared(search(2, same), search(2, same, "y")) == "recommended: x -> y\n");
  CHECK(compared("{\"s\": {\"costs\": \"c\", \"links\": null}}",
                 "{\"s\": {\"costs\": \"d\", \"more\": [1]}}") ==
        "s, costs: c -> d\ns, links: null in a.json only\ns, more: a list in b.json only\n");
  CHECK(compared("{\"placement\": {\"n1\": 0, \"n2\": 1}, \"step\": 0}",
                 "{\"placement\": {\"n1\": 0, \"n2\": 0}, \"step\": 1}") ==
        "placement, n2: 1 -> 0\nstep: 0 -> 1\n");
  CHECK(compared("{\"devices\": [{\"busy\": 1}, {\"busy\": 2}]}",
                 "{\"devices\": [{\"busy\": 1}, {\"busy\": 4}, {\"busy\": 1}]}") ==
        "devices, 1, busy: 2 -> 4 (+100 %)\ndevices: 2 -> 3 of them\n");
  CHECK(compared("{\"a\": [], \"b\": 1}", "{\"a\": [{\"devices\": 1}], \"b\": {}}") ==
        "a: 0 -> 1 of them\nb: 1 -> an object\n");
}

TEST_CASE("what is no JSON is refused with its file's name") {
  CHECK_THROWS_WITH_AS(static_cast<void>(compared("{}", "[]")),
                       "'b.json': line 1, column 1: expected '{', the file being one object",
                       FileError);
}

}  // namespace compare_test

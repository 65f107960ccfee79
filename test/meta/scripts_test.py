#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the scripts that check the library: each rule must refuse a small tree that breaks it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEAD = "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n"
sys.path[:0] = [str(HERE), str(ROOT / "single_include"), str(ROOT / "docs/site")]

import amalgamate  # noqa: E402
import build as site  # noqa: E402
import check_output  # noqa: E402
import documented_code  # noqa: E402
import documented_paths  # noqa: E402
import header_chains  # noqa: E402
import headers  # noqa: E402
import layers  # noqa: E402
import one_definition  # noqa: E402
import unique_names  # noqa: E402


class Tree(unittest.TestCase):
    """A folder `include` that lives as long as the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.include = self.root / "include"

    def header(self, name, text, head=HEAD):
        path = self.include / "tandem" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + text, encoding="utf-8")


class Version(unittest.TestCase):
    def test_the_changelog_begins_with_it(self):
        config = (ROOT / "include/tandem/core/config.hpp").read_text(encoding="utf-8")
        parts = [re.search(rf"#define TANDEM_VERSION_{part} (\d+)$", config, re.M)[1] for part in ("MAJOR", "MINOR", "PATCH")]
        changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        self.assertIn(re.search(r"^## (\S+)", changes, re.M)[1], ("Unreleased", ".".join(parts)))


class ExitCodes(unittest.TestCase):
    """How a process ends: what the code says, what the page says, what the tests expect."""

    def test_the_table_has_each_and_no_other(self):
        def read(path):
            return (ROOT / path).read_text(encoding="utf-8")

        enum = re.search(r"enum class ExitCode : int \{(.*?)\n\};", read("include/tandem/core/stall.hpp"), re.S)[1]
        codes = {name: int(number) for name, number in re.findall(r"^  (\w+) = (\d+)", enum, re.M)}
        self.assertEqual(len(set(codes.values())), len(codes))
        table = read("docs/elastic.md").split("## How it ended")[1]
        rows = {name: int(number) for number, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", table, re.M)}
        self.assertEqual(rows, codes)
        rig = re.search(r"^DONE, ERROR, PEER_FAILED, START_AGAIN = (.*?)  #", read("test/cluster/rig.py"), re.M)[1]
        self.assertEqual([int(code) for code in rig.split(",")],
                         [codes[name] for name in ("done", "error", "peer_failed", "start_again")])
        tests = "".join(read(f"test/unit/train/{name}_test.cpp") for name in ("elastic", "signal", "stall"))
        for number in codes.values():
            self.assertTrue(re.search(rf"(?:==|status =|\?) {number}\b", tests), f"no test expects status {number}")


class FirstProgram(unittest.TestCase):
    def test_readme_shows_what_quickstart_sh_runs(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        example = (ROOT / "examples/quickstart.cpp").read_text(encoding="utf-8")
        self.assertEqual(re.search(r"```cpp\n(.*?)```", readme, re.S)[1], example[example.index("#include"):])


class Lengths(unittest.TestCase):
    """As docs/install.md and docs/first_hour.md have it."""

    def test_examples_have_at_most_60_lines_but_the_programs_with_flags(self):
        examples = [*ROOT.glob("examples/*.cpp"), *ROOT.glob("examples/*/main.cpp")]
        longer = {str(path.relative_to(ROOT)) for path in examples
                  if path.read_text(encoding="utf-8").count("\n") > 60}
        self.assertEqual(longer, {f"examples/{name}.cpp" for name in ("describe", "plan/main", "schedule/main")})

    def test_programs_of_the_first_hour_have_at_most_30_lines(self):
        page = (ROOT / "docs/first_hour.md").read_text(encoding="utf-8")
        programs = documented_code.programs_in(page, "cpp") + documented_code.programs_in(page, "cuda")
        self.assertEqual([program for program in programs if program.count("\n") > 30], [])


class Presets(unittest.TestCase):
    def test_what_run_sh_builds_has_the_whole_where_it_is_asked_for(self):
        presets = {p["name"]: p for p in json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]}

        def value(name, variable):
            preset = presets.get(name, {})
            return preset and (preset.get("cacheVariables", {}).get(variable) or value(preset.get("inherits"), variable))

        for name in "suite", "asan", "tsan":
            self.assertEqual(value(name, "TANDEM_TESTS_WHOLE"), "OFF", name)


class Layers(Tree):
    def faults(self):
        return "\n".join(layers.check_tree(self.include)[1])

    def refuses(self, fault, text, name="graph/a.hpp", head=HEAD):
        self.header("core/base.hpp", "")
        self.header("train/loop.hpp", "")
        self.header(name, text, head)
        self.assertIn(fault, self.faults())

    def accepts(self, text, name="graph/a.hpp"):
        if name != "tandem.hpp":
            self.header("core/base.hpp", "")
        self.header(name, text)
        self.assertEqual("", self.faults())

    def test_upward(self):
        self.refuses("graph/ may not include train/", "#include <tandem/train/loop.hpp>\n")

    def test_kernels_wait(self):
        kernel = "template <int N>\nTANDEM_KERNEL void __launch_bounds__(64)\n    a_kernel(int (&x)[N]) {{{}}}\n"
        self.refuses("a.cuh:4: a kernel begins with await_previous();", kernel.format(" int y = 0; "), "graph/a.cuh")
        self.accepts(kernel.format("\n  // First.\n  await_previous();\n"), "graph/a.cuh")

    def test_sideways(self):
        self.header("graph/b.hpp", "")
        self.refuses("data/ may not include graph/", "#include <tandem/graph/b.hpp>\n", "data/a.hpp")

    def test_no_op_sees_a_communicator(self):
        self.header("comm/b.hpp", "")
        self.refuses("ops/ may not include comm/", "#include <tandem/comm/b.hpp>\n", "ops/host/a.hpp")

    def test_a_schedule_knows_of_no_network(self):
        self.header("graph/b.hpp", "")
        self.refuses("schedule/ may not include graph/", "#include <tandem/graph/b.hpp>\n", "schedule/table/a.hpp")

    def test_downward(self):
        self.accepts("#include <vector>\n\n#include <tandem/core/base.hpp>\n")

    def test_same_folder(self):
        self.header("graph/b.hpp", "")
        self.accepts("#include <tandem/graph/b.hpp>\n")

    def test_umbrella_may_all(self):
        self.header("train/loop.hpp", "")
        self.accepts("#if 1\n#include <tandem/train/loop.hpp>\n#endif\n", "tandem.hpp")

    def test_umbrella_is_for_users(self):
        self.header("tandem.hpp", "")
        self.refuses("is for users", "#include <tandem/tandem.hpp>\n")

    def test_comments_do_not_count(self):
        self.accepts("// #include <tandem/train/loop.hpp>\n/* exit(1);\n std::abort(); */\n")

    def test_strings_do_not_count(self):
        self.accepts('char const* text = "exit(1)";\nint big = 1\'000; char q = \'"\';\n')

    def test_missing(self):
        self.refuses("<tandem/core/none.hpp> does not exist", "#include <tandem/core/none.hpp>\n")

    def test_quoted(self):
        self.refuses("write #include <tandem/...>", '#include "base.hpp"\n')

    def test_unknown_folder(self):
        self.refuses("no place in MAY_INCLUDE", "", "misc/a.hpp")

    def test_cuh(self):
        self.header("core/k.cuh", "")
        self.refuses("may not include a .cuh", "#include <tandem/core/k.cuh>\n")

    def test_conditional(self):
        self.refuses("inside #if", "#if 1\n#include <tandem/core/base.hpp>\n#endif\n")

    def test_conditional_of_bodies(self):
        self.header("impl/src.hpp", "#include <tandem/graph/a.hpp>\n")
        self.accepts("#if TANDEM_BODIES\n#include <tandem/core/base.hpp>\n#endif\n")
        self.refuses("inside #if", "#if TANDEM_BODIES\n#if 1\n#include <tandem/core/base.hpp>\n#endif\n#endif\n")

    def test_conditions_are_of_macros_that_are_there(self):
        self.header("core/config.hpp", "#define HAS_THREADS 1\n")
        include = "#include <tandem/core/config.hpp>\n"
        for condition in "#if HAS_THREADS", "#if 0\n#elif !defined(HAS_THREADS)", "#ifndef HAS_THREADS":
            with self.subTest(condition):
                line = 3 + condition.count("\n")
                fault = f"graph/a.hpp:{line}: HAS_THREADS is asked for above #include <tandem/core/config.hpp>"
                self.refuses(fault, f"{condition}\n#endif\n")
                self.refuses(fault, f"{condition}\n#endif\n{include}")
                self.accepts(f"{include}{condition}\n#endif\n")
        self.accepts("#if HAS_NOTHING\n#endif\n// #if HAS_THREADS\n")

    def test_spdx(self):
        self.refuses("SPDX", "", head="#pragma once\n")

    def test_pragma_once(self):
        self.refuses("#pragma once", "", head=HEAD.splitlines()[0] + "\n")

    def test_length(self):
        self.accepts("\n" * 299)
        self.assertIn(":301: question: 301 lines", "".join(layers.questions(self.include)))

    def test_macros(self):
        self.refuses("macros are defined in", "#define MINE 1\n")

    def test_forbidden(self):
        for call in ["exit(1)", "std::exit(1)", "std::abort()", "std::printf(\"\")", "printf(\"\")",
                     "std::fprintf(stderr, \"\")", "std::cerr << 1", "std::getenv(\"A\")"]:
            with self.subTest(call):
                self.refuses("has no place in include/", f"inline void f() {{ {call}; }}\n")

    def test_permitted(self):
        self.accepts("inline void f() { group.abort(); std::snprintf(b, 1, \"\"); on_exit(); }\n")
        self.accepts("inline void f() { std::fprintf(stderr, \"\"); }\n", "train/progress.hpp")

    def test_no_templates_to_be_lazy(self):
        self.refuses("template <class = void> has no place in include/", "template <class = void>\nvoid f() {}\n")
        self.accepts("template <class T = void>\nstruct A {};\ntemplate <class, class = void>\nstruct B {};\n")

    def test_umbrella_reaches_all(self):
        self.header("core/b.hpp", "")
        self.header("core/c.hpp", "")
        self.header("core/a.hpp", "#include <tandem/core/b.hpp>\n")
        self.header("comm/mpi.hpp", "")
        self.header("tandem.hpp", "#include <tandem/core/a.hpp>\n")
        self.assertEqual("include/tandem/tandem.hpp:1: <tandem/core/c.hpp> is not reached from here",
                         self.faults())

    def test_the_unit_of_bodies_has_all_of_them(self):
        body = "#if TANDEM_BODIES\n#endif\n"
        self.header("core/a.hpp", body)
        self.header("core/b.hpp", body)
        self.header("kernels/onednn/c.hpp", body)
        self.header("impl/src.hpp", "#include <tandem/core/a.hpp>\n#if defined(TANDEM_ONEDNN)\n"
                                    "#include <tandem/core/b.hpp>\n#endif\n")
        self.assertEqual(
            ["include/tandem/impl/src.hpp:1: <tandem/core/b.hpp>, which has bodies, is not always reached from here"],
            layers.check_tree(self.include)[1])

    def test_nothing_there(self):
        run = subprocess.run([sys.executable, HERE / "layers.py", self.include], capture_output=True)
        self.assertEqual(1, run.returncode)


    def test_the_page_of_the_design_has_the_same_lists(self):
        page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([a-z ]+) \|$", page, re.M)
        documented = [(folder, set(others.split()) - {"nothing"}) for folder, others in rows]
        self.assertEqual(list(layers.MAY_INCLUDE.items()), documented)


class DocumentedPaths(Tree):
    def faults(self, text):
        page = self.root / "page.md"
        page.write_text(text)
        return "".join(documented_paths.faults_of(self.root, page))

    def test_files_that_are_there(self):
        self.header("core/a.hpp", "")
        self.assertEqual("", self.faults("`core/a.hpp`, `include/tandem/core/a.hpp` and [this](page.md#part)\n"))
        self.assertEqual("", self.faults("`a.hpp`, `core/`, [far](https://b/c.md), [here](#part)\n"))
        self.assertEqual("", self.faults("```sh\ng++ `core/b.hpp`\n```\n"))

    def test_files_that_have_gone(self):
        self.assertIn("page.md:2: there is no file core/b.hpp", self.faults("\n`core/b.hpp`\n"))
        self.assertIn("page.md:1: there is no gone.md", self.faults("[gone](gone.md#part)\n"))
        self.assertIn("page.md:4: there is no file core/b.hpp", self.faults("```\n\n```\n`core/b.hpp`\n"))


class HeaderChains(Tree):
    def chains(self, **includes):
        for name, others in includes.items():
            self.header(name + ".hpp", "".join(f"#include <tandem/{other}.hpp>\n" for other in others))
        headers = [f"tandem/{name}.hpp" for name in includes]
        found = header_chains.chains(header_chains.included(headers, self.include))
        return [" ".join(re.sub(r"tandem/|\.hpp", "", header) for header in chain) for chain in found]

    def test_a_chain_needs_one_source(self):
        self.assertEqual(["a b c"], self.chains(b=["a"], a=[], c=["b"]))

    def test_by_way_of_another(self):
        self.assertEqual(["a b c", "d"], self.chains(a=[], b=["a"], c=["b"], d=["b"]))

    def test_each_header_once(self):
        chains = self.chains(a=[], b=["a"], c=["a"], d=["b", "c"])
        self.assertEqual("abcd", "".join(sorted("".join(chains).replace(" ", ""))))
        self.assertEqual(2, len(chains))

    def test_headers_that_do_not_include_each_other_stay_apart(self):
        self.assertEqual(["a", "b"], self.chains(a=[], b=[]))

    def test_what_bodies_alone_include_makes_no_chain(self):
        self.header("b.hpp", "int b;\n#if TANDEM_BODIES\n#include <tandem/a.hpp>\n#endif\n")
        headers = ["tandem/a.hpp", "tandem/b.hpp"]
        self.header("a.hpp", "")
        self.assertEqual(set(), header_chains.included(headers, self.include)["tandem/b.hpp"])

    def test_what_has_changed_since_the_tag(self):
        def git(*words):
            subprocess.run(["git", "-C", self.include, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                           check=True, capture_output=True)

        self.assertIsNone(header_chains.changed(self.include))
        self.chains(a=[], b=["a"], c=[])
        git("init")
        git("add", ".")
        git("commit", "-m", "one")
        git("tag", "v1")
        self.header("c.hpp", "#include <tandem/a.hpp>\n")
        self.assertEqual({"tandem/c.hpp"}, header_chains.changed(self.include))

    def test_each_includes_the_one_before_in_the_whole_tree(self):
        include = ROOT / "include"
        headers = [str(path.relative_to(include)) for path in include.rglob("*.hpp")]
        closed = header_chains.included(headers, include)
        seen = []
        for chain in header_chains.chains(closed):
            seen += chain
            for lower, upper in zip(chain, chain[1:]):
                self.assertIn(lower, closed[upper])
        self.assertEqual(sorted(headers), sorted(seen))


class Amalgamation(Tree):
    def text(self):
        return amalgamate.amalgamate(self.include).text()

    def test_each_header_once_and_in_order(self):
        self.header("core/a.hpp", "#include <vector>\nint a;\n")
        self.header("core/b.hpp", "#include <tandem/core/a.hpp>\nint b;\n")
        self.header("tandem.hpp", "#include <tandem/core/b.hpp>\n#include <tandem/core/a.hpp>\n")
        text = self.text()
        self.assertEqual([1, 1, 1], [text.count(s) for s in ("int a;", "int b;", "<vector>")])
        self.assertLess(text.index("int a;"), text.index("int b;"))
        self.assertNotIn("<tandem/", text)
        self.assertEqual(1, text.count("#pragma once"))
        self.assertNotIn(str(self.root), text)

    def test_macros_end_with_the_file(self):
        self.header("core/a.hpp", "#define TANDEM_A 1\n#define TANDEM_VERSION_MAJOR 1\n")
        self.header("tandem.hpp", "#include <tandem/core/a.hpp>\n")
        self.assertTrue(self.text().endswith("#undef TANDEM_A\n"))
        self.assertNotIn("#undef TANDEM_VERSION", self.text())

    def test_foreign_headers_stay_inside_their_condition(self):
        self.header("core/a.hpp", "#if X\n#include <zlib.h>\n#endif\n")
        self.header("tandem.hpp", "#include <tandem/core/a.hpp>\n")
        self.assertIn("#if X\n#include <zlib.h>\n#endif\n", self.text())

    def test_a_header_first_inside_a_condition_is_refused(self):
        self.header("core/a.hpp", "")
        self.header("core/b.hpp", "#include <tandem/core/a.hpp>\n")
        self.header("tandem.hpp", "#if X\n#include <tandem/core/a.hpp>\n#endif\n"
                                  "#include <tandem/core/b.hpp>\n")
        with self.assertRaisesRegex(amalgamate.AmalgamationError, "inside #if"):
            self.text()

    def test_bodies_are_no_condition(self):
        self.header("core/a.hpp", "")
        self.header("core/b.hpp", "#if TANDEM_BODIES\n#include <vector>\n\n#include <tandem/core/a.hpp>\n#endif\n")
        self.header("tandem.hpp", "#include <tandem/core/b.hpp>\n#include <tandem/core/a.hpp>\n")
        self.assertLess(self.text().index("<vector>"), self.text().index("#if TANDEM_BODIES"))

    def test_tests_that_need_more_are_left_out(self):
        self.header("core/a.hpp", "#define TANDEM_A 1\n")
        self.header("core/b.hpp", "")
        self.header("tandem.hpp", "#include <tandem/core/a.hpp>\n")
        unit = self.root / "unit" / "core"
        unit.mkdir(parents=True)
        (unit / "a_test.cpp").write_text("#include <tandem/core/a.hpp>\n")
        (unit / "b_test.cpp").write_text("#include <tandem/core/b.hpp>\n")
        (unit / "c_test.cpp").write_text('#include "c.hpp"\n')
        (unit / "c.hpp").write_text("#include <tandem/core/b.hpp>\n")
        (unit / "d_test.cpp").write_text("int x = TANDEM_A;\n")
        (unit / "e_test.cpp").write_text("#if defined(TANDEM_A)\nint x = TANDEM_A;\n#endif\n")
        made_of = amalgamate.forward(self.include, self.root / "single.hpp", self.root / "tree")
        self.assertEqual(["b_test.cpp", "c_test.cpp", "d_test.cpp"],
                         [path.name for path in amalgamate.left_out(self.root, made_of)])
        self.assertIn("#error", (self.root / "tree" / "tandem" / "core" / "b.hpp").read_text())

    def test_a_stale_file_is_refused(self):
        self.header("tandem.hpp", "int a;\n")
        single = self.root / "single.hpp"
        script = [sys.executable, ROOT / "single_include" / "amalgamate.py", "--include",
                  self.include, "--single", single]
        statuses = []
        for arguments in (["--check"], [], ["--check"]):
            statuses.append(subprocess.run(script + arguments, capture_output=True).returncode)
        self.header("tandem.hpp", "int b;\n")
        statuses.append(subprocess.run(script + ["--check"], capture_output=True).returncode)
        self.assertEqual([1, 0, 0, 1], statuses)


class CompileFail(Tree):
    GOOD = "#ifdef TANDEM_COMPILE_FAIL\nstatic_assert(false, \"Cut: write a number\");\n#endif\n"

    def status(self, text, *options, others=()):
        sources = []
        for i, content in enumerate([text, *others]):
            sources.append(self.root / f"source_{i}.cpp")
            sources[-1].write_text(content + "int main() { return 0; }\n")
        script = [sys.executable, HERE / "compile_fail.py", *options, os.environ.get("CXX", "c++"), "--", *sources]
        self.done = subprocess.run(script, capture_output=True, text=True)
        return self.done.returncode

    def test_the_expected_sentence(self):
        self.assertEqual(0, self.status("// expect-error: Cut: write a number\n" + self.GOOD))

    def test_quotes_in_the_sentence(self):
        text = self.GOOD.replace("a number", 'a \\"number\\"')
        self.assertEqual(0, self.status('// expect-error: Cut: write a "number"\n' + text))

    def test_another_sentence(self):
        self.assertEqual(1, self.status("// expect-error: Cut: write a type\n" + self.GOOD))

    def test_not_the_first_error(self):
        other = "#ifdef TANDEM_COMPILE_FAIL\nint x = nothing;\n#endif\n"
        self.assertEqual(1, self.status("// expect-error: Cut: write a number\n" + other + self.GOOD))

    def test_not_the_only_error(self):
        other = "#ifdef TANDEM_COMPILE_FAIL\nint x = nothing;\n#endif\n"
        for line, status in (("error", 0), ("only-error", 1)):
            self.assertEqual(status, self.status(f"// expect-{line}: Cut: write a number\n" + self.GOOD + other))
        self.assertEqual(0, self.status("// expect-only-error: Cut: write a number\n" + self.GOOD))

    def test_no_error(self):
        self.assertEqual(1, self.status("// expect-error: Cut: write a number\n"))

    def test_never_compiles(self):
        self.assertEqual(1, self.status("// expect-error: Cut: write a number\nint x = nothing;\n"
                                        + self.GOOD))

    def test_only_the_misuse(self):
        text = "// expect-error: Cut: write a number\n" + self.GOOD
        needs_misuse = "#ifndef TANDEM_COMPILE_FAIL\nint x = nothing;\n#endif\n"
        self.assertEqual(1, self.status(text + needs_misuse))
        self.assertEqual(0, self.status(text + needs_misuse, "--misuse-only"))
        self.assertEqual(1, self.status(text.replace("a number", "a type", 1), "--misuse-only"))

    def test_in_turns(self):
        good = "// expect-error: Cut: write a number\n" + self.GOOD
        bad = good.replace("a number", "a type", 1)
        statuses = [self.status(good, "--share", f"{i}/2", others=(bad, good)) for i in (0, 1)]
        self.assertEqual([0, 1], statuses)

    def test_no_expectation(self):
        self.assertEqual(1, self.status(self.GOOD))

    def test_many_sources_share_what_they_include(self):
        text = "// expect-error: Cut: write a number\n#include <vector>\nstd::vector<int> v;\n" + self.GOOD
        self.assertEqual(0, self.status(text, "--jobs", "2", others=[text] * 5))

    def test_one_of_many(self):
        text = "// expect-error: Cut: write a number\n#include <vector>\n" + self.GOOD
        for fault in (text.replace("a number", "a type", 1), text.replace("false", "true"),
                      text + "#ifndef TANDEM_COMPILE_FAIL\nint x = nothing;\n#endif\n"):
            self.assertEqual(1, self.status(text, "--jobs", "2", others=[text] * 3 + [fault] + [text]))
            self.assertIn("source_4.cpp", self.done.stderr)
            self.assertNotIn("source_3.cpp:", self.done.stderr)

    def test_an_include_of_the_misuse_alone(self):
        text = "// expect-error: Cut: write a number\n#include <vector>\n" + self.GOOD
        unknown = "#ifndef TANDEM_COMPILE_FAIL\n#include <no_such_header>\n#endif\n"
        self.assertEqual(1, self.status(text, others=[text] * 5 + [text + unknown]))
        self.assertEqual(0, self.status(text, "--misuse-only", others=[text] * 5 + [text + unknown]))


class DocumentedCode(Tree):
    GOOD = "#include <vector>\nint main() { return 0; }\n"

    def status(self, *programs):
        page = self.root / "page.md"
        page.write_text("".join(f"```cpp\n{program}```\n" for program in programs), encoding="utf-8")
        script = [sys.executable, HERE / "documented_code.py", "cpp", self.root, page, "--",
                  os.environ.get("CXX", "c++"), "-std=c++20"]
        self.done = subprocess.run(script, capture_output=True, text=True)
        return self.done.returncode

    def test_names_may_meet(self):
        self.assertEqual(0, self.status("struct Net {};\n" + self.GOOD, "struct Net {};\n" + self.GOOD))
        self.assertIn("2 documented programs", self.done.stdout)

    def test_one_that_adds_to_the_library_leaves_the_others_together(self):
        calls = self.root / "calls"
        compiler = self.root / "compiler"
        compiler.write_text(f'#!/bin/sh\necho >>{calls}\nexec {os.environ.get("CXX", "c++")} "$@"\n', encoding="utf-8")
        compiler.chmod(0o755)
        (self.root / "vector.hpp").write_text("#pragma once\nnamespace tandem { struct Layer {}; }\n", encoding="utf-8")
        adds = "#include <vector.hpp>\nnamespace tandem {\nLayer layer;\n}\nnamespace td = tandem;\nint main() {}\n"
        with unittest.mock.patch.dict(os.environ, {"CXX": str(compiler)}):
            self.assertEqual(0, self.status(self.GOOD, adds, self.GOOD), self.done)
        self.assertEqual(2, len(calls.read_text().splitlines()))

    def test_one_of_many(self):
        self.assertEqual(1, self.status(self.GOOD, self.GOOD.replace("0", "wrong")))
        self.assertIn("return wrong", self.done.stdout)

    def test_without_a_program(self):
        self.assertEqual(1, self.status("int x = 0;\n"))

    def test_without_an_argument(self):
        reads = "int main(int argc, char** argv) %s { return %s[0] == 'x'; } %s\n"
        handler = "catch (int) { return 1; }"
        self.assertEqual(0, self.status(reads % ("try", "(argc > 1 ? argv[1] : argv[0])", handler)))
        for wrong in [("try", "argv[argc - 1]", handler), ("", "(argc > 1 ? argv[1] : argv[0])", "")]:
            self.assertEqual(1, self.status(reads % wrong))
            self.assertIn("aborts without an argument", self.done.stdout)


class CheckOutput(unittest.TestCase):
    def test_lines_in_order(self):
        lines = ["a 1", "b", "c 22"]
        self.assertIsNone(check_output.first_unmatched([r"a \d", r"c \d+"], lines))
        self.assertEqual(r"a \d", check_output.first_unmatched(["b", r"a \d"], lines))
        self.assertEqual("c", check_output.first_unmatched(["c"], lines))


class Headers(unittest.TestCase):
    """What the reference reads of headers."""

    def of(self, text):
        return {entity.name: entity for entity in headers.read(HEAD + "namespace tandem {\n" + text + "}\n").entities}

    def test_members_of_a_specialisation_belong_to_the_template_with_the_comment(self):
        found = self.of("""
/// Trains. The primary template is the error path.
template <class T>
struct Trainer {
  static_assert(false);
};
template <class T>
  requires(sizeof(T) > 1)
struct Trainer<T> {
  /// Begins. @throws nothing
  explicit Trainer(Options options = {}) : a_{options.a}, b_{make(1, {2})} { begin("}"); }
  /// One step.
  template <class D>
  int step(D const& data) requires(sizeof(D) > 0) {
    return 1;
  }
  int step() { return 2; }

 private:
  /// Nobody's business.
  int a_ = 1;
};
""")
        self.assertEqual(list(found), ["Trainer"])
        members = [member.signature for member in found["Trainer"].members]
        self.assertEqual(members, ["explicit Trainer(Options options = {});",
                                   "template <class D>\nint step(D const& data) requires(sizeof(D) > 0);\nint step();"])
        self.assertEqual(headers.understood(found["Trainer"].doc).text, ["Trains."])

    def test_fields_of_an_aggregate_are_shown_and_details_are_not(self):
        found = self.of("""
namespace detail {
/// Hidden.
struct Hidden {};
}  // namespace detail
/// Settings.
struct Settings {
  int batch = 128;  ///< global
  /// In steps.
  double rate{0.1};
  static constexpr int many = 3;
};
/// What has a name.
template <class T>
concept Named = requires(T const& t) {
  { t.name() };
};
""")
        self.assertEqual(list(found), ["Settings", "Named"])
        self.assertEqual(found["Settings"].fields, ["int batch = 128;  // global", "/// In steps.", "double rate{0.1};"])
        self.assertTrue(found["Named"].signature.endswith("{ t.name() };\n};"), found["Named"].signature)

    def test_a_comment_has_text_code_and_facts(self):
        comment = headers.understood(["y = x.", "", "Shapes: x (B, C);", "        y (B).", "@throws Fault  it is", "        wrong",
                                      "", "  run(x);", "More", "of it."])
        self.assertEqual(comment.text, ["y = x.", ["  run(x);"], "More of it."])
        self.assertEqual(comment.items, [("Shapes", "", "x (B, C); y (B)."), ("Throws", "Fault", "it is wrong")])


class OneDefinition(Tree):
    def faults(self, first, second):
        for path, text in {"support/a.hpp": first, "unit/train/b.hpp": second}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(f"namespace t {{\n{text}\n}}  // namespace t\n", encoding="utf-8")
        return one_definition.check(self.root)

    def test_two_types_of_one_name(self):
        faults = self.faults("struct A {", "class A : B {")
        self.assertEqual(len(faults), 1, faults)
        self.assertRegex(faults[0], "b.hpp:2: t::A is defined in .*a.hpp:2 too")

    def test_declarations_and_parts(self):
        for other in ("struct A;", "struct A::B {", "template <>\nstruct A<int> {", "}  // namespace t\nnamespace u {\nstruct A {"):
            self.assertEqual(self.faults("struct A {", other), [], other)


class UniqueNames(Tree):
    def faults(self, first, second, where="detail"):
        self.header("core/a.hpp", f"namespace tandem::detail {{\n{first}\n}}  // namespace tandem::detail\n")
        self.header("io/b.hpp", f"namespace tandem {{\nnamespace {where} {{\n{second}\n}}\n}}\n")
        return unique_names.check(self.include)[1]

    def test_two_meanings_of_one_name(self):
        for text in ("struct A {};", "template <class T>\n  requires (sizeof(T) < 4)\nclass A final : B<T> {};", "enum class A : int { a };",
                     "template <class T>\nconcept A = B<T, 3> || T::c;", "inline constexpr int A = 3;", "using A = int;",
                     "inline constexpr C<int> A{1, 2};", "inline constexpr int A[2] = {1, 2};",
                     "template <class T>\nconstexpr bool A = false;", "inline int A(int x, B y = {}) { return x; }",
                     "template <class T>\n[[nodiscard]] auto A(T const& x) -> int { return 1; }"):
            faults = self.faults(text, re.sub(r"\bx\b", "y", text).replace(" { return", " noexcept { return"))
            self.assertEqual(len(faults), 1, text)
            self.assertRegex(faults[0], r"b\.hpp:5: tandem::detail::A is defined in .*a\.hpp:4, too")
        self.assertEqual(len(self.faults("struct A {};", "inline int A() { return 1; }")), 1)

    def test_what_is_none(self):
        for first, second in (("struct A {};", "struct A;"), ("struct A {};", "template <>\nstruct A<int> {};"),
                              ("struct A {};", "struct B { struct A {}; };"), ("struct A {};", "// struct A {};"),
                              ("int A(int x) { return 1; }", "int A(double x) { return 1; }"),
                              ("int A() { return 1; }", "int A();"), ("struct A {};", "int B::A() { return 1; }"),
                              ("template <class T>\nconstexpr int A = 1;", "template <>\ninline constexpr int A<int> = 2;")):
            self.assertEqual(self.faults(first, second), [], second)
        self.assertEqual(self.faults("struct A {};", "struct A {};", "other"), [])


class SiteLinks(Tree):
    def faults(self, page):
        (self.root / "other.html").write_text('<h2 id="here"></h2>', encoding="utf-8")
        (self.root / "page.html").write_text(page, encoding="utf-8")
        return list(site.faults_of(self.root))

    def test_good_links(self):
        self.assertEqual(self.faults('<a href="other.html#here">a</a><a href="https://x.org">b</a><a href=".">c</a>'),
                         ["page.html: there is no ."])

    def test_bad_links(self):
        faults = self.faults('<a href="none.html">a</a><a href="other.html#there">b</a><img src="https://x.org/a.png">')
        self.assertEqual(len(faults), 3, faults)


if __name__ == "__main__":
    unittest.main()

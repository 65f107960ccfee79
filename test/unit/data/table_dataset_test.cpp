// SPDX-License-Identifier: Apache-2.0
// Datasets of arrays and tables in files: NpyDataset and CsvDataset.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/csv_dataset.hpp>
#include <tandem/data/npy_dataset.hpp>

#include "data_files.hpp"
#include "gzip_support.hpp"

namespace table_dataset_test {

using doctest::Contains;
using support::Bytes;
using support::TemporaryFolder;
using tandem::CsvDataset;
using tandem::CsvOptions;
using tandem::FileError;
using tandem::NpyDataset;
using tandem::NpyHeader;
using tandem::NpyType;
using tandem::parse_npy;
using tandem::Shape;

static_assert(tandem::ClassifiedDataset<NpyDataset<>> && tandem::ClassifiedDataset<CsvDataset<>>);
static_assert(tandem::Dataset<NpyDataset<float>> && !tandem::ClassifiedDataset<NpyDataset<float>>);
static_assert(tandem::Dataset<CsvDataset<float>> && !tandem::ClassifiedDataset<CsvDataset<float>>);

/// A file as numpy.save writes it, in @p version.
template <class E>
Bytes npy(std::string const& dictionary, std::vector<E> const& elements, std::uint8_t version = 1) {
  std::string const text = dictionary + "\n";
  Bytes bytes{0x93, 'N', 'U', 'M', 'P', 'Y', version, 0, static_cast<std::uint8_t>(text.size()), 0};
  if (version > 1) {
    bytes.insert(bytes.end(), 2, 0);
  }
  bytes.insert(bytes.end(), text.begin(), text.end());
  auto const* const raw = reinterpret_cast<std::uint8_t const*>(elements.data());
  bytes.insert(bytes.end(), raw, raw + elements.size() * sizeof(E));
  return bytes;
}

template <class E>
Bytes npy_of(char const* type, std::string const& shape, std::vector<E> const& elements) {
  return npy(
      std::string{"{'descr': '"} + type + "', 'fortran_order': False, 'shape': " + shape + ", }",
      elements);
}

template <class D>
struct Sample {
  std::vector<float> x;
  std::vector<typename D::Target> y;

  bool operator==(Sample const&) const = default;
};

template <class D>
Sample<D> sample(D const& data, std::int64_t index) {
  Sample<D> read{std::vector<float>(static_cast<std::size_t>(data.shape().elements())),
                 std::vector<typename D::Target>(static_cast<std::size_t>(data.targets()))};
  data.read(index, read.x, read.y);
  return read;
}

TEST_CASE("parse_npy reads the header of every version, its keys in any order") {
  std::vector<float> const six(6);
  for (std::uint8_t version = 1; version <= 3; ++version) {
    Bytes const bytes =
        npy("{ \"shape\":(2,3 ,) , 'descr':'<f4','fortran_order':False}   ", six, version);
    NpyHeader const header = parse_npy(bytes, "f");
    CHECK(header.type == NpyType::f4);
    CHECK(header.rank == 2);
    CHECK(header.extent[0] == 2);
    CHECK(header.extent[1] == 3);
    CHECK(header.elements == 6);
    CHECK(header.bytes + 24 == bytes.size());
  }
  CHECK(parse_npy(npy_of("<f8", "()", std::vector<double>(1)), "f").rank == 0);
  NpyHeader const old = parse_npy(npy_of("<f4", "(2L, 3L)", six), "f");  // Python 2 on Windows
  CHECK(old.rank == 2);
  CHECK(old.extent[1] == 3);
}

TEST_CASE("parse_npy refuses what is no file, another type or order, or another size") {
  auto const refused = [](Bytes const& bytes, std::string const& sentence) {
    CHECK_THROWS_WITH_AS(static_cast<void>(parse_npy(bytes, "f")),
                         Contains(("'f': " + sentence).c_str()), FileError);
  };
  std::vector<float> const six(6);
  Bytes const good = npy_of("<f4", "(6,)", six);
  refused({'P', 'K', 3, 4}, "this is no .npy file, by its first bytes");
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes const cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(i));
    refused(cut, "the .npy file is truncated");
  }
  refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", six),
          "the .npy file is too long: expected ");
  refused(npy("", six, 4), "the .npy file is of version 4, expected 1, 2 or 3");
  refused(npy_of(">f4", "(6,)", six),
          "the elements of the .npy file are >f4; expected |u1, |b1, <i4");
  refused(npy_of("<f2", "(6,)", six),
          "the elements of the .npy file are <f2; expected |u1, |b1, <i4");
  refused(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", six),
          "the elements of the .npy file are several fields");
  refused(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (6,)}", six),
          "the .npy file is in Fortran's order; save numpy.ascontiguousarray(array)");
  for (char const* const shape :
       {"(0, 6)", "(-1,)", "(1, 1, 1, 1, 1, 6)", "(4294967296, 4294967296)", "(6,,)",
        "(99999999999999999999999,)", "(a,)", "(L,)"}) {
    refused(npy_of("<f4", shape, six), "the shape of the .npy file is empty, larger");
  }
  for (char const* const dictionary :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4', }", "{'descr: <f4}",
        "{'descr' '<f4'}", "{'more': 1}", "{'fortran_order': 0}", "{'shape': (6, 6}",
        "{'shape': (6 6)}", "{'shape': 6}", "{'descr': '<f4' 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} and more"}) {
    CAPTURE(dictionary);
    refused(npy(dictionary, six), "the header of the .npy file ");
  }
}

TEST_CASE("NpyDataset reads every type, labels and numbers") {
  TemporaryFolder const folder;
  std::string const labels =
      folder.write("y.npy", npy_of("<i8", "(2,)", std::vector<std::int64_t>{4, -1}));
  auto const check = [&](Bytes const& x) {
    NpyDataset const data{folder.write("x.npy", x), labels};
    static_assert(std::is_same_v<decltype(data), NpyDataset<std::int32_t> const>);
    CHECK(data.size() == 2);
    CHECK(data.shape() == tandem::vector_shape(3));
    CHECK(data.targets() == 1);
    CHECK(data.classes() == 5);
    CHECK(sample(data, 0) == Sample<NpyDataset<>>{{1, 2, 3}, {4}});
    CHECK(sample(data, 1) == Sample<NpyDataset<>>{{7, 8, 9}, {-1}});
  };
  check(npy_of("|u1", "(2, 3)", std::vector<std::uint8_t>{1, 2, 3, 7, 8, 9}));
  NpyDataset const bools{
      folder.write("b.npy", npy_of("|b1", "(2, 2)", std::vector<std::uint8_t>{0, 1, 1, 0})),
      folder.write("by.npy", npy_of("|b1", "(2,)", std::vector<std::uint8_t>{1, 0}))};
  CHECK(bools.classes() == 2);
  CHECK(sample(bools, 0) == Sample<NpyDataset<>>{{0, 1}, {1}});
  check(npy_of("<i4", "(2, 3)", std::vector<std::int32_t>{1, 2, 3, 7, 8, 9}));
  check(npy_of("<i8", "(2, 3)", std::vector<std::int64_t>{1, 2, 3, 7, 8, 9}));
  check(npy_of("<f4", "(2, 3)", std::vector<float>{1, 2, 3, 7, 8, 9}));
  check(npy_of("<f8", "(2, 3)", std::vector<double>{1, 2, 3, 7, 8, 9}));
}

TEST_CASE("NpyDataset has the file's shape, or another of as many elements") {
  TemporaryFolder const folder;
  std::string const y =
      folder.write("y.npy", npy_of("<f8", "(2, 3)", std::vector<double>{1, 2, 3, 4, 5, 6.5}));
  std::string const x =
      folder.write("x.npy", npy_of("|u1", "(2, 1, 2, 2)", Bytes{0, 255, 51, 0, 1, 2, 3, 4}));
  NpyDataset<float> const data{x, y};
  CHECK(data.shape() == tandem::image_shape(1, 2, 2));
  CHECK(data.targets() == 3);
  CHECK(sample(data, 1) == Sample<NpyDataset<float>>{{1, 2, 3, 4}, {4, 5, 6.5F}});
  NpyDataset<float> const flat{x, y, {.shape = tandem::vector_shape(4), .scale = 1.0F / 255}};
  CHECK(flat.shape() == tandem::vector_shape(4));
  CHECK(sample(flat, 0).x[1] == doctest::Approx(1));
  CHECK(sample(flat, 0).x[2] == doctest::Approx(0.2));
  CHECK_THROWS_WITH_AS((NpyDataset<float>{x, y, {.shape = tandem::vector_shape(5)}}),
                       Contains("NpyOptions: shape must have as many elements"),
                       tandem::ContractError);
  NpyDataset<float> const one{
      folder.write("1.npy", npy_of("<f4", "(2,)", std::vector<float>{3, 4})), y};
  CHECK(sample(one, 1).x == std::vector<float>{4});
}

TEST_CASE("NpyDataset refuses files that do not fit each other, and labels that are none") {
  TemporaryFolder const folder;
  std::string const x = folder.write("x.npy", npy_of("|u1", "(2, 2)", Bytes{0, 1, 2, 3}));
  auto const refused = [&](Bytes const& y, char const* sentence) {
    CHECK_THROWS_WITH_AS((NpyDataset{x, folder.write("y.npy", y)}), Contains(sentence), FileError);
  };
  refused(npy_of("|u1", "(3,)", Bytes{0, 1, 2}), "y.npy': expected targets of 2 samples, one for");
  refused(npy_of("<f4", "(2,)", std::vector<float>{0, 1}), "labels are whole numbers, but these");
  refused(npy_of("<i8", "(2,)", std::vector<std::int64_t>{0, std::int64_t{1} << 33}),
          "expected labels from 0, or -1 for none, found 8589934592 at place 1");
  refused(npy_of("<i4", "(2,)", std::vector<std::int32_t>{-100, 0}), "found -100 at place 0");
  refused(npy_of("|u1", "()", Bytes{0}), "y.npy': the .npy file holds one number");
  refused({}, "y.npy': the .npy file is truncated");
  CHECK_THROWS_WITH_AS((NpyDataset{folder.path() + "/none", x}), Contains("there is no such file"),
                       FileError);
}

Bytes text(std::string_view what) { return {what.begin(), what.end()}; }

TEST_CASE("CsvDataset reads numbers and labels by the name or the number of their column") {
  TemporaryFolder const folder;
  std::string const path =
      folder.write("f.csv", text("\xEF\xBB\xBF"
                                 "a, b ,\"the, label\"\r\n 1 ,+2.5,0\r\n\"-3\",4e-1,2\n\n"));
  CsvDataset const data{path};
  static_assert(std::is_same_v<decltype(data), CsvDataset<std::int32_t> const>);
  CHECK(data.size() == 2);
  CHECK(data.shape() == tandem::vector_shape(2));
  CHECK(data.classes() == 3);
  CHECK(data.class_names().empty());
  CHECK(sample(data, 0) == Sample<CsvDataset<>>{{1, 2.5F}, {0}});
  CHECK(sample(data, 1) == Sample<CsvDataset<>>{{-3, 0.4F}, {2}});
  CsvDataset<float> const b{path, {.label = "b"}};
  CHECK(sample(b, 1) == Sample<CsvDataset<float>>{{-3, 2}, {0.4F}});
  CHECK(sample(CsvDataset{path, {.label = "the, label"}}, 1) == sample(data, 1));
  CsvDataset<float> const first{folder.write("g.csv", text("1;2\n3;4")),
                                {.label_column = 0, .header = false, .separator = ';'}};
  CHECK(sample(first, 1) == Sample<CsvDataset<float>>{{4}, {3}});
}

TEST_CASE("CsvDataset reads lines that end in CR, and says what UTF-16 and empty files are") {
  TemporaryFolder const folder;
  for (std::string_view const end : {"\n", "\r\n", "\r", "\r\r\n"}) {
    std::string table;
    for (char const* const line : {"a,y", "1,0", "\"2\",1"}) {
      table += line + std::string{end};
    }
    CsvDataset const data{folder.write("f.csv", text(table))};
    CHECK(data.size() == 2);
    CHECK(sample(data, 1) == Sample<CsvDataset<>>{{2}, {1}});
  }
  for (std::string_view const table :
       {std::string_view{"\xFF\xFE"
                         "a\0",
                         4},
        std::string_view{"\xFE\xFF\0a", 4}, std::string_view{"a\0,\0", 4}}) {
    CHECK_THROWS_WITH_AS((CsvDataset{folder.write("f.csv", text(table))}),
                         Contains("f.csv': the text is UTF-16; save it as UTF-8"), FileError);
  }
  for (std::string_view const table : {"", "\n\n"}) {
    CHECK_THROWS_WITH_AS((CsvDataset{folder.write("f.csv", text(table))}),
                         Contains("f.csv': the file is empty"), FileError);
  }
}

TEST_CASE("CsvDataset maps a file, however large, and reads pipes and what is gzipped") {
  TemporaryFolder const folder;
  std::string const large = folder.write("large.csv", text("a,y\nno,1\n"));
  std::filesystem::resize_file(large, std::uintmax_t{3} << 30);  // a hole, of which nothing is read
  CHECK_THROWS_WITH_AS(CsvDataset{large}, Contains("line 2, column 1 (a): 'no' is no number"),
                       FileError);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "a,y\n1,0\n", 8) == 8);
  static_cast<void>(::close(ends[1]));
  CHECK(CsvDataset{"/dev/fd/" + std::to_string(ends[0])}.size() == 1);
  static_cast<void>(::close(ends[0]));
#if defined(TANDEM_ZLIB) && TANDEM_ZLIB
  CsvDataset const data{folder.write("packed.csv", support::gzip(text("a,y\n1,0\n2,1\n")))};
  CHECK(data.size() == 2);
  CHECK(sample(data, 1) == Sample<CsvDataset<>>{{2}, {1}});
#else
  CHECK_THROWS_WITH_AS(CsvDataset{folder.write("packed.csv", {0x1F, 0x8B, 8, 0})},
                       Contains("compiled without zlib"), FileError);
#endif
}

TEST_CASE("CsvDataset takes numbers below the smallest float for 0") {
  TemporaryFolder const folder;
  std::string const tiny[] = {"1e-50",
                              "-2.5E-400",
                              "+0.001e-45",
                              "1e-99999999999",
                              "0." + std::string(400, '0') + "1",
                              "1" + std::string(100, '0') + "e-160"};
  std::string table = "x,y\n1e-40,0.5\n";
  for (std::string const& cell : tiny) {
    table += cell + "," + cell + "\n";
  }
  CsvDataset<float> const data{folder.write("f.csv", {table.begin(), table.end()})};
  CHECK(sample(data, 0) == Sample<CsvDataset<float>>{{1e-40F}, {0.5F}});
  for (std::int64_t i = 1; i < data.size(); ++i) {
    CHECK(sample(data, i) == Sample<CsvDataset<float>>{{0}, {0}});
  }
  for (std::string const& large :
       {std::string{"1e39"}, std::string{"-1e99999999999"}, "1" + std::string(400, '0'),
        std::string{"0.001e99"}, "1" + std::string(100, '0') + "e-60"}) {
    std::string const text = "x,y\n" + large + ",0\n";
    CHECK_THROWS_WITH_AS((CsvDataset{folder.write("f.csv", {text.begin(), text.end()})}),
                         Contains("is outside of what the numbers can hold"), FileError);
  }
}

TEST_CASE("CsvDataset makes labels of words, in their sorted order") {
  TemporaryFolder const folder;
  CsvDataset const data{
      folder.write("f.csv",
                   text("x,species\n1,virginica\n2,\"iris \"\"setosa\"\"\nor so\"\n3,virginica\n")),
      {.label = "species", .class_names = true}};
  CHECK(data.classes() == 2);
  CHECK(data.class_names() == std::vector<std::string>{"iris \"setosa\"\nor so", "virginica"});
  CHECK(sample(data, 0).y[0] == 1);
  CHECK(sample(data, 1).y[0] == 0);
  CHECK(sample(data, 2) == Sample<CsvDataset<>>{{3}, {1}});
}

TEST_CASE("CsvDataset takes the classes of another file, so that both have the same labels") {
  TemporaryFolder const folder;
  CsvDataset const train{folder.write("train.csv", text("x,y\n1,dog\n2,bird\n3,cat\n")),
                         {.class_names = true}};
  CHECK(train.class_names() == std::vector<std::string>{"bird", "cat", "dog"});
  CsvOptions const options{.class_names = true, .classes = train.class_names()};
  CsvDataset const test{folder.write("test.csv", text("x,y\n1,dog\n2,cat\n")), options};
  CHECK(test.class_names() == train.class_names());
  CHECK(test.classes() == 3);
  CHECK(sample(test, 0).y[0] == 2);
  CHECK(sample(test, 1).y[0] == 1);
  CHECK_THROWS_WITH_AS((CsvDataset{folder.write("new.csv", text("x,y\n1,dog\n2,fish\n")), options}),
                       Contains("line 3, column 2 (y): 'fish' is no class of CsvOptions::classes"),
                       FileError);
  CHECK_THROWS_WITH_AS((CsvDataset<float>{"f", {.classes = {"a", "b"}}}),
                       Contains("CsvOptions: class_names and classes are of labels"),
                       tandem::ContractError);
}

TEST_CASE("CsvDataset names the line and the column of what is wrong") {
  TemporaryFolder const folder;
  auto const refused = [&](std::string_view table, char const* sentence,
                           CsvOptions const& options = {}) {
    CHECK_THROWS_WITH_AS((CsvDataset{folder.write("f.csv", text(table)), options}),
                         Contains((std::string{"f.csv': "} + sentence).c_str()), FileError);
  };
  refused("a,y\n1,0\nno,1\n", "line 3, column 1 (a): 'no' is no number");
  refused("a,y\n1,0\n\"2\n\",1\n3x,1", "line 3, column 1 (a): '2\\x0A' is no number");
  refused("a,y\n\"1\",0\n3 4,1", "line 3, column 1 (a): '3 4' is no number");
  refused("a,y\n,1\n", "line 2, column 1 (a): the cell is empty; fill it, or leave the line out");
  refused("a,y\nnan,1\n", "line 2, column 1 (a): 'nan' is not finite");
  refused("a,y\n1e-99x,1\n", "line 2, column 1 (a): '1e-99x' is no number");
  refused("a,y\n1e99,1\n", "line 2, column 1 (a): '1e99' is outside of what the numbers can hold");
  refused("a,y\n1,cat\n",
          "line 2, column 2 (y): 'cat' is no label, a whole number from 0; of words");
  refused("a,y\n1,1.5\n", "line 2, column 2 (y): '1.5' is no label");
  refused("a,y\n1,-2\n", "line 2, column 2 (y): '-2' is no label");
  refused("a,y\n1,\n", "line 2, column 2 (y): the cell is empty", {.class_names = true});
  refused("1,0\n2,x\n", "line 2, column 2: 'x' is no label", {.header = false});
  refused("a,y\n1,0,3\n", "line 2 has 3 cells, but the first line 2");
  refused("a,y\n1\n", "line 2 has 1 cells, but the first line 2");
  refused("a,y\n1,0\n\n2,0\n", "line 3 is blank; take it out");
  refused("a,y\n\"1,0\n", "line 2: a quote has no end");
  refused("a,y\n1,\"0\"0\n", "line 2, column 2: something stands behind the quotes of the cell");
  refused("a;y\n1;0\n",
          "the table has one column, expected a target and at least one number; is ','");
  refused("a,y\n", "the table has no lines but that of the names");
  refused("1,0", "the table has no lines but that of the names");
  refused("a,y\n1,0\n", "there is no column 'z'; the first line has a, y", {.label = "z"});
  refused("1,0\n", "there is no column 'z'; the first line has no names",
          {.label = "z", .header = false});
  refused("a,y\n1,0\n", "there is no column of number 2, CsvOptions::label_column; the table has 2",
          {.label_column = 2});
  CHECK_THROWS_WITH_AS((CsvDataset<float>{"f", {.class_names = true}}),
                       Contains("CsvOptions: class_names and classes are of labels"),
                       tandem::ContractError);
}

}  // namespace table_dataset_test

// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/core/utf8.hpp>
#include <tandem/data/text/markup.hpp>

namespace markup_test {

using tandem::strip_markup;

TEST_CASE("strip_markup leaves the words of a verse") {
  CHECK(strip_markup("In the <w lemma=\"strong:H7225\">beginning</w> God <w>created</w>. ") ==
        "In the beginning God created.");
  CHECK(strip_markup("").empty());
  CHECK(strip_markup(" \n\t ").empty());
  CHECK(strip_markup("<chapter n=\"1\" osisID=\"Gen.1\" sID=\"Gen.1\"/> ").empty());
  CHECK(strip_markup("a<lb/>b") == "ab");  // the module has the blanks
}

TEST_CASE("strip_markup drops notes and titles, also within each other") {
  CHECK(strip_markup("light<note n=\"a\">Heb. <hi>x</hi></note>.") == "light.");
  CHECK(strip_markup("<title>The First Book<note>of Moses</note></title>In the") == "In the");
  CHECK(strip_markup("a<note>b<note>c</note>d</note>e") == "ae");
  CHECK(strip_markup("a<note n=\"1\"/>b<title/>c") == "abc");
  CHECK(strip_markup("a<note>not closed") == "a");
  CHECK(strip_markup("a</note>b</title><note>c</note>d") == "abd");
  CHECK(strip_markup("a<notes>b</notes><titles>c</titles>") == "abc");
}

TEST_CASE("strip_markup takes a '>' in an attribute for what it is") {
  CHECK(strip_markup("a<w n=\"x>y\">b</w>") == "ab");
  CHECK(strip_markup("a<w n='x>\"y'>b</w>") == "ab");
  CHECK(strip_markup("a<w n=\"x>bc") == "abc");  // no second quote: the tag ends at '>'
  CHECK(strip_markup("God's <w>son's</w>") == "God's son's");
}

TEST_CASE("strip_markup ends a tag that is not closed with the text") {
  CHECK(strip_markup("in his God.  <d") == "in his God.");
  CHECK(strip_markup("<").empty());
  CHECK(strip_markup("a <w lemma=\"") == "a");
}

TEST_CASE("strip_markup replaces entities that XML has") {
  CHECK(strip_markup("&lt;a&gt; &amp; &quot;b&quot; &apos;") == "<a> & \"b\" '");
  CHECK(strip_markup("&#8212;&#x2014;&#X41;") == "\xE2\x80\x94\xE2\x80\x94&#X41;");
  for (std::string const text : {"&", "&;", "&amp", "&nbsp;", "&#;", "&#x;", "&#-1;", "&#0;",
                                 "&#xD800;", "&#1114112;", "&#99999999;", "& b; c", "&#65"}) {
    CHECK(strip_markup(text) == text);
  }
  CHECK(strip_markup("&amp;lt;") == "&lt;");
  CHECK(strip_markup("a&#10;&#32;b") == "a b");
}

TEST_CASE("strip_markup drops paragraph signs and joins blanks") {
  CHECK(strip_markup("\xC2\xB6 And God\r\n\t said\v,\f Let") == "And God said , Let");
  CHECK(strip_markup("a \xC2\xB6 b") == "a b");
  CHECK(strip_markup("a\xC2\xA0 b") == "a\xC2\xA0 b");  // no other blank is one
}

TEST_CASE("strip_markup keeps the characters of UTF-8 whole") {
  CHECK(strip_markup("<w>\xC3\x86neas</w> \xE2\x80\x94 \xF0\x9F\x99\x82") ==
        "\xC3\x86neas \xE2\x80\x94 \xF0\x9F\x99\x82");
  CHECK(tandem::detail::is_utf8(strip_markup("\xC3\x86<note>\xC3\x86</note>&#xE6;")));
}

}  // namespace markup_test

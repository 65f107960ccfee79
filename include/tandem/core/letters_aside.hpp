// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sets a program's macros aside, until letters_back.hpp, that have names of ours: those of one
/// capital letter, as -DN=1024 and <complex.h>'s I; and what Windows (small, near, far, min, max),
/// macOS (check, verify), glibc (major, minor), X11, Qt, R, Arduino and programs' logs define.
///
/// A third of the headers have such letters: T is an element's type, N a number of ranks. The first
/// include of each door, and no other's. No #pragma once, since every door does it. No header that
/// the library includes defines one of these, which would be lost behind the door.
///
/// Between both, g++ does not warn of a text before a std::string, "a" + std::string{}, which it
/// takes for memory that overlaps where it optimises (GCC's bug 105651).

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wrestrict"
#endif

#pragma push_macro("A")
#pragma push_macro("B")
#pragma push_macro("C")
#pragma push_macro("D")
#pragma push_macro("E")
#pragma push_macro("F")
#pragma push_macro("G")
#pragma push_macro("H")
#pragma push_macro("I")
#pragma push_macro("J")
#pragma push_macro("K")
#pragma push_macro("L")
#pragma push_macro("M")
#pragma push_macro("N")
#pragma push_macro("O")
#pragma push_macro("P")
#pragma push_macro("Q")
#pragma push_macro("R")
#pragma push_macro("S")
#pragma push_macro("T")
#pragma push_macro("U")
#pragma push_macro("V")
#pragma push_macro("W")
#pragma push_macro("X")
#pragma push_macro("Y")
#pragma push_macro("Z")
#pragma push_macro("Always")
#pragma push_macro("BOOL")
#pragma push_macro("Status")
#pragma push_macro("abs")
#pragma push_macro("bit")
#pragma push_macro("check")
#pragma push_macro("debug")
#pragma push_macro("emit")
#pragma push_macro("error")
#pragma push_macro("far")
#pragma push_macro("index")
#pragma push_macro("info")
#pragma push_macro("length")
#pragma push_macro("log")
#pragma push_macro("major")
#pragma push_macro("max")
#pragma push_macro("min")
#pragma push_macro("minor")
#pragma push_macro("near")
#pragma push_macro("round")
#pragma push_macro("slots")
#pragma push_macro("small")
#pragma push_macro("trace")
#pragma push_macro("verify")

#undef A
#undef B
#undef C
#undef D
#undef E
#undef F
#undef G
#undef H
#undef I
#undef J
#undef K
#undef L
#undef M
#undef N
#undef O
#undef P
#undef Q
#undef R
#undef S
#undef T
#undef U
#undef V
#undef W
#undef X
#undef Y
#undef Z
#undef Always
#undef BOOL
#undef Status
#undef abs
#undef bit
#undef check
#undef debug
#undef emit
#undef error
#undef far
#undef index
#undef info
#undef length
#undef log
#undef major
#undef max
#undef min
#undef minor
#undef near
#undef round
#undef slots
#undef small
#undef trace
#undef verify

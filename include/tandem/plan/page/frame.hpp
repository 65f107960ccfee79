// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What stands around the contents of a search's page: its style and its script.
///
/// The script has neither `<` nor `&`, so that the whole page is XML, too; what is chosen stands in
/// the address, so that a reload keeps it. Without a script all rows are there, as the search sorts
/// them.

namespace tandem::detail {

inline constexpr char const* page_head = R"page(<!DOCTYPE html>
<html lang="en" xmlns="http://www.w3.org/1999/xhtml">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width"/>
<title>)page";

inline constexpr char const* page_style = R"page(</title>
<style>
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #6c6c70; --line: #dcdce0; --paper: #ffffff;
  --box: #f4f4f7; --bar: #c9dcf5; --full: #c0392b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ededf0; --soft: #a0a0a6; --line: #3a3a3d; --paper: #1a1a1c; --box: #26262a; --bar: #2f4a6d; --full: #e57368; }
}
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; }
h2 { font-size: 1.1rem; margin: 0; }
section { margin-top: 2rem; }
section p { margin: .2rem 0 .6rem; color: var(--soft); }
p.found { font-size: 1.1rem; margin: .3rem 0; }
pre { background: var(--box); padding: .7rem .9rem; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere;
  font-size: 12.5px; }
svg text { fill: var(--soft); font-size: 12px; }
#time, #memory, #steps { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
.wide svg text { fill: #111111; }
.grid { stroke: var(--line); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.point { stroke-width: 2; }
.cross { stroke: var(--ink); stroke-dasharray: 4 4; }
.crossover text { fill: var(--ink); font-weight: 600; }
.f0 { --family: #6c6c70; } .f1 { --family: #0a6ed1; } .f2 { --family: #00838f; } .f3 { --family: #d1510a; }
.f4 { --family: #9333ea; } .f5 { --family: #1a8f4c; } .f6 { --family: #c2185b; } .f7 { --family: #8a6d00; }
.f8 { --family: #4f46e5; } .f9 { --family: #0f766e; } .f10 { --family: #b45309; } .f11 { --family: #7c3f58; }
.line { stroke: var(--family); } .point { fill: var(--family); stroke: var(--family); } .key { fill: var(--family); }
.point.guess { fill: var(--paper); }
.bar { fill: var(--bar); } .bar.full { fill: var(--full); } .limit { stroke: var(--ink); stroke-dasharray: 4 4; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th { text-align: right; cursor: pointer; border-bottom: 2px solid var(--line); padding: .3rem .6rem; white-space: nowrap;
  position: sticky; top: 0; background: var(--paper); user-select: none; }
th:nth-child(n+8), td.words { text-align: left; }
th[aria-sort]::after { content: " \25B4"; } th[aria-sort="descending"]::after { content: " \25BE"; }
td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
td.words { white-space: normal; overflow-wrap: anywhere; min-width: 11rem; }
td.words:nth-child(8) { min-width: 22rem; font-size: 12px; }
td.gb { background: linear-gradient(to right, var(--bar) var(--share), transparent var(--share)) no-repeat; }
tr.refused { color: var(--soft); }
tbody tr:hover { background: var(--box); }
.choices label { margin-right: 1.2rem; }
</style>
</head>
<body>
)page";

inline constexpr char const* page_end = R"page(<script>
"use strict";
const byId = id => document.getElementById(id);
const table = byId("plans"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
const state = Object.assign({devices: byId("devices").value, column: 1, down: false, refused: true},
  (() => { try { return JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { return {}; } })());

const valueOf = row => {
  const value = row.cells[state.column].dataset.value;
  return value === undefined ? null : isNaN(value) ? value : Number(value);
};

// What has no value stays last, whichever way round; equal ones stay as the search has them.
function order(one, other) {
  const a = valueOf(one), b = valueOf(other);
  if (a === b) return rows.indexOf(one) - rows.indexOf(other);
  if (a === null || b === null) return a === null ? 1 : -1;
  return (a > b) === state.down ? -1 : 1;
}

function show() {
  let shown = 0;
  for (const row of [...rows].sort(order)) {
    const asked = state.devices === "all" || row.dataset.devices === state.devices;
    row.hidden = !asked || !(state.refused || row.className !== "refused");
    shown += row.hidden ? 0 : 1;
    body.append(row);
  }
  heads.forEach((head, column) => {
    if (column === state.column) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  byId("devices").value = state.devices;
  byId("refused").checked = state.refused;
  byId("shown").textContent = shown + " of " + rows.length + " plans";
  history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(state)));
}

heads.forEach((head, column) => {
  const sort = () => {
    state.down = column === state.column ? !state.down : false;
    state.column = column;
    show();
  };
  head.onclick = sort;
  head.onkeydown = event => { if (event.key === "Enter") sort(); };
});
byId("devices").onchange = event => { state.devices = event.target.value; show(); };
byId("refused").onchange = event => { state.refused = event.target.checked; show(); };
show();
</script>
</body>
</html>
)page";

}  // namespace tandem::detail

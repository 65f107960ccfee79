// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The page that curves writes: what stands before and behind the runs' lines. It asks for nothing
/// from anywhere; state (axis, smoothing, hidden runs) is in the address, so that a reload keeps
/// it.

inline constexpr char const* page_before = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Training curves</title>
<style>
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #8a8a8e; --line: #d8d8dc; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --soft: #98989d; --line: #3a3a3c; --paper: #1c1c1e; }
}
body { margin: 1.5rem; background: var(--paper); color: var(--ink); font: 14px/1.4 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center; margin-bottom: 1rem; }
h1 { font-size: 1.2rem; margin: 0; }
h2 { font-size: .95rem; margin: 0 0 .25rem; font-weight: 600; }
main { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 11px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .run { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
svg .raw { opacity: .25; }
label { cursor: pointer; white-space: nowrap; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em; }
#tip { position: fixed; pointer-events: none; background: var(--ink); color: var(--paper); padding: .2rem .5rem;
  border-radius: 4px; font-size: 12px; display: none; white-space: pre; }
</style>
</head>
<body>
<header><h1>Training curves</h1>
<label>over <select id="axis"><option value="step">steps</option><option value="seconds">seconds</option></select></label>
<label>smoothing <input id="smooth" type="range" min="0" max="0.99" step="0.01" value="0"></label>
<label><input id="log" type="checkbox"> logarithmic loss</label>
<span id="runs"></span></header>
<main id="charts"></main>
<div id="tip"></div>
<script>
const runs = [
)page";

inline constexpr char const* page_after =
    R"page(const colours = ["#0a6ed1", "#d1510a", "#1a8f4c", "#9333ea", "#c2185b", "#8a6d00", "#00838f", "#6d4c41"];
const byId = id => document.getElementById(id);
const state = Object.assign({axis: "step", smooth: 0, log: false, hidden: []},
  (() => { try { return JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { return {}; } })());
// What else a line has are metrics, each under its own name.
const known = ["kind", "step", "epoch", "samples", "loss", "learning_rate", "gradient_norm", "seconds", "rate"];
const metrics = [...new Set(runs.flatMap(run => run.lines.flatMap(Object.keys)))]
  .filter(key => !known.includes(key)).map(key => ({name: key, of: l => l[key]}));
const charts = [
  {name: "Loss", of: l => l.loss, loss: true},
  ...metrics,
  {name: "Learning rate", of: l => l.learning_rate, steps: true},
  {name: "Gradient norm", of: l => l.gradient_norm || null, steps: true},
  {name: "Samples a second", of: l => l.rate, steps: true},
];

// Samples trained on since the line before, over the seconds since then.
for (const run of runs) {
  let before = null;
  for (const line of run.lines) {
    if (line.kind !== "step") continue;
    if (before && line.seconds > before.seconds) {
      const samples = line.epoch === before.epoch ? line.samples - before.samples : line.samples;
      line.rate = samples / (line.seconds - before.seconds);
    }
    before = line;
  }
}

const element = (name, attributes, parent, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
};
const shown = v => v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3 ? v.toExponential(2)
  : String(+v.toPrecision(4));

function ticks(low, high, logarithmic) {
  if (logarithmic) {
    const list = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p)
      for (const m of [1, 2, 5]) if (m * 10 ** p >= low && m * 10 ** p <= high) list.push(m * 10 ** p);
    return list;
  }
  const raw = (high - low) / 6 || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw);
  const list = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) list.push(+v.toPrecision(12));
  return list;
}

// An exponential mean that begins without a bias towards 0.
function smoothed(points, by) {
  let mean = 0, weight = 0;
  return points.map(([x, y]) => {
    mean = by * mean + (1 - by) * y;
    weight = by * weight + (1 - by);
    return [x, mean / weight];
  });
}

function draw(chart) {
  const series = [];
  runs.forEach((run, r) => {
    if (state.hidden.includes(run.name)) return;
    for (const kind of chart.steps ? ["step"] : ["step", "evaluation"]) {
      const points = run.lines.filter(l => l.kind === kind && Number.isFinite(chart.of(l)) &&
        !(chart.loss && state.log && chart.of(l) <= 0)).map(l => [l[state.axis], chart.of(l)]);
      if (points.length) series.push({run: run.name, kind, points, colour: colours[r % colours.length]});
    }
  });
  if (!series.length) return;
  const box = document.createElement("section");
  box.append(Object.assign(document.createElement("h2"), {textContent: chart.name}));
  const W = 560, H = 300, left = 58, right = 10, top = 8, bottom = 26;
  const logarithmic = chart.loss && state.log;
  const all = series.flatMap(s => s.points);
  let [x0, x1] = all.reduce(([a, b], p) => [Math.min(a, p[0]), Math.max(b, p[0])], [Infinity, -Infinity]);
  let [y0, y1] = all.reduce(([a, b], p) => [Math.min(a, p[1]), Math.max(b, p[1])], [Infinity, -Infinity]);
  if (x0 === x1) x1 = x0 + 1;
  if (y0 === y1) { y1 += Math.abs(y1) * .05 || 1; y0 -= logarithmic ? y0 * .05 : Math.abs(y0) * .05; }
  const f = logarithmic ? Math.log : v => v;
  const X = x => left + (x - x0) / (x1 - x0) * (W - left - right);
  const Y = y => H - bottom - (f(y) - f(y0)) / (f(y1) - f(y0)) * (H - top - bottom);
  const svg = element("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": chart.name});
  for (const v of ticks(y0, y1, logarithmic)) {
    element("line", {class: "grid", x1: left, x2: W - right, y1: Y(v), y2: Y(v)}, svg);
    element("text", {x: left - 6, y: Y(v) + 4, "text-anchor": "end"}, svg, shown(v));
  }
  for (const v of ticks(x0, x1))
    element("text", {x: X(v), y: H - 8, "text-anchor": "middle"}, svg, shown(v));
  const path = points => points.map(([x, y], i) => (i ? "L" : "M") + X(x).toFixed(1) + " " + Y(y).toFixed(1)).join("");
  for (const s of series) {
    const steps = s.kind === "step";
    if (steps && state.smooth > 0)
      element("path", {class: "run raw", stroke: s.colour, d: path(s.points)}, svg);
    element("path", {class: "run", stroke: s.colour, "stroke-dasharray": steps ? "" : "5 4",
      d: path(steps ? smoothed(s.points, +state.smooth) : s.points)}, svg);
    if (!steps) for (const [x, y] of s.points) element("circle", {cx: X(x), cy: Y(y), r: 3, fill: s.colour}, svg);
  }
  svg.addEventListener("mousemove", event => {
    const at = svg.getBoundingClientRect();
    const x = x0 + ((event.clientX - at.left) * W / at.width - left) / (W - left - right) * (x1 - x0);
    const lines = series.map(s => {
      const near = s.points.reduce((a, p) => Math.abs(p[0] - x) < Math.abs(a[0] - x) ? p : a);
      return `${s.run}, ${s.kind} at ${shown(near[0])}: ${shown(near[1])}`;
    });
    Object.assign(byId("tip").style, {display: "block", left: event.clientX + 14 + "px", top: event.clientY + 14 + "px"});
    byId("tip").textContent = lines.join("\n");
  });
  svg.addEventListener("mouseleave", () => byId("tip").style.display = "none");
  box.append(svg);
  byId("charts").append(box);
}

function drawAll() {
  byId("charts").replaceChildren();
  charts.forEach(draw);
  history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(state)));
}

byId("axis").value = state.axis;
byId("smooth").value = state.smooth;
byId("log").checked = state.log;
byId("axis").onchange = e => { state.axis = e.target.value; drawAll(); };
byId("smooth").oninput = e => { state.smooth = +e.target.value; drawAll(); };
byId("log").onchange = e => { state.log = e.target.checked; drawAll(); };
runs.forEach((run, r) => {
  const label = document.createElement("label");
  const box = Object.assign(document.createElement("input"), {type: "checkbox", checked: !state.hidden.includes(run.name)});
  box.onchange = () => {
    state.hidden = box.checked ? state.hidden.filter(n => n !== run.name) : [...state.hidden, run.name];
    drawAll();
  };
  const swatch = Object.assign(document.createElement("span"), {className: "swatch"});
  swatch.style.background = colours[r % colours.length];
  label.append(box, swatch, run.name);
  byId("runs").append(label);
});
drawAll();
if (reload > 0) setTimeout(() => location.reload(), 1000 * reload);
</script>
</body>
</html>
)page";

// Curves: risk against coverage, and overall accuracy against cost.

const SVG = "http://www.w3.org/2000/svg";
const draw = (name, attributes, css = "") => {
  const one = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) one.setAttribute(key, value);
  if (css) one.setAttribute("class", css);
  return one;
};
const label = (x, y, text, anchor = "middle") => {
  const one = draw("text", { x, y, "text-anchor": anchor });
  one.textContent = text;
  return one;
};
const circle = (x, y, r, css) => draw("circle", { cx: x, cy: y, r }, css);
const diamond = (x, y, r, css) => draw("path", { d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z` }, css);
const marker = (name, x, y, r, css) =>
  name === "raw" ? circle(x, y, r, `${css} ${name}`) : diamond(x, y, r * 1.25, `${css} ${name}`);
const line = (places) => places.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function nice(most) {
  if (!(most > 0)) return { most: 1, step: 0.25 };
  const raw = most / 4, unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 2.5, 5, 10].find((one) => unit * one >= raw * 0.999);
  return { most: step * Math.ceil(most / step - 1e-9), step };
}

// Every threshold at one budget as a chart sees it, where it has both values.
function curve(name, budget, { x, y }) {
  const group = subset(), surface = group.surfaces[name], places = [];
  const row = Math.min(budget, surface.cost.length / (surface.thresholds.length + 1) - 1);
  for (let place = 0; place < surface.thresholds.length; place++) {
    const one = ratios(point(group, surface, row, place));
    if (one[y] !== null) places.push([one[x], one[y]]);
  }
  return places;
}

// The highest cost and accuracy of any threshold at any budget: an axis may not jump as a slider moves.
const reaches = new WeakMap();
function reach(group) {
  if (reaches.has(group)) return reaches.get(group);
  const most = [0, 0];
  for (const name of shownNames()) {
    const { committed, correct, unlabelled, cost } = group.surfaces[name];
    for (let at = 0; at < cost.length; at++) {
      most[0] = Math.max(most[0], cost[at] / group.n);
      if (committed[at] > unlabelled[at]) most[1] = Math.max(most[1], correct[at] / (group.n - unlabelled[at]));
    }
  }
  reaches.set(group, most);
  return most;
}

// A line without the points that stand in one place to the eye.
function thinned(places) {
  let [x, y] = [NaN, NaN];
  return places.filter((one, at) => {
    const kept = !(Math.abs(one[0] - x) + Math.abs(one[1] - y) < 0.3) || at === places.length - 1;
    if (kept) [x, y] = one;
    return kept;
  });
}

const hundredfold = (value) => plain(100 * value);

const CHARTS = {
  risk: {
    x: "coverage", y: "selective_risk", right: 74, xs: hundredfold,
    names: ["coverage, %", "wrong among answered, %"],
  },
  cost: {
    x: "mean_cost", y: "overall_accuracy", right: 20, xs: brief,
    names: ["mean cost", "overall accuracy, %"],
  },
};

// What does not move with a threshold: axes, whole frontiers and baselines.
function drawChart(id) {
  const chart = CHARTS[id], svg = $(id);
  const figure = svg.parentElement;
  const width = Math.max(260, figure.clientWidth - 2 * parseFloat(getComputedStyle(figure).paddingLeft));
  const height = Math.round(Math.min(340, Math.max(230, width * 0.62)));
  const drawable = (one) => one[chart.y] !== null;
  const curves = shownNames().map((name) => [name, curve(name, view.budget, chart)]);
  const known = Object.entries(subset().baselines).filter(([, one]) => one);
  const bases = known.map(([name, one]) => [name, ratios(one)]).filter(([, one]) => drawable(one));
  const all = bases.map(([, one]) => [one[chart.x], one[chart.y]]);
  if (id === "cost") all.push(reach(subset())); // this chart shows every budget of the gate at once
  const most = (which) => {
    let top = 0;
    for (const places of [all, ...curves.map(([, points]) => points)]) {
      for (const one of places) top = Math.max(top, one[which]);
    }
    return top;
  };
  const xs = id === "risk" ? { most: 1, step: 0.25 } : nice(most(0));
  const ys = nice(most(1));
  ys.most = Math.min(ys.most, Math.max(1, ys.step * Math.ceil(1 / ys.step)));
  const box = { left: 44, right: width - chart.right, top: 24, bottom: height - 40 };
  chart.x_of = (v) => box.left + (v / xs.most) * (box.right - box.left);
  chart.y_of = (v) => box.bottom - (v / ys.most) * (box.bottom - box.top);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const still = draw("g", {});
  for (let v = 0; v <= ys.most * 1.0001; v += ys.step) {
    const y = chart.y_of(v);
    still.append(draw("line", { x1: box.left, x2: box.right, y1: y, y2: y }, v ? "tick" : "axis"));
    still.append(label(box.left - 8, y + 4, hundredfold(v), "end"));
  }
  for (let v = 0; v <= xs.most * 1.0001; v += xs.step) {
    still.append(label(chart.x_of(v), box.bottom + 18, chart.xs(v)));
  }
  still.append(label(box.left - 36, 12, chart.names[1], "start"));
  still.append(label(box.right, height - 4, chart.names[0], "end"));
  const at = ([x, y]) => [chart.x_of(x), chart.y_of(y)];
  const traced = curves.map(([name, points]) => [name, thinned(points.map(at))]).filter(([, places]) => places.length);
  for (const [name, places] of traced) still.append(draw("path", { d: line(places) }, `curve ${name}`));
  if (!traced.length && !bases.length) {
    still.append(label((box.left + box.right) / 2, (box.top + box.bottom) / 2, "no answers with a verdict"));
  }
  const { squares, names } = drawBaselines(id, bases, box, traced.map(([, places]) => places));
  still.append(...squares);
  chart.moving = draw("g", {});
  svg.replaceChildren(still, chart.moving, ...names); // a mark may not hide a name
}

// Whether a drawn line passes through a box.
function crosses(places, { left, right, top, bottom }) {
  const inside = ([x, y]) => x >= left && x <= right && y >= top && y <= bottom;
  return places.some((to, at) => {
    const from = places[Math.max(0, at - 1)];
    const steps = 1 + Math.floor((Math.abs(to[0] - from[0]) + Math.abs(to[1] - from[1])) / 4);
    for (let step = 0; step <= steps; step++) {
      const part = step / steps;
      if (inside([from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part])) return true;
    }
    return false;
  });
}

// Baselines as hollow squares with names that keep apart from each other, and from the curves where there is room.
function drawBaselines(id, bases, box, curves) {
  const chart = CHARTS[id];
  const called = (name) => name.replace("rag@", "RAG@");
  const marks = bases.map(([name, one]) => ({ name: called(name), x: chart.x_of(one[chart.x]), y: chart.y_of(one[chart.y]) }));
  const names = [];
  if (id === "risk") {
    marks.sort((a, b) => a.y - b.y);
    let free = -Infinity;
    for (const mark of marks) free = mark.at = Math.max(mark.y, free + 14);
    let floor = box.bottom + 4;
    for (const mark of [...marks].reverse()) floor = (mark.at = Math.min(mark.at, floor)) - 14;
    for (const { name, x, y, at } of marks) {
      names.push(draw("line", { x1: x + 4, y1: y, x2: x + 13, y2: at }, "thread"), label(x + 16, at + 4, name, "start"));
    }
  } else {
    const taken = [];
    for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
      const wide = 6.4 * mark.name.length + (mark.name.startsWith("RAG") ? 14 : 0);
      const x = Math.min(Math.max(mark.x, box.left + wide / 2), box.right + chart.right - wide / 2);
      const beside = (one) => Math.abs(one.x - x) < (one.wide + wide) / 2 + 4;
      const free = (y) => y < box.bottom - 2 && !taken.some((one) => beside(one) && Math.abs(one.y - y) < 13);
      const highest = x - wide / 2 < box.left + 90 ? box.top + 4 : box.top - 12; // the axis has its name there
      const clear = (y) =>
        !curves.some((one) => crosses(one, { left: x - wide / 2, right: x + wide / 2, top: y - 11, bottom: y + 4 })) &&
        !marks.some((one) => Math.abs(one.x - x) < wide / 2 + 5 && one.y > y - 15 && one.y < y + 8);
      const places = [20, -11, 34, -25, 48, -39].map((shift) => mark.y + shift).filter((y) => y > highest && free(y));
      const y = places.find(clear) ?? places[0] ?? mark.y + 20;
      taken.push({ x, y, wide });
      const [from, to] = y > mark.y ? [mark.y + 4, y - 11] : [mark.y - 4, y + 4];
      if (Math.abs(y - mark.y) > 22) names.push(draw("line", { x1: mark.x, y1: from, x2: x, y2: to }, "thread"));
      names.push(label(x, y, mark.name));
    }
  }
  const squares = marks.map(({ x, y }) => draw("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }, "base"));
  return { squares, names };
}

function moveMarkers(points) {
  const { risk, cost } = CHARTS;
  risk.moving.replaceChildren();
  cost.moving.replaceChildren();
  for (const name of shownNames()) {
    const one = ratios(points[name]);
    const size = view.map === name ? 8 : 6;
    const path = everyDepth().map((budget) => ratios(operatingPoint(subset(), name, view.hi, budget)));
    const places = path.map((step) => [cost.x_of(step.mean_cost), cost.y_of(step.overall_accuracy ?? 0)]);
    cost.moving.append(draw("path", { d: line(places) }, `path ${name}`));
    for (const [x, y] of places) cost.moving.append(marker(name, x, y, 3, "small"));
    cost.moving.append(marker(name, ...places[Math.min(view.budget, places.length - 1)], size, "large"));
    if (one.selective_risk === null) continue;
    risk.moving.append(marker(name, risk.x_of(one.coverage), risk.y_of(one.selective_risk), size, "large"));
  }
}

function showLegend() {
  const lines = { raw: "solid line", calibrated: "dashed line" };
  const keys = shownNames().map((name) =>
    make("span", name, make("span", SHAPES[name]), `${file.names[name]}, ${lines[name]}`));
  const large = `large marks: the gates at hi ${view.hi}, budget ${view.budget}`;
  $("legend").replaceChildren(...keys, make("span", "", "□ without a gate"), make("span", "", large));
}

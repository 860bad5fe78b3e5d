"use strict";
// Python computes, the page looks up. Operating points are read from the exact frontiers in the file; where an episode
// stops follows from comparing ranks. Text of models and data sets reaches the document as text nodes alone.
(async () => {
  const $ = (id) => document.getElementById(id);
  const make = (name, css = "", ...inside) => {
    const one = document.createElement(name);
    if (css) one.className = css;
    one.append(...inside);
    return one;
  };

  // ---------------------------------------------------------------- what the file holds

  const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i1: Int8Array, i4: Int32Array, f8: Float64Array };

  async function inflated(text) {
    const packed = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  async function unpacked(text) {
    const bytes = await inflated(text);
    const size = new DataView(bytes).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, size)));
    header.array = ([kind, start, length]) => new KINDS[kind](bytes, 8 + size + start, length);
    header.rowsOf = (reference) => {
      const found = header.array(reference);
      const width = reference[3];
      for (let at = 1; width && at < found.length; at++) if (at % width) found[at] += found[at - 1];
      return found;
    };
    return header;
  }

  const file = await unpacked(JSON.parse($("data").textContent));

  for (const set of file.sets) {
    set.confidences = file.array(set.confidences);
    for (const score of Object.values(set.scores)) {
      score.thresholds = file.array(score.thresholds);
      score.ranks = file.array(score.ranks);
    }
    for (const subset of [set.everything, ...set.groupings.flatMap((grouping) => grouping.subsets)]) {
      for (const [name, surface] of Object.entries(subset.surfaces)) {
        const { thresholds } = set.scores[name];
        surface.thresholds = Float64Array.from(file.array(surface.places), (place) => thresholds[place]);
        for (const what of ["committed", "correct", "unlabelled", "cost"]) surface[what] = file.rowsOf(surface[what]);
      }
    }
    for (const grouping of set.groupings) if (grouping.places) grouping.places = file.array(grouping.places);
    if (set.rows) {
      for (const [name, reference] of Object.entries(set.rows)) set.rows[name] = reference && file.array(reference);
      let start = 0;
      set.rows.starts = Uint32Array.from(set.rows.lengths, (length) => (start += length) - length);
    }
  }

  // ---------------------------------------------------------------- looking up

  const firstAtLeast = (sorted, value) => {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  };
  const firstAbove = (sorted, value) => {
    const place = firstAtLeast(sorted, value);
    return place + (sorted[place] === value ? 1 : 0);
  };

  const point = (subset, surface, budget, place) => {
    const at = budget * (surface.thresholds.length + 1) + place;
    const { committed, correct, unlabelled, cost } = surface;
    return { n: subset.n, committed: committed[at], correct: correct[at], unlabelled: unlabelled[at], cost: cost[at] };
  };
  const operatingPoint = (subset, name, hi, budget) => {
    const surface = subset.surfaces[name];
    const most = surface.cost.length / (surface.thresholds.length + 1) - 1;
    return point(subset, surface, Math.min(budget, most), firstAtLeast(surface.thresholds, hi));
  };

  const share = (part, whole) => (whole ? part / whole : null);
  const ratios = (one) => ({
    overall_accuracy: share(one.correct, one.n - one.unlabelled),
    committed_accuracy: share(one.correct, one.committed - one.unlabelled),
    selective_risk: share(one.committed - one.unlabelled - one.correct, one.committed - one.unlabelled),
    coverage: share(one.committed, one.n),
    mean_cost: share(one.cost, one.n),
  });

  const [COMMIT, ABSTAIN, ESCALATE] = [0, 2, 3];
  const ACTIONS = { 0: "commits", 2: "abstains", 3: "escalates" };

  // Where each episode stops, and how: the first rank that reaches the threshold's, or the end of budget or trace.
  function walk(set, name, { hi, lo, budget }) {
    const { thresholds, ranks } = set.scores[name];
    const { codes, lengths } = set.rows;
    const width = set.confidences.length + 1;
    const commits = firstAtLeast(thresholds, hi) + 1;
    const abstains = firstAbove(thresholds, lo);
    const depth = new Uint16Array(set.n), action = new Uint8Array(set.n);
    for (let row = 0; row < set.n; row++) {
      const last = Math.min(budget, lengths[row] - 1), start = row * set.depths;
      let at = 0, rank = ranks[codes[start]];
      while (rank < commits && at < last) rank = ranks[++at * width + codes[start + at]];
      depth[row] = at;
      action[row] = rank >= commits ? COMMIT : rank && rank <= abstains ? ABSTAIN : ESCALATE;
    }
    return { depth, action };
  }

  const OUTCOMES = ["right", "wrong", "unknown", "abstained", "escalated"];
  const SIGNS = { right: "✓", wrong: "✗", unknown: "?", abstained: "○", escalated: "↗" };
  const WORDS = { all: "all", unknown: "no verdict", moved: "moved" };
  const word = (name) => WORDS[name] || name;

  function outcomes(set, { depth, action }) {
    const { correct } = set.rows;
    return Uint8Array.from(action, (one, row) => {
      if (one !== COMMIT) return one === ABSTAIN ? 3 : 4;
      const verdict = correct[row * set.depths + depth[row]];
      return verdict === 1 ? 0 : verdict === 0 ? 1 : 2;
    });
  }

  // ---------------------------------------------------------------- the view, and the address that carries it

  const FRESH = { set: 0, map: "raw", hi: 0.7, lo: 0.3, budget: 3, column: -1, value: 0, show: "all", find: "", sort: "", question: -1, theme: "", ...file.start };
  const view = { ...FRESH };
  const set = () => file.sets[view.set];
  const subset = () => (view.column < 0 ? set().everything : set().groupings[view.column].subsets[view.value]);
  const limit = () => Math.max(set().depths - 1, 0);
  const whole = (text) => String(text ?? "").toWellFormed?.() ?? String(text ?? "");

  const valueInAddress = (value, at) => (value !== null && value.length > 200 ? `@${at}` : whole(value));

  function addressed() {
    const query = new URLSearchParams();
    const { groupings, model } = set();
    if (view.set) query.set("model", model ?? "");
    for (const name of ["map", "hi", "lo", "show", "find", "sort", "theme"]) if (view[name] !== FRESH[name]) query.set(name, view[name]);
    if (view.budget !== Math.min(FRESH.budget, limit())) query.set("budget", view.budget);
    if (view.column >= 0) {
      query.set("by", groupings[view.column].column);
      query.set("is", valueInAddress(groupings[view.column].values[view.value], view.value));
    }
    if (view.question >= 0) query.set("question", view.question);
    return `#${query}`;
  }

  function follow(address) {
    const query = new URLSearchParams(address.slice(1));
    Object.assign(view, FRESH);
    const model = query.get("model");
    if (model !== null) view.set = Math.max(0, file.sets.findIndex((one) => whole(one.model) === model));
    const unit = (name) => {
      const value = parseFloat(query.get(name));
      return value >= 0 && value <= 1 ? value : FRESH[name];
    };
    view.hi = unit("hi");
    view.lo = Math.min(query.has("lo") ? unit("lo") : FRESH.lo, view.hi);
    const budget = parseInt(query.get("budget"), 10);
    view.budget = Math.min(budget >= 0 ? budget : FRESH.budget, limit());
    if (query.get("map") === "calibrated" && set().scores.calibrated) view.map = "calibrated";
    const column = set().groupings.findIndex((one) => whole(one.column) === query.get("by"));
    const value = column < 0 ? -1 : set().groupings[column].values.findIndex((one, at) => valueInAddress(one, at) === query.get("is"));
    if (value >= 0) Object.assign(view, { column, value });
    if ([...OUTCOMES, "moved"].includes(query.get("show"))) view.show = query.get("show");
    view.find = query.get("find") ?? "";
    if (SORTS.includes((query.get("sort") ?? "").replace("-", ""))) view.sort = query.get("sort");
    const question = parseInt(query.get("question"), 10);
    if (question >= 0 && question < set().n) view.question = question;
    if (["light", "dark"].includes(query.get("theme"))) view.theme = query.get("theme");
  }

  let writing = 0;
  function remember() {
    clearTimeout(writing); // browsers refuse an address that changes at every step of a slider
    writing = setTimeout(() => history.replaceState(null, "", addressed() === "#" ? location.pathname + location.search : addressed()), 250);
  }

  // ---------------------------------------------------------------- numbers as text

  // As Python formats: a number half way between two goes to the even one.
  function fixed(value, decimals) {
    const [rounded, digits] = [value.toFixed(decimals), value.toFixed(60)];
    const rest = digits.slice(digits.indexOf(".") + 1 + decimals);
    if (!/^50*$/.test(rest)) return rounded;
    const cut = digits.slice(0, digits.indexOf(".") + 1 + decimals);
    return "02468".includes(cut.replace(".", "").at(-1)) ? cut.replace(/\.$/, "") : rounded;
  }
  const percent = (value) => (value === null ? "–" : fixed(100 * value, 1));
  const price = (value) => (value === null ? "–" : value === 0 || Math.abs(value) >= 0.1 ? fixed(value, 2) : String(Number(value.toPrecision(3))));
  const count = (value) => value.toLocaleString("en");
  const exact = (value) => (value === null ? "nothing to divide by" : String(value));
  const plain = (value) => String(Math.round(value * 1e4) / 1e4);
  const clipped = (value, most = 300) => (value.length > most ? `${value.slice(0, most)}…` : value);

  // ---------------------------------------------------------------- the gate's controls

  const NAMES = ["raw", "calibrated"];
  const shownNames = () => NAMES.filter((name) => set().scores[name]);

  function fillControls() {
    const { groupings, depths, scores } = set();
    $("set").replaceChildren(...file.sets.map((one, at) => new Option(clipped(one.model ?? "(no model named)", 120), at)));
    $("set").value = view.set;
    $("set-field").hidden = file.sets.length < 2;
    for (const radio of document.getElementsByName("map")) {
      radio.disabled = !scores[radio.value];
      radio.checked = radio.value === view.map;
    }
    $("map-field").title = scores.calibrated ? "" : "There is no map: neither a calibration split to fit on nor one that was given.";
    $("budget").max = depths - 1;
    $("column").replaceChildren(new Option("everything", -1), ...groupings.map((one, at) => new Option(one.column, at)));
    $("column").value = view.column;
    $("group-field").hidden = !groupings.length;
    const values = view.column < 0 ? [] : groupings[view.column].values;
    $("value").replaceChildren(...values.map((one, at) => new Option(`${clipped(one ?? "(none)", 60)}  ·  ${count(groupings[view.column].subsets[at].n)}`, at)));
    $("value").value = view.value;
    $("value").hidden = view.column < 0;
    const model = file.sets.length > 1 || set().model === null ? "" : `${set().model} · `;
    $("about").textContent = `${model}${count(set().n)} questions × ${depths} ${depths === 1 ? "depth" : "depths"} · split ${file.split} · signal ${set().signal}`;
    $("find").value = view.find;
    document.documentElement.dataset.theme = view.theme;
    $("theme").textContent = `Theme: ${view.theme || "system"}`;
  }

  function showControls() {
    for (const name of ["hi", "lo"]) {
      $(name).value = view[name];
      if (document.activeElement !== $(`${name}-number`)) $(`${name}-number`).value = String(view[name]);
    }
    $("budget").value = view.budget;
    $("budget-value").textContent = view.budget;
    $("alike").textContent = alike();
  }

  // The recorded confidences that the gate on screen commits at, where its map does not depend on depth.
  function alike() {
    if (view.map === "raw") return "";
    const { confidences, scores: { calibrated } } = set();
    const width = confidences.length + 1;
    const commits = firstAtLeast(calibrated.thresholds, view.hi) + 1;
    let first = 0;
    for (let at = 1; at < width && !first; at++) for (let depth = 0; depth < set().depths; depth++) if (calibrated.ranks[depth * width + at] >= commits) first = at;
    return first ? `Commits from a recorded confidence of ${plain(confidences[first - 1])} on.` : "No recorded confidence is mapped so high: this gate never commits.";
  }

  // ---------------------------------------------------------------- operating points

  const SHAPES = { raw: "key", calibrated: "key diamond" };

  function rowOfNumbers(name, css, one) {
    const line = make("tr", css);
    const heading = make("th");
    heading.scope = "row";
    if (SHAPES[name]) heading.append(make("span", SHAPES[name]));
    heading.append(file.names[name] ?? name);
    line.append(heading);
    const found = one && ratios(one);
    for (const [what, text] of [["overall_accuracy", percent], ["committed_accuracy", percent], ["coverage", percent], ["mean_cost", price]]) {
      const cell = make("td", "", found ? text(found[what]) : "–");
      if (found) {
        cell.title = exact(found[what]);
        cell.dataset.value = found[what] === null ? "" : String(found[what]);
      }
      cell.dataset.what = what;
      line.append(cell);
    }
    line.dataset.system = name;
    return line;
  }

  function showNumbers(points) {
    const group = subset();
    const gates = shownNames().map((name) => rowOfNumbers(name, `gate ${name}`, points[name]));
    const baselines = Object.entries(group.baselines).map(([name, one]) => rowOfNumbers(name, "baseline", one));
    $("numbers").tBodies[0].replaceChildren(...gates, ...baselines);
    const which = view.column < 0 ? "" : `${set().groupings[view.column].column}: ${clipped(set().groupings[view.column].values[view.value] ?? "(none)", 60)}, `;
    $("numbers-aside").textContent = `${which}${count(group.n)} questions`;
  }

  function showFlows(counts) {
    $("flows").replaceChildren(...Object.entries(counts.by).map(([name, by]) => {
      const bar = make("div", "bar");
      bar.setAttribute("role", "img");
      bar.setAttribute("aria-label", OUTCOMES.map((one, at) => `${word(one)} ${count(by[at])}`).join(", "));
      OUTCOMES.forEach((one, at) => {
        const part = make("i", `i-${one}`);
        part.style.flex = `${by[at]} 0 0`;
        part.title = `${word(one)}: ${count(by[at])}`;
        if (by[at] > 0.08 * subset().n) part.textContent = count(by[at]);
        bar.append(part);
      });
      return make("div", "flow", make("span", name, name), bar);
    }), make("div", "flow-key", ...OUTCOMES.filter((_, at) => Object.values(counts.by).some((by) => by[at])).map((one) => make("span", "", make("i", `i-${one}`), word(one)))));
  }

  function say(points) {
    const one = (name) => {
      const { overall_accuracy: oa, committed_accuracy: ca, coverage, mean_cost: cost } = ratios(points[name]);
      return `${name}: overall accuracy ${percent(oa)} %, committed accuracy ${percent(ca)} %, coverage ${percent(coverage)} %, cost ${price(cost)}`;
    };
    clearTimeout(say.waiting);
    say.waiting = setTimeout(() => ($("live").textContent = shownNames().map(one).join(". ")), 700);
  }

  // ---------------------------------------------------------------- the two curves

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
  const marker = (name, x, y, r, css) => (name === "raw" ? circle : diamond)(x, y, name === "raw" ? r : r * 1.25, `${css} ${name}`);

  function nice(most) {
    if (!(most > 0)) return { most: 1, step: 0.25 };
    const raw = most / 4, unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * [1, 2, 2.5, 5, 10].find((one) => unit * one >= raw * 0.999);
    return { most: step * Math.ceil(most / step - 1e-9), step };
  }

  const curve = (name, budget) => {
    const group = subset(), surface = group.surfaces[name];
    const row = Math.min(budget, surface.cost.length / (surface.thresholds.length + 1) - 1);
    return Array.from(surface.thresholds, (_, place) => ratios(point(group, surface, row, place)));
  };

  const CHARTS = {
    risk: { x: "coverage", y: "selective_risk", right: 74, names: ["coverage, %", "wrong among answered, %"], xs: (v) => plain(100 * v), ys: (v) => plain(100 * v) },
    cost: { x: "mean_cost", y: "overall_accuracy", right: 20, names: ["mean cost", "overall accuracy, %"], xs: plain, ys: (v) => plain(100 * v) },
  };

  // What does not move with a threshold: axes, whole frontiers and baselines.
  function drawChart(id) {
    const chart = CHARTS[id], svg = $(id);
    const width = Math.max(260, svg.parentElement.clientWidth - 2 * parseFloat(getComputedStyle(svg.parentElement).paddingLeft));
    const height = Math.round(Math.min(340, Math.max(230, width * 0.62)));
    const curves = Object.fromEntries(shownNames().map((name) => [name, curve(name, view.budget).filter((one) => one[chart.y] !== null)]));
    const bases = Object.entries(subset().baselines).filter(([, one]) => one).map(([name, one]) => [name, ratios(one)]).filter(([, one]) => one[chart.y] !== null);
    const steps = id === "risk" ? [] : shownNames().flatMap((name) => [...Array(limit() + 1).keys()].flatMap((budget) => curve(name, budget)));
    const all = [...Object.values(curves).flat(), ...bases.map(([, one]) => one), ...steps];
    const most = (what) => all.reduce((top, one) => Math.max(top, one[what] ?? 0), 0);
    const xs = id === "risk" ? { most: 1, step: 0.25 } : nice(most(chart.x));
    const ys = nice(most(chart.y));
    ys.most = Math.min(ys.most, Math.max(1, ys.step * Math.ceil(1 / ys.step)));
    const box = { left: 44, right: width - chart.right, top: 24, bottom: height - 40 };
    chart.x_of = (v) => box.left + (v / xs.most) * (box.right - box.left);
    chart.y_of = (v) => box.bottom - (v / ys.most) * (box.bottom - box.top);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const still = draw("g", {});
    for (let v = 0; v <= ys.most * 1.0001; v += ys.step) {
      still.append(draw("line", { x1: box.left, x2: box.right, y1: chart.y_of(v), y2: chart.y_of(v) }, v ? "tick" : "axis"));
      still.append(label(box.left - 8, chart.y_of(v) + 4, chart.ys(v), "end"));
    }
    for (let v = 0; v <= xs.most * 1.0001; v += xs.step) still.append(label(chart.x_of(v), box.bottom + 18, chart.xs(v)));
    still.append(label(box.left - 36, 12, chart.names[1], "start"), label(box.right, height - 4, chart.names[0], "end"));
    for (const [name, points] of Object.entries(curves)) {
      const d = points.map((one, at) => `${at ? "L" : "M"}${chart.x_of(one[chart.x]).toFixed(1)} ${chart.y_of(one[chart.y]).toFixed(1)}`).join("");
      if (d) still.append(draw("path", { d }, `curve ${name}`));
    }
    still.append(...drawBaselines(id, bases, box));
    chart.moving = draw("g", {});
    svg.replaceChildren(still, chart.moving);
  }

  // Baselines as hollow squares with names that keep apart from each other.
  function drawBaselines(id, bases, box) {
    const chart = CHARTS[id];
    const marks = bases.map(([name, one]) => ({ name, x: chart.x_of(one[chart.x]), y: chart.y_of(one[chart.y]) }));
    const drawn = [];
    if (id === "risk") {
      marks.sort((a, b) => a.y - b.y);
      let free = -Infinity;
      for (const mark of marks) free = mark.at = Math.max(mark.y, free + 14);
      let floor = box.bottom + 4;
      for (const mark of [...marks].reverse()) floor = (mark.at = Math.min(mark.at, floor)) - 14;
      for (const { name, x, y, at } of marks) drawn.push(draw("line", { x1: x, y1: y, x2: x + 13, y2: at }, "thread"), label(x + 16, at + 4, name, "start"));
    } else {
      const taken = [];
      for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
        const wide = 6.4 * mark.name.length;
        const x = Math.min(Math.max(mark.x, box.left + wide / 2), box.right + chart.right - wide / 2);
        const hits = (y) => taken.some((one) => Math.abs(one.x - x) < (one.wide + wide) / 2 + 4 && Math.abs(one.y - y) < 13);
        const y = [20, -11, 34, -25, 48, -39].map((shift) => mark.y + shift).find((y) => y < box.bottom - 2 && !hits(y)) ?? mark.y + 20;
        taken.push({ x, y, wide });
        drawn.push(label(x, y, mark.name));
      }
    }
    return [...drawn, ...marks.map(({ x, y }) => draw("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }, "base"))];
  }

  function moveMarkers(points) {
    const { risk, cost } = CHARTS;
    risk.moving.replaceChildren();
    cost.moving.replaceChildren();
    for (const name of shownNames()) {
      const one = ratios(points[name]);
      const path = [...Array(limit() + 1).keys()].map((budget) => ratios(operatingPoint(subset(), name, view.hi, budget)));
      const places = path.map((step) => [cost.x_of(step.mean_cost), cost.y_of(step.overall_accuracy ?? 0)]);
      cost.moving.append(draw("path", { d: places.map(([x, y], at) => `${at ? "L" : "M"}${x} ${y}`).join("") }, `path ${name}`));
      for (const [x, y] of places) cost.moving.append(marker(name, x, y, 3, "small"));
      cost.moving.append(marker(name, ...places[Math.min(view.budget, places.length - 1)], view.map === name ? 8 : 6, "large"));
      if (one.selective_risk !== null) risk.moving.append(marker(name, risk.x_of(one.coverage), risk.y_of(one.selective_risk), view.map === name ? 8 : 6, "large"));
    }
  }

  function showLegend() {
    const keys = shownNames().map((name) => make("span", name, make("span", SHAPES[name]), `${file.names[name]}, ${name === "raw" ? "solid" : "dashed"} line`));
    $("legend").replaceChildren(...keys, make("span", "", "□ without a gate"), make("span", "", `large marks: the gates at hi ${view.hi}, budget ${view.budget}`));
  }

  // ---------------------------------------------------------------- questions: which, in what order

  const SORTS = ["id", "question", "answer", "depth", "outcome", "moved"];
  const text = (place) => (place ? file.texts[place - 1] : null);

  // Rows that stand in the file. Another source gives the same from a server.
  const local = {
    stops: {}, counts: null, order: new Uint32Array(0),

    walked() {
      this.stops = {};
      for (const name of shownNames()) {
        const stop = walk(set(), name, view);
        this.stops[name] = { ...stop, outcome: outcomes(set(), stop) };
      }
      const { raw, calibrated } = this.stops;
      const among = view.column < 0 ? null : set().groupings[view.column].places;
      const by = Object.fromEntries(shownNames().map((name) => [name, [0, 0, 0, 0, 0]]));
      let moved = 0;
      this.moved = new Uint8Array(set().n);
      for (let row = 0; row < set().n; row++) {
        if (calibrated && (raw.action[row] !== calibrated.action[row] || raw.depth[row] !== calibrated.depth[row])) this.moved[row] = 1;
        if (among && among[row] !== view.value) continue;
        for (const name in by) by[name][this.stops[name].outcome[row]]++;
        moved += this.moved[row];
      }
      this.counts = { by, moved };
    },

    haystack() {
      const one = set();
      if (!one.haystack) {
        const { ids, questions, answers, starts, lengths } = one.rows;
        one.haystack = Array.from(ids, (id, row) => {
          const parts = [text(id), text(questions[row])];
          for (let at = starts[row]; at < starts[row] + lengths[row]; at++) parts.push(text(answers[at]));
          return parts.join("\n").toLowerCase();
        });
      }
      return one.haystack;
    },

    sift() {
      const { outcome } = this.stops[view.map];
      const among = view.column < 0 ? null : set().groupings[view.column].places;
      const wanted = view.show === "all" ? -1 : OUTCOMES.indexOf(view.show);
      const needle = view.find.trim().toLowerCase();
      const hay = needle ? this.haystack() : null;
      const found = [];
      for (let row = 0; row < set().n; row++) {
        if (among && among[row] !== view.value) continue;
        if (view.show === "moved" ? !this.moved[row] : wanted >= 0 && outcome[row] !== wanted) continue;
        if (hay && !hay[row].includes(needle)) continue;
        found.push(row);
      }
      this.order = this.sorted(found);
    },

    sorted(rows) {
      const by = view.sort.replace("-", ""), turn = view.sort.startsWith("-") ? -1 : 1;
      if (!by) return rows;
      const { depth, outcome } = this.stops[view.map];
      const keys = { depth: (row) => depth[row], outcome: (row) => outcome[row], moved: (row) => -this.moved[row] };
      keys.id = (row) => text(set().rows.ids[row]);
      keys.question = (row) => text(set().rows.questions[row]) ?? "";
      keys.answer = (row) => this.answer(row) ?? "";
      const key = new Map(rows.map((row) => [row, keys[by](row)]));
      return rows.sort((a, b) => {
        const [x, y] = [key.get(a), key.get(b)];
        return x < y ? -turn : x > y ? turn : a - b;
      });
    },

    answer(row) {
      const { depth, action } = this.stops[view.map];
      return action[row] === COMMIT ? text(set().rows.answers[set().rows.starts[row] + depth[row]]) : null;
    },

    get total() { return this.order.length; },

    update(what, then) {
      if (what === "walks") this.walked();
      this.sift();
      then();
    },

    placeOf(row) { return this.order.indexOf(row); },

    row(place) {
      const row = this.order[place];
      const { depth, outcome } = this.stops[view.map];
      const { ids, questions } = set().rows;
      return { row, id: text(ids[row]), question: text(questions[row]), answer: this.answer(row), depth: depth[row], outcome: OUTCOMES[outcome[row]], moved: this.moved[row] };
    },

    async question(row) {
      const { ids, datasets, questions, answers, starts, lengths, codes, correct, copied, evidence } = set().rows;
      const states = [];
      for (let depth = 0; depth < lengths[row]; depth++) {
        const at = row * set().depths + depth;
        const calibrated = set().scores.calibrated;
        const rank = calibrated && calibrated.ranks[depth * (set().confidences.length + 1) + codes[at]];
        states.push({
          answer: text(answers[starts[row] + depth]),
          raw: codes[at] ? set().confidences[codes[at] - 1] : null,
          calibrated: rank ? calibrated.thresholds[rank - 1] : null,
          correct: correct[at],
          copied: Boolean(copied[at]),
        });
      }
      const about = set().groupings.map((one) => [one.column, one.values[one.places[row]]]);
      const dataset = text(datasets[row]);
      if (dataset !== null && !about.some(([name]) => name === "dataset")) about.unshift(["dataset", dataset]);
      const stops = Object.fromEntries(shownNames().map((name) => [name, { depth: this.stops[name].depth[row], action: this.stops[name].action[row] }]));
      return { id: text(ids[row]), question: text(questions[row]), about, states, stops, evidence: evidence && evidence[row] ? await this.evidence(evidence[row] - 1) : null };
    },

    async evidence(place) {
      this.chunks ??= JSON.parse($("evidence").textContent);
      const chunk = this.chunks[Math.floor(place / 64)];
      return JSON.parse(new TextDecoder().decode(await inflated(chunk)))[place % 64];
    },
  };

  // Rows that a server gives, in chunks: the same answers, from a replay in Python.
  const SLICE = 200;
  const remote = {
    total: 0, counts: null, key: "", chunks: new Map(), asked: 0,

    query(more) {
      const { set: at, map, hi, lo, budget, column, value, show, find, sort } = view;
      return new URLSearchParams({ set: at, map, hi, lo, budget, column, value, show, find: whole(find), sort, ...more });
    },

    async fetched(path, query) {
      const reply = await fetch(`${path}?${query}`);
      const found = await reply.json();
      if (!reply.ok) throw new Error(found.error ?? reply.statusText);
      return found;
    },

    update(what, then) {
      clearTimeout(this.asked);
      $("grid").setAttribute("aria-busy", "true");
      this.asked = setTimeout(async () => {
        const key = String(this.query({}));
        const first = Math.floor(this.place() / SLICE);
        const found = await this.slice(first);
        if (!found || key !== String(this.query({}))) return; // the gate has moved on, and asks for itself
        this.chunks = new Map([[first, found.rows]]);
        Object.assign(this, { key, total: found.total, counts: found.counts });
        $("trouble").hidden = true;
        $("grid").setAttribute("aria-busy", "false");
        then();
      }, this.counts ? 90 : 0);
    },

    place() { return Math.floor(($("body").scrollTop * scale().factor) / rowHeight()); },

    async slice(chunk) {
      try {
        return await this.fetched("rows", this.query({ from: chunk * SLICE, most: SLICE }));
      } catch (error) {
        complain(`The server gives no rows: ${error.message}. Is gatewise explore still running?`);
        return null;
      }
    },

    want(first, last) {
      clearTimeout(this.wanted);
      const missing = [];
      for (let chunk = Math.floor(first / SLICE); chunk <= Math.floor((last - 1) / SLICE); chunk++) if (!this.chunks.has(chunk)) missing.push(chunk);
      if (!missing.length) return;
      this.wanted = setTimeout(async () => {
        const { key } = this;
        for (const chunk of missing) {
          const found = await this.slice(chunk);
          if (!found || key !== this.key) return;
          if (this.chunks.size > 50) this.chunks.clear();
          this.chunks.set(chunk, found.rows);
        }
        paintRows();
      }, 60);
    },

    row(place) {
      const found = this.chunks.get(Math.floor(place / SLICE))?.[place % SLICE];
      if (!found) return null;
      const [row, id, question, answer, depth, outcome, moved] = found;
      return { row, id, question, answer, depth, outcome, moved };
    },

    placeOf(row) {
      if (this.row(active)?.row === row) return active;
      for (const [chunk, rows] of this.chunks) {
        const at = rows.findIndex(([one]) => one === row);
        if (at >= 0) return chunk * SLICE + at;
      }
      return -1;
    },

    async question(row) { return this.fetched("question", this.query({ row })); },
  };

  const source = file.served ? remote : local;

  function complain(words) {
    $("trouble").textContent = words;
    $("trouble").hidden = false;
  }

  // ---------------------------------------------------------------- questions: the table

  const COLUMNS = [["id", "Id"], ["question", "Question"], ["answer", "Answer"], ["depth", "Depth"], ["outcome", "Outcome"], ["moved", "Moved"]];
  const TALLEST = 8e6; // pixels: browsers cannot scroll much further, so longer tables scroll in proportion
  let active = 0;

  function buildHead() {
    $("head").replaceChildren(...COLUMNS.map(([name, title]) => {
      const button = make("button", "", title);
      button.type = "button";
      button.addEventListener("click", () => {
        view.sort = view.sort === name ? `-${name}` : view.sort === `-${name}` ? "" : name;
        changed("rows");
      });
      const cell = make("div", name, button);
      cell.setAttribute("role", "columnheader");
      cell.dataset.name = name;
      return cell;
    }));
  }

  const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
  const scale = () => {
    const full = source.total * rowHeight(), tall = Math.min(full, TALLEST), seen = $("body").clientHeight;
    return { full, tall, seen, factor: tall > seen ? (full - seen) / (tall - seen) : 1 };
  };

  function cellOf(name, value, css = "") {
    const cell = make("div", `${name} ${css}`, value);
    cell.setAttribute("role", "gridcell");
    cell.dir = "auto";
    return cell;
  }

  function lineOf(place, height, top) {
    const one = source.row(place);
    const line = make("div", place === active ? "active" : "");
    line.id = `row-${place}`;
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", place + 2);
    line.setAttribute("aria-selected", place === active);
    line.style.transform = `translateY(${top}px)`;
    line.dataset.place = place;
    if (!one) {
      line.append(cellOf("question", "…", "none"));
      return line;
    }
    line.dataset.row = one.row;
    const asked = one.question === null ? cellOf("question", "(no question text)", "none") : cellOf("question", clipped(one.question));
    const said = one.answer === null ? cellOf("answer", "–", "none") : cellOf("answer", clipped(one.answer));
    line.append(
      cellOf("id", clipped(one.id)), asked, said, cellOf("depth", String(one.depth)),
      cellOf("outcome", `${SIGNS[one.outcome]} ${word(one.outcome)}`, `o-${one.outcome}`), cellOf("moved", one.moved ? "moved" : ""),
    );
    return line;
  }

  const PRINTED = 200; // rows of the table on paper
  let printing = false;

  function paintRows() {
    const { full, tall, seen, factor } = scale(), height = rowHeight();
    const rows = $("rows");
    rows.style.height = `${tall}px`;
    if (!source.total) {
      rows.replaceChildren(make("p", "", "No question meets this search and filter."));
      return;
    }
    const offset = $("body").scrollTop * factor;
    const shift = $("body").scrollTop - offset;
    const first = printing ? 0 : Math.max(0, Math.floor(offset / height) - 4);
    const last = printing ? Math.min(PRINTED, source.total) : Math.min(source.total, Math.ceil((offset + seen) / height) + 4);
    if (source.want && source.total) source.want(first, last);
    const lines = [];
    for (let place = first; place < last; place++) lines.push(lineOf(place, height, place * height + shift));
    rows.replaceChildren(...lines);
    if (active < source.total) $("grid").setAttribute("aria-activedescendant", `row-${active}`);
  }

  function showTable() {
    $("grid").setAttribute("aria-rowcount", source.total + 1);
    const [total, all] = [count(source.total), count(subset().n)];
    const first = printing && source.total > PRINTED ? `the first ${PRINTED} of ` : "";
    $("shown").textContent = first + (source.total === subset().n ? total : `${total} of ${all}`);
    for (const cell of $("head").children) {
      const by = view.sort.replace("-", "") === cell.dataset.name;
      cell.setAttribute("aria-sort", by ? (view.sort.startsWith("-") ? "descending" : "ascending") : "none");
    }
    active = Math.min(active, Math.max(0, source.total - 1));
    paintRows();
  }

  function showChips() {
    const { by, moved } = source.counts;
    const counts = { all: subset().n, ...Object.fromEntries(OUTCOMES.map((one, at) => [one, by[view.map][at]])), moved };
    if (!counts.unknown && view.show !== "unknown") delete counts.unknown;
    if (!set().scores.calibrated) delete counts.moved;
    const had = document.activeElement?.dataset?.show;
    $("chips").replaceChildren(...Object.entries(counts).map(([name, size]) => {
      const chip = make("button", "", make("span", `sign o-${name}`, SIGNS[name] ? `${SIGNS[name]} ` : ""), `${word(name)} `, make("small", "", count(size)));
      chip.type = "button";
      chip.dataset.show = name;
      chip.dataset.count = size;
      chip.setAttribute("aria-pressed", view.show === name);
      if (name === "moved") chip.title = "Stops elsewhere, or otherwise, under the calibrated gate than under the raw one";
      return chip;
    }));
    if (had) $("chips").querySelector(`[data-show="${had}"]`)?.focus();
  }

  function reveal(place) {
    active = Math.max(0, Math.min(place, source.total - 1));
    const { seen, factor } = scale(), height = rowHeight(), body = $("body");
    const top = active * height, offset = body.scrollTop * factor;
    if (top < offset) body.scrollTop = top / factor;
    else if (top + height > offset + seen) body.scrollTop = (top + height - seen) / factor + (factor > 1 ? 1 : 0);
    paintRows();
  }

  // ---------------------------------------------------------------- one question

  function gateAt(name, depth, stop, state, last) {
    const line = make("p", name, make("b", "", name), " ");
    const score = name === "raw" ? state.raw : state.calibrated;
    const value = score === null ? "no confidence" : plain(score);
    let said;
    if (depth > stop.depth) {
      said = "not reached";
      line.classList.add("past");
    } else if (depth < stop.depth) {
      said = score === null ? "no confidence: goes on" : `${value} < ${plain(view.hi)}: goes on`;
    } else {
      line.classList.add("stop");
      const why = depth === last ? "no more evidence" : "budget spent";
      said = {
        [COMMIT]: `commits here: ${value} ≥ ${plain(view.hi)}`,
        [ABSTAIN]: `abstains: ${why}, ${value} ≤ ${plain(view.lo)}`,
        [ESCALATE]: score === null ? `escalates: ${why}, no confidence` : `escalates: ${why}, ${value} between lo and hi`,
      }[stop.action];
    }
    line.append(make("span", "", said));
    return line;
  }

  function passagesOf(passages) {
    const box = make("details", "", make("summary", "", `${passages.length} new ${passages.length === 1 ? "passage" : "passages"}`));
    for (const [title, body, supporting] of passages) {
      const heading = make("h4", "", title);
      const words = make("p", "", body);
      heading.dir = words.dir = "auto";
      const passage = make("div", supporting ? "passage support" : "passage", heading, words);
      if (supporting) heading.append(make("small", "o-right", "  supports the answer"));
      box.append(passage);
    }
    return box;
  }

  async function showQuestion() {
    const row = view.question;
    $("question").hidden = row < 0;
    if (row < 0) return;
    const asked = () => [view.question, view.set, view.hi, view.lo, view.budget].join();
    const before = asked();
    let book;
    try {
      book = await source.question(row);
    } catch (error) {
      complain(`This question cannot be had: ${error.message}.`);
      return;
    }
    if (asked() !== before) return;
    const { id, question, about, states, stops, evidence } = book;
    $("question-heading").textContent = question ?? "(no question text)";
    const known = about.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${clipped(value)}`);
    $("question-about").textContent = [`id ${clipped(id)}`, ...known].join(" · ");
    const open = new Set([...$("walk").querySelectorAll("details[open]")].map((one) => one.dataset.depth));
    const same = $("walk").dataset.row === `${view.set}.${row}`;
    const furthest = Math.max(...Object.values(stops).map((stop) => stop.depth));
    $("walk").dataset.row = `${view.set}.${row}`;
    $("walk").replaceChildren(...states.map((state, depth) => {
      const item = make("li", depth > furthest ? "past" : "");
      const fresh = depth === 0 ? "no evidence" : state.copied ? "nothing new" : evidence ? `${evidence[depth]?.length ?? 0} more passages` : "more evidence";
      item.append(make("h3", "", `Depth ${depth}`, make("small", "", fresh)));
      const answer = make("div", state.answer === null ? "answer none" : "answer", state.answer ?? "(no answer recorded)");
      answer.dir = "auto";
      const verdict = state.correct === 1 ? "right" : state.correct === 0 ? "wrong" : "unknown";
      const facts = [["confidence", state.raw === null ? "none" : plain(state.raw), state.raw], ["calibrated", state.calibrated === null ? "none" : plain(state.calibrated), state.calibrated]];
      if (!set().scores.calibrated) facts.pop();
      const list = make("dl", "", make("div", "", make("dd", `o-${verdict}`, `${SIGNS[verdict]} ${word(verdict)}`)));
      for (const [name, shown, full] of facts) {
        const value = make("dd", "", shown);
        value.title = full === null ? "" : String(full);
        list.append(make("div", "", make("dt", "", name), value));
      }
      item.append(make("div", "", answer, list));
      item.append(make("div", "gates", ...shownNames().map((name) => gateAt(name, depth, stops[name], state, states.length - 1))));
      if (evidence && evidence[depth]?.length) {
        const box = passagesOf(evidence[depth]);
        box.dataset.depth = depth;
        box.open = same && open.has(String(depth));
        item.append(box);
      }
      return item;
    }));
    showNeighbours();
  }

  function showNeighbours() {
    const place = source.placeOf(view.question);
    $("previous").disabled = place <= 0;
    $("next").disabled = place < 0 || place >= source.total - 1;
  }

  async function openQuestion(row, focus = true) {
    view.question = row;
    remember();
    await showQuestion();
    if (!focus) return;
    $("question").scrollIntoView({ block: "start" });
    $("question-heading").focus({ preventScroll: true });
  }

  function closeQuestion() {
    view.question = -1;
    remember();
    $("question").hidden = true;
    $("grid").focus({ preventScroll: true });
    $("questions").scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const place = source.placeOf(view.question) + by;
    const one = place >= 0 && place < source.total && source.row(place);
    reveal(place);
    if (one) openQuestion(one.row);
  }

  // ---------------------------------------------------------------- repainting

  let pending = null;
  let late = 0;
  const work = []; // milliseconds of the latest repaints
  const EVERYTHING = ["controls", "charts", "gate", "rows"];
  const LARGE = 50_000; // rows from which the table waits until a slider rests

  // What changed: "controls" (a choice of traces), "charts" (budget, group), "gate" (lo, hi, map), "rows" (search, filter).
  function changed(...what) {
    if (!pending) {
      pending = new Set();
      requestAnimationFrame(() => {
        const todo = pending, start = performance.now();
        pending = null;
        paint(todo);
        document.body.offsetHeight; // the layout is part of the work
        work.push(performance.now() - start);
        if (work.length > 1000) work.shift();
      });
    }
    what.forEach((one) => pending.add(one));
    remember();
  }

  function paint(todo) {
    if (todo.has("controls")) fillControls();
    if (todo.has("charts") || todo.has("controls")) Object.keys(CHARTS).forEach(drawChart);
    if (todo.has("charts") || todo.has("gate") || todo.has("controls")) {
      showControls();
      const points = Object.fromEntries(shownNames().map((name) => [name, operatingPoint(subset(), name, view.hi, view.budget)]));
      showNumbers(points);
      moveMarkers(points);
      showLegend();
      say(points);
      clearTimeout(late);
      if (file.served || set().n < LARGE || todo.has("controls")) showWalks();
      else late = setTimeout(showWalks, 120);
    } else if (todo.has("rows")) source.update("rows", showFound);
  }

  function showWalks() {
    source.update("walks", () => {
      showFlows(source.counts);
      showFound();
      showQuestion();
    });
  }

  function showFound() {
    showChips();
    showTable();
    if (view.question >= 0) showNeighbours();
  }

  // ---------------------------------------------------------------- what people do

  function setUnit(name, value) {
    if (!(value >= 0 && value <= 1)) return;
    view[name] = value;
    if (name === "hi") view.lo = Math.min(view.lo, value); else view.hi = Math.max(view.hi, value);
    changed("gate");
  }

  for (const name of ["hi", "lo"]) {
    $(name).addEventListener("input", (event) => setUnit(name, Number(event.target.value)));
    $(`${name}-number`).addEventListener("input", (event) => event.target.value !== "" && setUnit(name, Number(event.target.value)));
    $(`${name}-number`).addEventListener("blur", (event) => (event.target.value = String(view[name])));
  }
  $("budget").addEventListener("input", (event) => {
    view.budget = Number(event.target.value);
    changed("charts", "gate");
  });
  for (const radio of document.getElementsByName("map")) radio.addEventListener("change", () => {
    view.map = radio.value;
    changed("gate");
  });
  $("set").addEventListener("change", (event) => {
    const { hi, lo, budget, theme, map } = view;
    Object.assign(view, FRESH, { set: Number(event.target.value), hi, lo, theme });
    view.budget = Math.min(budget, limit());
    view.map = set().scores[map] ? map : "raw";
    changed(...EVERYTHING);
  });
  $("column").addEventListener("change", (event) => {
    Object.assign(view, { column: Number(event.target.value), value: 0 });
    changed(...EVERYTHING);
  });
  $("value").addEventListener("change", (event) => {
    view.value = Number(event.target.value);
    changed(...EVERYTHING);
  });
  $("reset").addEventListener("click", () => {
    Object.assign(view, FRESH, { set: view.set, theme: view.theme });
    view.budget = Math.min(view.budget, limit());
    $("copied").hidden = true;
    changed(...EVERYTHING);
  });
  $("theme").addEventListener("click", () => {
    view.theme = { "": "dark", dark: "light", light: "" }[view.theme];
    document.documentElement.dataset.theme = view.theme;
    $("theme").textContent = `Theme: ${view.theme || "system"}`;
    remember();
  });
  $("find").addEventListener("input", (event) => {
    view.find = event.target.value;
    $("body").scrollTop = active = 0;
    changed("rows");
  });
  $("chips").addEventListener("click", (event) => {
    const chip = event.target.closest("button");
    if (!chip) return;
    view.show = chip.dataset.show === view.show ? "all" : chip.dataset.show;
    $("body").scrollTop = active = 0;
    changed("rows");
  });
  $("body").addEventListener("scroll", () => requestAnimationFrame(() => paintRows()), { passive: true });
  $("body").addEventListener("click", (event) => {
    const line = event.target.closest("[data-row]");
    if (!line) return;
    active = Number(line.dataset.place);
    paintRows();
    openQuestion(Number(line.dataset.row));
  });
  $("grid").addEventListener("keydown", (event) => {
    if (event.target !== $("grid")) return;
    const page = Math.max(1, Math.floor($("body").clientHeight / rowHeight()) - 1);
    const moves = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: source.total - 1 };
    if (event.key in moves) reveal(moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") {
      const one = source.total && source.row(active);
      if (one) openQuestion(one.row);
    } else return;
    event.preventDefault();
  });
  $("back").addEventListener("click", closeQuestion);
  $("previous").addEventListener("click", () => step(-1));
  $("next").addEventListener("click", () => step(1));
  $("question").addEventListener("keydown", (event) => event.key === "Escape" && closeQuestion());
  $("skip").addEventListener("click", () => {
    $("questions").scrollIntoView();
    $("questions-heading").focus({ preventScroll: true });
  });

  // A template of Python's own, with {slots} and doubled braces.
  const filled = (template, slots) => template.replace(/\{\{|\}\}|\{(\w+)\}/g, (all, name) => (name ? slots[name] : all[0]));

  function snippet(kind) {
    const grouping = view.column < 0 ? null : set().groupings[view.column];
    const slots = { hi: view.hi, lo: view.lo, budget: view.budget, by: grouping ? grouping.by : "", among: grouping ? grouping.among[view.value] : "" };
    return filled(kind === "command" ? set().command : set().program[view.map], slots);
  }

  async function copy(kind, button) {
    const words = snippet(kind);
    $("copied").textContent = words;
    $("copied").hidden = false;
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(words);
    } catch {
      getSelection().selectAllChildren($("copied")); // a page from disk may not be allowed to: the reader copies it
      done = "Selected below";
    }
    const before = button.dataset.name ?? (button.dataset.name = button.textContent);
    button.textContent = done;
    setTimeout(() => (button.textContent = before), 1600);
  }
  for (const kind of ["command", "python"]) $(`copy-${kind}`).addEventListener("click", (event) => copy(kind, event.currentTarget));

  addEventListener("hashchange", () => {
    follow(location.hash);
    changed(...EVERYTHING);
  });
  for (const [when, now] of [["beforeprint", true], ["afterprint", false]]) addEventListener(when, () => {
    printing = now;
    showTable();
  });
  let across = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - across) < 1) return;
    across = entry.contentRect.width;
    changed("charts");
  }).observe($("results"));

  // ---------------------------------------------------------------- begin

  $("note").textContent = file.note;
  $("note").hidden = !file.note;
  follow(location.hash);
  buildHead();
  $("main").hidden = false;
  paint(new Set(EVERYTHING));
  window.gatewise = Object.freeze({
    view: () => ({ ...view }),
    point: (name) => ({ ...operatingPoint(subset(), name, view.hi, view.budget) }),
    stops: (name) => (file.served ? null : { depth: [...local.stops[name].depth], action: [...local.stops[name].action] }),
    counts: () => structuredClone(source.counts),
    work: () => [...work],
    snippet,
  });
})().catch((error) => {
  const trouble = document.getElementById("trouble");
  trouble.textContent = `This page could not be unpacked: ${error.message}. It needs a browser of 2023 or later.`;
  trouble.hidden = false;
});

// Numbers: as text, on the gate's controls, and in the table of operating points.

// As Python formats: a number half way between two goes to the even one.
function fixed(value, decimals) {
  const [rounded, digits] = [value.toFixed(decimals), value.toFixed(60)];
  const rest = digits.slice(digits.indexOf(".") + 1 + decimals);
  if (!/^50*$/.test(rest)) return rounded;
  const cut = digits.slice(0, digits.indexOf(".") + 1 + decimals);
  return "02468".includes(cut.replace(".", "").at(-1)) ? cut.replace(/\.$/, "") : rounded;
}
const percent = (value) => (value === null ? "–" : fixed(100 * value, 1));
const price = (value) => {
  if (value === null) return "–";
  if (value === 0 || Math.abs(value) >= 0.1) return fixed(value, 2);
  const short = Number(value.toPrecision(3));
  if (Math.abs(short) >= 1e-4) return String(short);
  const [digits, power] = short.toExponential().split("e-"); // as Python writes it
  return `${digits}e-${power.padStart(2, "0")}`;
};
const count = new Intl.NumberFormat("en").format;
const many = (size, what) => `${count(size)} ${what}${size === 1 ? "" : "s"}`;
const exact = (value) => (value === null ? "nothing to divide by" : String(value));
const plain = (value) => String(Math.round(value * 1e4) / 1e4);
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format;
const brief = (value) => (Math.abs(value) >= 1e5 ? compact(value) : value && Math.abs(value) < 1e-3 ? value.toPrecision(1) : plain(value));
const clipped = (value, most = 300) => (value.length > most ? `${value.slice(0, most)}…` : value);

const NAMES = ["raw", "calibrated"];
const shownNames = () => NAMES.filter((name) => set().scores[name]);

const valueName = (at) => clipped(set().groupings[view.column].values[at] ?? "(none)", 60);

function fillControls() {
  const { groupings, depths, scores } = set();
  const models = file.sets.map((one) => clipped(one.model ?? "(no model named)", 120));
  $("set").replaceChildren(...models.map((model, at) => new Option(model, at)));
  $("set").value = view.set;
  $("set-field").hidden = file.sets.length < 2;
  for (const radio of document.getElementsByName("map")) {
    radio.disabled = !scores[radio.value];
    radio.checked = radio.value === view.map;
  }
  const lacking = "There is no map: neither a calibration split to fit on nor one that was given.";
  $("map-field").title = scores.calibrated ? "" : lacking;
  $("budget").max = depths - 1;
  const columns = groupings.map((one, at) => new Option(clipped(one.column, 60), at));
  $("column").replaceChildren(new Option("everything", -1), ...columns);
  $("column").value = view.column;
  $("group-field").hidden = !groupings.length;
  const { values, subsets } = view.column < 0 ? { values: [] } : groupings[view.column];
  $("value").replaceChildren(...values.map((_, at) => new Option(`${valueName(at)}  ·  ${count(subsets[at].n)}`, at)));
  $("value").value = view.value;
  $("value").hidden = view.column < 0;
  const model = file.sets.length > 1 || set().model === null ? [] : [make("bdi", "", set().model), " · "];
  const size = `${many(set().n, "question")} × ${many(depths, "depth")}`;
  const [split, signal] = [file.split, set().signal].map((one) => make("bdi", "", String(one)));
  $("about").replaceChildren(...model, `${size} · split `, split, " · signal ", signal);
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

// The lowest recorded confidence that the gate on screen commits at, by depth where a map is.
function alike() {
  if (view.map === "raw") return "";
  const { confidences, scores: { calibrated } } = set();
  const width = confidences.length + 1;
  const commits = firstAtLeast(calibrated.thresholds, view.hi) + 1;
  const rank = (depth, at) => calibrated.ranks[depth * width + at + 1];
  const depths = everyDepth().filter((depth) => depth <= view.budget);
  const firsts = depths.map((depth) => confidences.findIndex((_, at) => rank(depth, at) >= commits));
  if (firsts.every((first) => first < 0)) return "No recorded confidence is mapped so high: this gate never commits.";
  const least = Math.min(...firsts.filter((first) => first >= 0));
  const passed = (depth, at) => at < least || !rank(depth, at) || rank(depth, at) >= commits; // 0: does not occur there
  if (depths.every((depth) => confidences.every((_, at) => passed(depth, at)))) {
    return `Commits from a recorded confidence of ${plain(confidences[least])} on.`;
  }
  const from = (first, depth) => `${depth}: ${first < 0 ? "never" : `from ${plain(confidences[first])}`}`;
  const more = firsts.length > 8 ? "; …" : "";
  return `Recorded confidences that it commits at, by depth: ${firsts.slice(0, 8).map(from).join("; ")}${more}.`;
}

const SHAPES = { raw: "key", calibrated: "key diamond" };

const READ = { overall_accuracy: percent, committed_accuracy: percent, coverage: percent, mean_cost: price };

function rowOfNumbers(name, css, one) {
  const line = make("tr", css);
  const heading = make("th");
  heading.scope = "row";
  if (SHAPES[name]) heading.append(make("span", SHAPES[name]));
  heading.append(file.names[name] ?? name);
  line.append(heading);
  const found = one && ratios(one);
  for (const [what, text] of Object.entries(READ)) {
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
  const column = set().groupings[view.column]?.column;
  const parts = column === undefined ? [] : [clipped(column, 60), valueName(view.value)];
  const [of, which] = parts.map((one) => make("bdi", "", one));
  $("numbers-aside").replaceChildren(...(of ? [of, ": ", which, ", "] : []), many(group.n, "question"));
}

function showFlows(counts) {
  const flows = Object.entries(counts.by).map(([name, by]) => {
    const bar = make("div", "bar");
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", OUTCOMES.map((one, at) => `${word(one)} ${count(by[at])}`).join(", "));
    OUTCOMES.forEach((one, at) => {
      const part = make("i", `i-${one}`);
      part.style.flex = `${by[at]} 0 0`;
      part.hidden = !by[at];
      part.title = `${word(one)}: ${count(by[at])}`;
      if (by[at] > 0.08 * subset().n) part.textContent = count(by[at]);
      bar.append(part);
    });
    return make("div", "flow", make("span", name, name), bar);
  });
  const present = OUTCOMES.filter((_, at) => Object.values(counts.by).some((by) => by[at]));
  const key = present.map((one) => make("span", "", make("i", `i-${one}`), word(one)));
  $("flows").replaceChildren(...flows, make("div", "flow-key", ...key));
}

function say(points) {
  const one = (name) => {
    const { overall_accuracy: oa, committed_accuracy: ca, coverage, mean_cost: cost } = ratios(points[name]);
    const accuracies = `overall accuracy ${percent(oa)} %, committed accuracy ${percent(ca)} %`;
    return `${name}: ${accuracies}, coverage ${percent(coverage)} %, cost ${price(cost)}`;
  };
  clearTimeout(say.waiting);
  say.waiting = setTimeout(() => ($("live").textContent = shownNames().map(one).join(". ")), 700);
}

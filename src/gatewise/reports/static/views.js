// The view: what is on screen, and the address that carries it.

const FRESH = {
  set: 0, map: "raw", hi: 0.7, lo: 0.3, budget: 3, column: -1, value: 0,
  show: "all", find: "", sort: "", question: -1, theme: "",
};
const view = { ...FRESH };
const set = () => file.sets[view.set];
const subset = () => (view.column < 0 ? set().everything : set().groupings[view.column].subsets[view.value]);
const limit = () => set().depths - 1;
const everyDepth = () => Array.from({ length: set().depths }, (_, depth) => depth); // and every budget
const whole = (text) => String(text ?? "").toWellFormed?.() ?? String(text ?? "");

const valueInAddress = (value, at) => (value !== null && value.length > 200 ? `@${at}` : whole(value));

function addressed() {
  const query = new URLSearchParams();
  const { groupings, model } = set();
  if (view.set) query.set("model", model ?? "");
  for (const name of ["map", "hi", "lo", "show", "find", "sort", "theme"]) {
    if (view[name] !== FRESH[name]) query.set(name, view[name]);
  }
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
  const values = column < 0 ? [] : set().groupings[column].values;
  const value = values.findIndex((one, at) => valueInAddress(one, at) === query.get("is"));
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
  writing = setTimeout(() => {
    const address = addressed();
    history.replaceState(null, "", address === "#" ? location.pathname + location.search : address);
  }, 250);
}

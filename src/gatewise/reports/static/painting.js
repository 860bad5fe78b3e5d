// Painting: what changed, and what is shown again for it.

const EVERYTHING = ["controls", "charts", "gate", "rows"];
const LARGE = 50_000; // rows from which the table waits until a slider rests
const work = []; // milliseconds of the latest repaints
const pending = new Set();
let painted = false; // in this frame
let late = 0;

// What changed: "controls" (a choice of traces), "charts" (budget, group), "gate" (lo, hi, map) or "rows" (search,
// filter, order). The first change of a frame is painted at once, what follows in the same frame together.
function changed(...what) {
  what.forEach((one) => pending.add(one));
  remember();
  if (painted) return;
  painted = true;
  paintPending();
  requestAnimationFrame(() => {
    painted = false;
    if (pending.size) changed();
  });
}

function paintPending() {
  const todo = new Set(pending), start = performance.now();
  pending.clear();
  paint(todo);
  document.body.offsetHeight; // the layout is part of the work
  work.push(performance.now() - start);
  if (work.length > 1000) work.shift();
}

function paint(todo) {
  if (todo.has("controls")) fillControls();
  if (todo.has("charts") || todo.has("controls")) Object.keys(CHARTS).forEach(drawChart);
  if (todo.has("charts") || todo.has("gate") || todo.has("controls")) {
    showControls();
    const points = {};
    for (const name of shownNames()) points[name] = operatingPoint(subset(), name, view.hi, view.budget);
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

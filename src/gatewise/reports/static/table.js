// The table of questions: only the rows in sight are in the document.

const COLUMNS = { id: "Id", question: "Question", answer: "Answer", depth: "Depth", outcome: "Outcome", moved: "Moved" };
const TALLEST = 8e6; // pixels: browsers cannot scroll much further, so longer tables scroll in proportion
let active = 0;

function buildHead() {
  $("head").replaceChildren(...Object.entries(COLUMNS).map(([name, title]) => {
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

// The window on the table, kept at hand: asking the document while it changes lays it out again.
const room = { row: 42, seen: 430, at: 0 };

function measureRoom() {
  room.row = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
  room.seen = $("body").clientHeight;
  room.at = $("body").scrollTop;
}

function scrollTo(at) {
  $("body").scrollTop = at;
  room.at = $("body").scrollTop;
}

const scale = () => {
  const full = source.total * room.row, tall = Math.min(full, TALLEST), { seen } = room;
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
  const orElse = (name, words) =>
    one[name] === null ? cellOf(name, words, "none") : cellOf(name, clipped(one[name]));
  line.append(
    cellOf("id", clipped(one.id)),
    orElse("question", "(no question text)"),
    orElse("answer", "–"),
    cellOf("depth", String(one.depth)),
    cellOf("outcome", `${SIGNS[one.outcome]} ${word(one.outcome)}`, `o-${one.outcome}`),
    cellOf("moved", one.moved ? "moved" : ""),
  );
  return line;
}

const PRINTED = 200; // rows of the table on paper
let printing = false;

function paintRows() {
  const { tall, seen, factor } = scale(), height = room.row;
  const rows = $("rows");
  rows.style.height = `${tall}px`;
  if (!source.total) {
    rows.replaceChildren(make("p", "", "No question meets this search and filter."));
    return;
  }
  const at = Math.min(room.at, Math.max(0, tall - seen)); // a shorter table has not been scrolled back yet
  const offset = at * factor;
  const shift = at - offset;
  const first = printing ? 0 : Math.max(0, Math.floor(offset / height) - 4);
  const last = Math.min(source.total, printing ? PRINTED : Math.ceil((offset + seen) / height) + 4);
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
  const counts = { all: subset().n };
  OUTCOMES.forEach((one, at) => (counts[one] = by[view.map][at]));
  counts.moved = moved;
  if (!counts.unknown && view.show !== "unknown") delete counts.unknown;
  if (!set().scores.calibrated) delete counts.moved;
  const had = document.activeElement?.dataset?.show;
  $("chips").replaceChildren(...Object.entries(counts).map(([name, size]) => {
    const sign = make("span", `sign o-${name}`, SIGNS[name] ? `${SIGNS[name]} ` : "");
    const chip = make("button", "", sign, `${word(name)} `, make("small", "", count(size)));
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
  const { seen, factor } = scale(), height = room.row;
  const top = active * height, offset = room.at * factor;
  if (top < offset) scrollTo(top / factor);
  else if (top + height > offset + seen) scrollTo((top + height - seen) / factor + (factor > 1 ? 1 : 0));
  paintRows();
}

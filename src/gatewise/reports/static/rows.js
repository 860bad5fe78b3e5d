// Rows: which questions, in what order; from the file, or from a server.

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
    const { raw } = this.stops, other = this.stops.calibrated ?? raw;
    const among = view.column < 0 ? null : set().groupings[view.column].places;
    const by = Object.fromEntries(shownNames().map((name) => [name, [0, 0, 0, 0, 0]]));
    let moved = 0;
    this.moved = new Uint8Array(set().n);
    for (let row = 0; row < set().n; row++) {
      this.moved[row] = raw.action[row] !== other.action[row] || raw.depth[row] !== other.depth[row];
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
    const [id, question, answer] = [text(ids[row]), text(questions[row]), this.answer(row)];
    return { row, id, question, answer, depth: depth[row], outcome: OUTCOMES[outcome[row]], moved: this.moved[row] };
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
    const stop = ({ depth, action }) => ({ depth: depth[row], action: action[row] });
    const stops = Object.fromEntries(shownNames().map((name) => [name, stop(this.stops[name])]));
    const shown = evidence && evidence[row] ? await this.evidence(evidence[row] - 1) : null;
    return { id: text(ids[row]), question: text(questions[row]), about, states, stops, evidence: shown };
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

  place() { return Math.floor((room.at * scale().factor) / room.row); },

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
    for (let chunk = Math.floor(first / SLICE); chunk * SLICE < last; chunk++) {
      if (!this.chunks.has(chunk)) missing.push(chunk);
    }
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

let source = local;

function complain(words) {
  $("trouble").textContent = words;
  $("trouble").hidden = false;
}

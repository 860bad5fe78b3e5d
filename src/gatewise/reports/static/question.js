// One question: its walk, depth by depth, and where each gate stopped.

// Two numbers that are compared, with as many digits as it takes to tell them apart.
function beside(one, other) {
  const short = [one, other].map(plain);
  return one !== other && short[0] === short[1] ? [one, other].map(String) : short;
}

function gateAt(name, depth, stop, state, last) {
  const line = make("p", name, make("b", "", name), " ");
  const score = name === "raw" ? state.raw : state.calibrated;
  const than = (sign, bound) => beside(score, bound).join(` ${sign} `);
  let said;
  if (depth > stop.depth) {
    said = "not reached";
    line.classList.add("past");
  } else if (depth < stop.depth) {
    said = score === null ? "no confidence: goes on" : `${than("<", view.hi)}: goes on`;
  } else {
    line.classList.add("stop");
    const why = depth === last ? "no more evidence" : "budget spent";
    said = {
      [COMMIT]: () => `commits here: ${than("≥", view.hi)}`,
      [ABSTAIN]: () => `abstains: ${why}, ${than("≤", view.lo)}`,
      [ESCALATE]: () => `escalates: ${why}, ${score === null ? "no confidence" : `${plain(score)} between lo and hi`}`,
    }[stop.action]();
  }
  line.append(make("span", "", said));
  return line;
}

function passagesOf(passages) {
  const size = `${passages.length} new ${passages.length === 1 ? "passage" : "passages"}`;
  const box = make("details", "", make("summary", "", size));
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
  const known = [["id", id], ...about].filter(([, value]) => value !== null);
  $("question-about").replaceChildren(...known.flatMap(([name, value], at) => [
    at ? " · " : "", make("bdi", "", name), " ", make("bdi", "", clipped(value)),
  ]));
  const open = new Set([...$("walk").querySelectorAll("details[open]")].map((one) => one.dataset.depth));
  const same = $("walk").dataset.row === `${view.set}.${row}`;
  const furthest = Math.max(...Object.values(stops).map((stop) => stop.depth));
  $("walk").dataset.row = `${view.set}.${row}`;
  $("walk").replaceChildren(...states.map((state, depth) => {
    const item = make("li", depth > furthest ? "past" : "");
    const fresh = depth === 0 ? "no evidence" : state.copied ? "nothing new" : "more evidence";
    item.append(make("h3", "", `Depth ${depth}`, make("small", "", fresh)));
    const said = state.answer === null ? "answer none" : "answer";
    const answer = make("div", said, state.answer ?? "(no answer recorded)");
    answer.dir = "auto";
    const verdict = state.correct === 1 ? "right" : state.correct === 0 ? "wrong" : "unknown";
    const list = make("dl", "", make("div", "", make("dd", `o-${verdict}`, `${SIGNS[verdict]} ${word(verdict)}`)));
    for (const name of shownNames()) {
      const full = state[name], value = make("dd", "", full === null ? "none" : plain(full));
      value.title = full === null ? "" : String(full);
      list.append(make("div", "", make("dt", "", name === "raw" ? "confidence" : name), value));
    }
    item.append(make("div", "", answer, list));
    const gates = shownNames().map((name) => gateAt(name, depth, stops[name], state, states.length - 1));
    item.append(make("div", "gates", ...gates));
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

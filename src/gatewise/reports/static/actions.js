// Actions: what people do with the page.

function setUnit(name, value) {
  if (!(value >= 0 && value <= 1)) return;
  view[name] = value;
  if (name === "hi") view.lo = Math.min(view.lo, value); else view.hi = Math.max(view.hi, value);
  changed("gate");
}

// A template of Python's own, with {slots} and doubled braces.
const filled = (template, slots) =>
  template.replace(/\{\{|\}\}|\{(\w+)\}/g, (all, name) => (name ? slots[name] : all[0]));

function snippet(kind) {
  const grouping = view.column < 0 ? null : set().groupings[view.column];
  const { hi, lo, budget } = view;
  const slots = { hi, lo, budget, by: grouping?.by ?? "", among: grouping?.among[view.value] ?? "" };
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

function listen() {
  for (const name of ["hi", "lo"]) {
    $(name).addEventListener("input", (event) => setUnit(name, Number(event.target.value)));
    const exact = $(`${name}-number`);
    exact.addEventListener("input", () => exact.value !== "" && setUnit(name, Number(exact.value)));
    exact.addEventListener("blur", () => (exact.value = String(view[name])));
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
    scrollTo(active = 0);
    changed("rows");
  });
  $("chips").addEventListener("click", (event) => {
    const chip = event.target.closest("button");
    if (!chip) return;
    view.show = chip.dataset.show === view.show ? "all" : chip.dataset.show;
    scrollTo(active = 0);
    changed("rows");
  });
  $("body").addEventListener("scroll", () => requestAnimationFrame(() => {
    measureRoom();
    paintRows();
  }), { passive: true });
  $("body").addEventListener("click", (event) => {
    const line = event.target.closest("[data-row]");
    if (!line) return;
    active = Number(line.dataset.place);
    paintRows();
    openQuestion(Number(line.dataset.row));
  });
  $("grid").addEventListener("keydown", (event) => {
    if (event.target !== $("grid")) return;
    const page = Math.max(1, Math.floor(room.seen / room.row) - 1);
    const moves = {
      ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page,
      Home: 0, End: source.total - 1,
    };
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

  for (const kind of ["command", "python"]) {
    $(`copy-${kind}`).addEventListener("click", (event) => copy(kind, event.currentTarget));
  }

  addEventListener("hashchange", () => {
    follow(location.hash);
    changed(...EVERYTHING);
  });
  for (const [when, now] of [["beforeprint", true], ["afterprint", false]]) addEventListener(when, () => {
    printing = now;
    if (!now) measureRoom(); // on paper the table had no window
    showTable();
  });
  let across = 0;
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - across) < 1) return;
    across = entry.contentRect.width;
    requestAnimationFrame(() => {
      measureRoom();
      changed("charts");
    });
  }).observe($("results"));
}

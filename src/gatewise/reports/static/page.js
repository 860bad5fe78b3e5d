// Python computes, the page looks up. Operating points are read from the exact frontiers in the file; where an episode
// stops follows from comparing ranks. Text of models and data sets reaches the document as text nodes alone.

async function begin() {
  file = await unpacked(JSON.parse($("data").textContent));
  file.sets.forEach(readied);
  Object.assign(FRESH, file.start);
  source = file.served ? remote : local;
  $("note").textContent = file.note;
  $("note").hidden = !file.note;
  follow(location.hash);
  buildHead();
  listen();
  $("main").hidden = false;
  measureRoom();
  paint(new Set(EVERYTHING));
}

// For whoever asks the page from a script, as its tests do.
window.gatewise = Object.freeze({
  view: () => ({ ...view }),
  point: (name) => ({ ...operatingPoint(subset(), name, view.hi, view.budget) }),
  stops: (name) => ({ depth: [...local.stops[name].depth], action: [...local.stops[name].action] }),
  counts: () => structuredClone(source.counts),
  work: () => [...work],
  snippet,
});

begin().catch((error) => {
  complain(`This page could not be unpacked: ${error.message}. It needs a browser of 2023 or later.`);
});

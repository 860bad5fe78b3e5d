// Packs: what the file holds, unpacked into typed arrays and texts.

let file = null;

const $ = (id) => document.getElementById(id);
const make = (name, css = "", ...inside) => {
  const one = document.createElement(name);
  if (css) one.className = css;
  one.append(...inside);
  return one;
};

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

// What a set of one model's traces holds, as arrays in place of references.
function readied(set) {
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

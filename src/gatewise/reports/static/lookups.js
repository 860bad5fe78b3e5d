// Lookups: a threshold -> an operating point read from an exact frontier; ranks -> where an episode stops.

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

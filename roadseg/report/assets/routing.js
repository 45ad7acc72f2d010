// Routing: a road graph, and the fastest way between two places on it, as `roadseg route` finds it.

const AT_END_M = 0.001; // a place no further from the end of its edge is the node there

class Graph {
  constructor(told) {
    Object.assign(this, { name: told.name, area: told.area, scenes: told.scenes });
    this.lines = new Lines(told.lines);
    this.ends = told.ends;
    this.nodes = told.nodes;
    this.columns = Object.fromEntries(
      Object.entries(told.columns).map(([name, column]) =>
        [name, column.values ?? column.codes.map((code) => column.texts[code] || null)]));
  }

  get(name, row) {
    return this.columns[name]?.[row] ?? null;
  }

  get hasTimes() {
    return Boolean(this.columns.travel_time_s?.every((value) => value !== null && value >= 0));
  }

  // For each node the edges that end there.
  get edgesAt() {
    if (!this.kept) {
      this.kept = Array.from({ length: this.nodes }, () => []);
      this.ends.forEach((node, at) => this.kept[node].push(at >> 1));
    }
    return this.kept;
  }

  // The place on the roads that is nearest to x, y: a node, or a share of an edge.
  enter(x, y, most) {
    const found = this.lines.nearest(x, y, most);
    if (!found) return null;
    const { row, along, length, away, share } = found;
    const atEnd = Math.min(along, length - along) <= AT_END_M;
    const node = atEnd ? this.ends[2 * row + (along <= length / 2 ? 0 : 1)] : null;
    return { row, share: atEnd ? Math.round(share) : share, node, away };
  }
}

// The fastest way (or the shortest where there are no times) between two places of `enter`.
function findRoute(graph, start, goal) {
  const name = graph.hasTimes ? "travel_time_s" : "length_m";
  const costs = graph.columns[name];
  const [first, last] = [start.node ?? graph.nodes, goal.node ?? graph.nodes + 1];
  const extra = new Map();
  const link = (from, to, row, shares) => {
    for (const [a, b, [low, high]] of [[from, to, shares], [to, from, [shares[1], shares[0]]]]) {
      if (!extra.has(a)) extra.set(a, []);
      extra.get(a).push({ to: b, row, from: low, upTo: high });
    }
  };
  for (const [place, node] of [[start, first], [goal, last]]) {
    if (place.node !== null) continue;
    link(node, graph.ends[2 * place.row], place.row, [place.share, 0]);
    link(node, graph.ends[2 * place.row + 1], place.row, [place.share, 1]);
  }
  if (start.node === null && goal.node === null && start.row === goal.row) {
    link(first, last, start.row, [start.share, goal.share]);
  }
  const steps = cheapest(graph, extra, costs, first, last);
  return steps && summed(graph, steps, { start, goal });
}

function* stepsFrom(graph, extra, node) {
  for (const row of node < graph.nodes ? graph.edgesAt[node] : []) {
    const isFirst = graph.ends[2 * row] === node;
    yield { to: graph.ends[2 * row + (isFirst ? 1 : 0)], row, from: isFirst ? 0 : 1, upTo: isFirst ? 1 : 0 };
  }
  yield* extra.get(node) ?? [];
}

// Source: E. W. Dijkstra, "A note on two problems in connexion with graphs" (1959).
function cheapest(graph, extra, costs, first, last) {
  const best = new Float64Array(graph.nodes + 2).fill(Infinity);
  const before = new Map();
  const heap = new Heap();
  best[first] = 0;
  heap.push(0, first);
  while (heap.size) {
    const [cost, node] = heap.pop();
    if (node === last) return traced(before, first, last);
    if (cost > best[node]) continue;
    for (const step of stepsFrom(graph, extra, node)) {
      const next = cost + costs[step.row] * Math.abs(step.upTo - step.from);
      if (next < best[step.to]) {
        best[step.to] = next;
        before.set(step.to, { node, step });
        heap.push(next, step.to);
      }
    }
  }
  return null;
}

function traced(before, first, last) {
  const steps = [];
  for (let node = last; node !== first;) {
    const { node: previous, step } = before.get(node);
    steps.push(step);
    node = previous;
  }
  return steps.reverse();
}

function summed(graph, steps, { start, goal }) {
  const sum = (name, rows) => rows.reduce(
    (total, step) => total + graph.columns[name][step.row] * Math.abs(step.upTo - step.from), 0);
  const length = sum("length_m", steps);
  const share = (name, value) =>
    (length ? sum("length_m", steps.filter((step) => graph.get(name, step.row) === value)) / length : 0);
  return {
    seconds: graph.hasTimes ? sum("travel_time_s", steps) : null,
    length_m: length,
    edges: steps.length,
    inferred_share: share("inferred", 1),
    assumed_share: share("speed_known", 0),
    from_road_m: start.away,
    to_road_m: goal.away,
    points: steps.map((step) => graph.lines.part(step.row, step.from, step.upTo)),
  };
}

class Heap {
  constructor() { this.items = []; }

  get size() { return this.items.length; }

  push(cost, node) {
    const { items } = this;
    let at = items.push([cost, node]) - 1;
    while (at > 0 && items[(at - 1) >> 1][0] > items[at][0]) {
      const up = (at - 1) >> 1;
      [items[at], items[up]] = [items[up], items[at]];
      at = up;
    }
  }

  pop() {
    const { items } = this;
    const top = items[0];
    const last = items.pop();
    if (items.length) {
      items[0] = last;
      this.sink();
    }
    return top;
  }

  sink() {
    const { items } = this;
    for (let at = 0; ;) {
      let low = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < items.length && items[child][0] < items[low][0]) low = child;
      }
      if (low === at) return;
      [items[at], items[low]] = [items[low], items[at]];
      at = low;
    }
  }
}

// Convert a position by fitted polynomials, see `to_degrees` and `from_degrees` of an area.
function convert(fitted, [first, second]) {
  const u = (first - fitted.centre[0]) / fitted.scale[0];
  const v = (second - fitted.centre[1]) / fitted.scale[1];
  const found = [...fitted.middle];
  let term = 0;
  for (let i = 0; i <= fitted.degree; i += 1) {
    for (let j = 0; j <= fitted.degree - i; j += 1) {
      const value = u ** i * v ** j;
      found[0] += fitted.terms[0][term] * value;
      found[1] += fitted.terms[1][term] * value;
      term += 1;
    }
  }
  return found;
}

// Roads: those of one sheet, each with what was decided about it; drawn by that and by certainty.

const CERTAINTY = certaintyMode();
const CLASSES = [
  ...CERTAINTY.classes,
  { name: "accepted", colour: "#ffffff" },
  { name: "drawn or moved", colour: "#ff3fb4" },
  { name: "rejected", colour: PALETTE.missed, dashed: true },
];
const DECIDED = { accepted: -3, drawn: -2, moved: -2, rejected: -1 }; // the class, from the last on

const isOpen = ({ edited }) => edited === "" || edited === "speed";

function classOfRoad(road) {
  if (road.edited in DECIDED) return CLASSES.length + DECIDED[road.edited];
  return CERTAINTY.classOf({ get: (name) => road[name] ?? null });
}

class Roads {
  constructor({ lines, length, worth, confidence, kph, inferred }) {
    this.lines = new Lines(lines);
    this.atRow = this.lines.rows.map((row) => ({
      id: row, row, edited: "", length: length[row], worth: worth[row],
      confidence: confidence?.[row] ?? null, kph: kph?.[row] ?? null, inferred: inferred?.[row] ?? 0,
    }));
    this.byId = new Map(this.atRow.map((road) => [road.id, road]));
    this.added = new Map();
    this.strokes = new Strokes(this.lines, { classOf: (row) => classOfRoad(this.atRow[row]), classes: CLASSES.length });
    this.chunkOf = new Uint16Array(this.lines.count);
    this.strokes.chunks.forEach(({ rows }, number) => rows.forEach((row) => { this.chunkOf[row] = number; }));
  }

  // Take over what the server says has changed.
  change({ removed, changed }) {
    for (const id of removed) this.remove(id);
    for (const { xy, ...road } of changed) {
      const former = this.byId.get(road.id);
      if (xy || !former) {
        this.remove(road.id);
        const points = [];
        for (let at = 0; at < xy.length; at += 2) points.push([xy[at], xy[at + 1]]);
        this.byId.set(road.id, { ...road, points });
        this.added.set(road.id, this.byId.get(road.id));
      } else {
        Object.assign(former, road);
        if (former.row !== undefined) this.touch(former.row, classOfRoad(former));
      }
    }
  }

  remove(id) {
    const road = this.byId.get(id);
    this.byId.delete(id);
    this.added.delete(id);
    if (road?.row === undefined) return;
    this.atRow[road.row] = null;
    const chunk = this.strokes.chunks[this.chunkOf[road.row]];
    chunk.rows = chunk.rows.filter((row) => row !== road.row);
    this.touch(road.row, 0);
  }

  // Draw the part of the ground anew in which a line has changed.
  touch(row, number) {
    this.strokes.classOf[row] = number;
    const end = ` ${this.chunkOf[row]}`;
    for (const key of this.strokes.paths.keys()) if (key.endsWith(end)) this.strokes.paths.delete(key);
  }

  pointsOf(road) {
    return road.points ?? this.lines.part(road.row, 0, 1);
  }

  boxOf(road) {
    if (!road.points) return this.lines.boxOf(this.lines.starts[road.row], this.lines.starts[road.row + 1]);
    const [x, y] = [0, 1].map((axis) => road.points.map((point) => point[axis]));
    return [Math.min(...x), Math.min(...y), Math.max(...x), Math.max(...y)];
  }

  // The road nearest to a place, no farther than `most`; null if there is none.
  nearest([x, y], most) {
    let best = null;
    if (this.lines.count) {
      const found = this.lines.nearest(x, y, most, (row) => this.atRow[row] !== null);
      if (found) best = { road: this.atRow[found.row], away: found.away };
    }
    for (const road of this.added.values()) {
      const away = distanceTo(road.points, [x, y]);
      if (away <= (best?.away ?? most)) best = { road, away };
    }
    return best?.road ?? null;
  }

  draw(context, view) {
    if (this.lines.count) this.strokes.draw(context, view, CLASSES, roadWidth(view));
    const width = roadWidth(view) / view.scale;
    onGround(context, view, () => {
      Object.assign(context, { lineCap: "round", lineJoin: "round" });
      for (const road of this.added.values()) {
        const { colour, dashed } = CLASSES[classOfRoad(road)];
        context.beginPath();
        for (const point of road.points) context.lineTo(...point);
        context.setLineDash([]);
        Object.assign(context, { strokeStyle: CASING, lineWidth: width + 2.2 / view.scale });
        context.stroke();
        context.setLineDash(dashed ? [2 * width, 2.2 * width] : []);
        Object.assign(context, { strokeStyle: colour, lineWidth: width });
        context.stroke();
      }
      context.setLineDash([]);
    });
  }
}

function distanceTo(points, [x, y]) {
  let least = Infinity;
  for (let at = 1; at < points.length; at += 1) {
    const [[x0, y0], [x1, y1]] = [points[at - 1], points[at]];
    const [dx, dy] = [x1 - x0, y1 - y0];
    const square = dx * dx + dy * dy;
    const by = square ? Math.min(Math.max(((x - x0) * dx + (y - y0) * dy) / square, 0), 1) : 0;
    least = Math.min(least, Math.hypot(x - x0 - by * dx, y - y0 - by * dy));
  }
  return least;
}

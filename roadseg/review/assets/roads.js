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

// Roads whose lines are known: how they are drawn, and which is the nearest.
class Layer {
  constructor(lines, roads) {
    Object.assign(this, { lines, roads });
    roads.forEach((road, row) => { [road.layer, road.row] = [this, row]; });
    this.strokes = new Strokes(lines, { classOf: (row) => classOfRoad(roads[row]), classes: CLASSES.length });
    this.chunkOf = new Uint16Array(lines.count);
    this.strokes.chunks.forEach(({ rows }, number) => rows.forEach((row) => { this.chunkOf[row] = number; }));
  }

  remove({ row }) {
    this.roads[row] = null;
    const chunk = this.strokes.chunks[this.chunkOf[row]];
    chunk.rows = chunk.rows.filter((each) => each !== row);
    this.forget(row);
  }

  renew(road) {
    this.strokes.classOf[road.row] = classOfRoad(road);
    this.forget(road.row);
  }

  // The part of the ground in which a line has changed is drawn anew.
  forget(row) {
    const end = ` ${this.chunkOf[row]}`;
    for (const key of this.strokes.paths.keys()) if (key.endsWith(end)) this.strokes.paths.delete(key);
  }

  nearest([x, y], most) {
    const found = this.lines.nearest(x, y, most, (row) => this.roads[row] !== null);
    return found && { road: this.roads[found.row], away: found.away };
  }
}

class Roads {
  constructor(sheet) {
    this.sheet = sheet;
    const roads = sheet.length.map((length, source) => this.road({ id: source, source, edited: "", length }));
    this.base = new Layer(new Lines(sheet.lines), roads);
    this.byId = new Map(roads.map((road) => [road.id, road]));
    this.added = new Map();
    this.layAdded();
  }

  // A road with what it has of the edge that it is, or is a part of; a drawn one has none.
  road(told) {
    const { length, worth, confidence, kph, inferred } = this.sheet;
    const row = told.source;
    return Object.assign(told, {
      confidence: confidence?.[row] ?? null, kph: told.kph ?? kph?.[row] ?? null, inferred: inferred?.[row] ?? 0,
      worth: row < 0 ? 0 : worth[row] * (told.length / (length[row] || 1)),
    });
  }

  // Take over what the server says has changed.
  change({ removed, changed }) {
    for (const id of removed) this.remove(id);
    for (const told of changed) {
      const road = this.road(told);
      const former = this.byId.get(road.id);
      if (road.xy) {
        this.remove(road.id);
        this.byId.set(road.id, road);
        this.added.set(road.id, road);
      } else {
        former.layer.renew(Object.assign(former, road));
      }
    }
    this.layAdded();
  }

  remove(id) {
    const road = this.byId.get(id);
    this.byId.delete(id);
    if (!this.added.delete(id) && road) this.base.remove(road);
  }

  layAdded() {
    const roads = [...this.added.values()];
    const xy = roads.flatMap((road) => road.xy).map((step, at, all) => step - (all[at - 2] ?? 0));
    const sizes = roads.map((road) => road.xy.length / 2);
    this.fresh = new Layer(new Lines({ step: this.sheet.lines.step, sizes, xy }), roads);
  }

  pointsOf({ layer, row }) {
    return layer.lines.part(row, 0, 1);
  }

  boxOf({ layer: { lines }, row }) {
    return lines.boxOf(lines.starts[row], lines.starts[row + 1]);
  }

  // The road nearest to a place, no farther than `most`; null if there is none.
  nearest(place, most) {
    const found = [this.base, this.fresh].map((layer) => layer.nearest(place, most)).filter(Boolean);
    return found.sort((a, b) => a.away - b.away)[0]?.road ?? null;
  }

  draw(context, view) {
    for (const { strokes } of [this.base, this.fresh]) strokes.draw(context, view, CLASSES, roadWidth(view));
  }
}

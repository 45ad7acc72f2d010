// Map: the large view with its tools; it draws, moves and picks roads.

const LAYERS = [
  { key: "image", name: "Imagery", on: true },
  { key: "probability", name: "Probability", on: false },
  { key: "mask", name: "Mask", on: false },
  { key: "reference", name: "Labels", on: false },
  { key: "errors", name: "Errors", on: false },
  { key: "graph", name: "Graph", on: true },
];
const MANY_LINES = 2500; // more are moved as a picture while the map moves
const LEAST_SHOWN = 0.03; // of the map, or it begins with one scene
const SETTLED_MS = 110;
const SNAP_PX = 10;
const PICTURES = ["image", "probability", "mask"];
const REACH_M = 2000; // so far from the scenes places are known, see `areas.py`
const NEAR_SCALE = 1; // pixels a metre at least where a place is shown that was searched for
const EDGE_SCALE = 3; // pixels a metre at most where an edge is shown

const layerName = (wanted) => LAYERS.find(({ key }) => key === wanted).name;

class RoadMap {
  // The folder of the graphs is for command lines; `heldOut` names the scenes that were held out as a whole.
  constructor(told, { title, credits, folder, heldOut }) {
    Object.assign(this, { told, title, credits, folder, heldOut, areas: told.areas, area: 0, scene: null });
    Object.assign(this, { picked: null, under: null, pinned: null, lines: 0 });
    this.graphs = told.graphs.map((graph) => new Graph(graph));
    this.scenes = told.scenes.map((scene) => this.readScene(scene));
    this.modes = this.orderModes(speedMode(told.bins), certaintyMode());
    this.mode = this.modes[0];
    this.filter = new Filter(this.modes.slice(0, 2));
    this.shown = Object.fromEntries(LAYERS.map(({ key, on }) => [key, on]));
    this.opacity = Object.fromEntries(PICTURES.map((key) => [key, 1]));
    this.view = new Viewport();
    this.ground = byId("ground").getContext("2d");
    this.roads = byId("roads").getContext("2d");
    this.copy = document.createElement("canvas").getContext("2d");
    this.trip = new Trip(this);
    this.marks = new Marks(this);
    this.swipe = new Swipe(this);
    this.panel = new Panel(this);
    this.tip = new Tip();
    this.tools = new Tools(this);
    this.hands = new Hands(this);
    this.search = new Search(this);
    this.resize();
    this.show(this.firstScene());
    this.address = new Address(this);
    new ResizeObserver(() => this.resize()).observe(byId("view"));
  }

  // The first mode is shown at first. One speed for all roads tells nothing, and certainty does.
  orderModes(speed, certainty) {
    const known = (mode) => seenClasses(this.graphs, mode).filter((at) => at < mode.classes.length - 1).length;
    const isCertaintyFirst = known(speed) < 2 && known(certainty) > 0;
    return [...(isCertaintyFirst ? [certainty, speed] : [speed, certainty]), inferredMode()];
  }

  readScene(scene) {
    const kept = new Map();
    const strokes = (name) => {
      if (!kept.has(name) && scene[name]) kept.set(name, new Strokes(new Lines(scene[name])));
      return kept.get(name);
    };
    const pictures = Object.fromEntries(Object.entries(scene.layers).map(([name, layer]) =>
      [name, new Picture(layer, () => this.redrawPictures())]));
    return { ...scene, strokes, pictures };
  }

  has(key) {
    if (key === "graph") return this.graphs.length > 0;
    if (key === "errors") return this.scenes.some((scene) => scene.missed);
    if (key === "reference") return this.scenes.some((scene) => scene.reference);
    return this.scenes.some((scene) => scene.pictures[key]);
  }

  // Whether the network was trained on a part of a scene: on those with labels that were not held out as a whole.
  learnedFrom({ name, reference }) {
    return Boolean(this.heldOut && reference && !this.heldOut.has(name));
  }

  shows(key) {
    return this.has(key) && (this.shown[key] || this.swipe.has(key));
  }

  get scenesHere() {
    return this.scene === null ? this.scenes.filter(({ area }) => area === this.area) : [this.scenes[this.scene]];
  }

  get graphsHere() {
    if (this.scene === null) return this.graphs.filter(({ area }) => area === this.area);
    const { graph } = this.scenes[this.scene];
    return graph === null ? [] : [this.graphs[graph]];
  }

  show(scene, area = this.area) {
    this.scene = scene;
    this.area = scene === null ? area : this.scenes[scene].area;
    this.forget();
    this.tools.update();
    this.showAll();
  }

  // Show a scene, from another part of the page.
  open(scene) {
    this.show(scene);
    byId("map").scrollIntoView();
    byId("ground").focus({ preventScroll: true });
  }

  // The scene to begin with: none in particular, unless they are specks on their map.
  firstScene() {
    const size = ([west, south, east, north]) => (east - west) * (north - south);
    const shown = this.scenesHere.reduce((sum, { box }) => sum + size(box), 0);
    const isWhole = this.scenesHere.length > 1 && shown > LEAST_SHOWN * size(this.areas[0].box);
    return isWhole || this.scenes.length === 1 ? null : this.scenes.indexOf(this.scenesHere[0]);
  }

  showAll() {
    this.view.fit(this.scene === null ? this.areas[this.area].box : this.scenes[this.scene].box);
    this.redraw();
  }

  toggle(key, on = !this.shows(key)) {
    if (!this.has(key)) return;
    this.shown[key] = on;
    if (!on && this.swipe.has(key)) this.swipe.set(null);
    if (key === "errors" && on) Object.assign(this.shown, { graph: false, reference: false });
    if (["graph", "reference"].includes(key) && on) this.shown.errors = false;
    this.tools.update();
    this.redraw();
  }

  resize() {
    const box = byId("view").getBoundingClientRect();
    if (!box.width) return;
    Object.assign(this.view, { width: box.width, height: box.height });
    const canvases = [this.ground, this.roads, this.marks.context].map(({ canvas }) => canvas);
    if (canvases.map((canvas) => sharpen(canvas, box.width, box.height)).includes(true)) this.redraw();
  }

  redrawPictures() {
    this.loaded ??= setTimeout(() => {
      this.loaded = null;
      this.drawPictures();
    }, 60);
  }

  redraw(moving = false) {
    this.moving = moving;
    if (this.due) return;
    this.due = requestAnimationFrame(() => {
      this.due = null;
      this.draw();
    });
  }

  draw() {
    clearTimeout(this.later);
    this.drawPictures();
    if (this.moving && this.lines > MANY_LINES) {
      this.drawKept();
      this.later = setTimeout(() => this.redraw(), SETTLED_MS);
    } else {
      this.drawRoads();
    }
    this.moving = false;
    this.marks.draw();
    this.tools.tellScale();
    this.address?.write();
  }

  drawPictures() {
    clear(this.ground);
    for (const layer of PICTURES.filter((name) => this.shows(name))) {
      this.swipe.clip(this.ground, layer, () => {
        this.ground.globalAlpha = this.opacity[layer];
        for (const scene of this.scenesHere) scene.pictures[layer]?.draw(this.ground, this.view);
      });
    }
  }

  drawRoads() {
    const { roads: context, view } = this;
    const scenes = this.scenesHere.filter(({ box }) => view.sees(box));
    const drawn = {
      graph: () => this.graphsHere.map((graph) => drawGraph(context, view, graph, this.mode, this.filter)),
      reference: () => scenes.map((scene) => drawLabels(context, view, scene)),
      errors: () => scenes.map((scene) => drawErrors(context, view, scene)),
    };
    this.lines = 0;
    clear(context);
    for (const layer of Object.keys(drawn).filter((name) => this.shows(name))) {
      this.swipe.clip(context, layer, () => {
        this.lines += drawn[layer]().reduce((sum, lines) => sum + lines, 0);
      });
    }
    this.kept = null;
    this.drawn = { ...view };
  }

  keep() {
    const { canvas } = this.roads;
    Object.assign(this.copy.canvas, { width: canvas.width, height: canvas.height });
    this.copy.drawImage(canvas, 0, 0);
    this.kept = this.drawn;
  }

  // Draw the roads as they were drawn last, where their ground is now.
  drawKept() {
    if (!this.kept) this.keep();
    const { kept, view, roads } = this;
    const by = view.scale / kept.scale;
    const ratio = roads.canvas.width / view.width;
    const [left, top] = view.toScreen([
      kept.x - kept.width / 2 / kept.scale, kept.y + kept.height / 2 / kept.scale]);
    clear(roads);
    roads.drawImage(this.copy.canvas, left * ratio, top * ratio,
      this.copy.canvas.width * by, this.copy.canvas.height * by);
  }

  // The road nearest to a place on the screen, of any graph that is shown.
  roadAt(place, reach = SNAP_PX) {
    if (!this.shows("graph") && !this.shows("errors")) return null;
    const { filter } = this;
    const shows = filter.isOn ? (graph) => (row) => filter.shows(graph, row) : () => null;
    return this.nearest(this.view.toGround(place), reach / this.view.scale, shows);
  }

  // The nearest line of the graphs here; of some graphs only those of which `shows(graph)` says so.
  nearest([x, y], most, shows = () => null) {
    let best = null;
    for (const graph of this.graphsHere) {
      const found = graph.lines.nearest(x, y, best ? best.away : most, shows(graph));
      if (found) best = { graph, row: found.row, away: found.away };
    }
    return best;
  }

  // Tell of the road under the pointer, at a place on the screen; null where there is no pointer.
  hover(place) {
    const road = place && !this.trip.isOn ? this.roadAt(place) : null;
    this.ground.canvas.classList.toggle("over", Boolean(road));
    if (road) this.tip.show(road, place, this.view);
    else this.tip.hide();
    const isSame = road?.graph === this.under?.graph && road?.row === this.under?.row;
    this.under = road;
    if (!isSame) this.marks.draw();
  }

  click(place, reach) {
    if (this.trip.isOn) {
      this.trip.add(this.view.toGround(place));
      return;
    }
    this.picked = this.roadAt(place, reach);
    this.panel.showPicked();
    this.marks.draw();
  }

  // Show an edge, and tell of it.
  pick(graph, row) {
    if (!this.graphsHere.includes(graph)) this.show(null, graph.area);
    this.forget();
    this.toggle("graph", true);
    this.picked = { graph, row };
    this.view.fit(graph.lines.boxOf(graph.lines.starts[row], graph.lines.starts[row + 1]), 0.3);
    this.view.scale = Math.min(this.view.scale, EDGE_SCALE);
    this.panel.showPicked();
    this.redraw();
  }

  // Show a place of an area, given in degrees, with a pin.
  goTo(area, lonLat) {
    const isInside = ([west, south, east, north], [x, y]) => west <= x && x <= east && south <= y && y <= north;
    const stays = area === this.area && (this.scene === null || isInside(this.scenes[this.scene].box, this.place(lonLat)));
    if (!stays) this.show(null, area);
    this.forget();
    this.pinned = this.place(lonLat);
    this.view.look(this.pinned, Math.max(this.view.scale, NEAR_SCALE));
    this.redraw();
  }

  degrees(place) {
    const { to_degrees: fitted } = this.areas[this.area];
    const { origin } = this.areas[this.area];
    return fitted ? convert(fitted, place) : [place[0] + origin[0], place[1] + origin[1]];
  }

  place(lonLat) {
    const { from_degrees: fitted, origin } = this.areas[this.area];
    return fitted ? convert(fitted, lonLat) : [lonLat[0] - origin[0], lonLat[1] - origin[1]];
  }

  // Whether a place, in degrees where there are such, is on the map of an area or near it.
  reaches(area, lonLat) {
    const { from_degrees: fitted, box, origin } = this.areas[area];
    if (fitted) return lonLat.every((value, at) => Math.abs(value - fitted.centre[at]) <= fitted.scale[at]);
    const [x, y] = [lonLat[0] - origin[0], lonLat[1] - origin[1]];
    return box[0] - REACH_M <= x && x <= box[2] + REACH_M && box[1] - REACH_M <= y && y <= box[3] + REACH_M;
  }

  forget() {
    Object.assign(this, { picked: null, under: null, pinned: null });
    this.trip.clear();
    this.tip.hide();
    this.panel.showNothing();
    this.marks.draw();
    this.address?.write();
  }
}

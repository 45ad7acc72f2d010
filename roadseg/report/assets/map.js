// Map: the large view with its tools; it draws, moves, picks roads and finds routes.

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
const APART_M = 50; // farther from the road than in another graph, and the way is of no use

class RoadMap {
  // The folder of the graphs is for command lines; `measured` names the scenes that were held out.
  constructor(told, { folder, measured }) {
    Object.assign(this, { told, folder, measured, areas: told.areas, area: 0, scene: null, picked: null, route: null });
    this.graphs = told.graphs.map((graph) => new Graph(graph));
    this.scenes = told.scenes.map((scene) => this.readScene(scene));
    this.modes = [speedMode(told.bins), certaintyMode(), inferredMode()];
    this.mode = this.modes[0];
    this.shown = Object.fromEntries(LAYERS.map(({ key, on }) => [key, on]));
    this.view = new Viewport();
    this.ends = [];
    this.lines = 0;
    this.ground = byId("ground").getContext("2d");
    this.roads = byId("roads").getContext("2d");
    this.marks = byId("marks").getContext("2d");
    this.copy = document.createElement("canvas").getContext("2d");
    this.panel = new Panel(this);
    this.tools = new Tools(this);
    this.hands = new Hands(this);
    this.resize();
    this.show(this.firstScene());
    new ResizeObserver(() => this.resize()).observe(byId("view"));
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

  toggle(key, on = !this.shown[key]) {
    if (!this.has(key)) return;
    this.shown[key] = on;
    if (key === "errors" && on) Object.assign(this.shown, { graph: false, reference: false });
    if (["graph", "reference"].includes(key) && on) this.shown.errors = false;
    this.tools.update();
    this.redraw();
  }

  resize() {
    const box = byId("view").getBoundingClientRect();
    if (!box.width) return;
    Object.assign(this.view, { width: box.width, height: box.height });
    const canvases = [this.ground, this.roads, this.marks].map(({ canvas }) => canvas);
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
    this.drawMarks();
    this.tools.tellScale();
  }

  drawPictures() {
    clear(this.ground);
    for (const layer of ["image", "probability", "mask"].filter((name) => this.shown[name])) {
      for (const scene of this.scenesHere) scene.pictures[layer]?.draw(this.ground, this.view);
    }
  }

  drawRoads() {
    const { roads: context, view } = this;
    this.lines = 0;
    clear(context);
    if (this.shown.graph) for (const graph of this.graphsHere) this.lines += drawGraph(context, view, graph, this.mode);
    for (const scene of this.scenesHere.filter(({ box }) => view.sees(box))) {
      if (this.shown.reference) this.lines += drawLabels(context, view, scene);
      if (this.shown.errors) this.lines += drawErrors(context, view, scene);
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

  drawMarks() {
    const { marks: context, view } = this;
    clear(context);
    if (this.route) this.drawRoute();
    if (this.picked) this.drawLine(this.picked.graph.lines.part(this.picked.row, 0, 1), PICKED_COLOUR, 5);
    this.ends.forEach((end, at) => this.drawEnd(end, "AB"[at]));
    if (this.hands.byKeys) this.drawMiddle(context, view);
  }

  drawLine(points, colour, width) {
    const ratio = this.marks.canvas.width / this.view.width;
    const { marks: context } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.lineJoin = "round";
    context.lineCap = "round";
    for (const [stroke, wide] of [["#0d1219", width + 3], [colour, width]]) {
      context.beginPath();
      points.forEach((point, at) => context[at ? "lineTo" : "moveTo"](...this.view.toScreen(point)));
      context.strokeStyle = stroke;
      context.lineWidth = wide;
      context.stroke();
    }
  }

  drawRoute() {
    this.drawLine(this.route.points.flat(), ROUTE_COLOUR, 5);
  }

  drawEnd({ at, on }, name) {
    const ratio = this.marks.canvas.width / this.view.width;
    const { marks: context } = this;
    const [x, y] = this.view.toScreen(at);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (on) {
      context.setLineDash([4, 4]);
      context.strokeStyle = "#fff";
      context.lineWidth = 2;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(...this.view.toScreen(on));
      context.stroke();
      context.setLineDash([]);
    }
    context.beginPath();
    context.arc(x, y, 10, 0, 7);
    context.fillStyle = "#1a2230";
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = "#fff";
    context.stroke();
    context.fillStyle = "#fff";
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(name, x, y + 0.5);
  }

  drawMiddle(context, view) {
    const ratio = context.canvas.width / view.width;
    context.setTransform(ratio, 0, 0, ratio, view.width / 2 * ratio, view.height / 2 * ratio);
    for (const [colour, width] of [["#0d1219", 4], ["#fff", 2]]) {
      context.beginPath();
      for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(4 * x, 4 * y);
        context.lineTo(12 * x, 12 * y);
      }
      Object.assign(context, { strokeStyle: colour, lineWidth: width });
      context.stroke();
    }
  }

  // The road nearest to a place on the screen, of any graph that is shown.
  roadAt(place, reach = SNAP_PX) {
    if (!this.shown.graph && !this.shown.errors) return null;
    return this.nearest(this.view.toGround(place), reach / this.view.scale);
  }

  nearest([x, y], most) {
    let best = null;
    for (const graph of this.graphsHere) {
      const found = graph.lines.nearest(x, y, best ? best.away : most);
      if (found) best = { graph, row: found.row, away: found.away };
    }
    return best;
  }

  click(place, reach) {
    if (this.routing) {
      this.addEnd(this.view.toGround(place));
      return;
    }
    this.picked = this.roadAt(place, reach);
    this.panel.showPicked();
    this.drawMarks();
  }

  addEnd(at) {
    if (this.ends.length === 2) this.ends = [];
    this.route = null;
    this.ends.push({ at, on: null });
    if (this.ends.length === 2) this.findWay();
    else this.panel.tellRoute("Now click the destination.");
    this.drawMarks();
  }

  findWay() {
    const found = this.routeBetween(...this.ends.map(({ at }) => at));
    if (found.points) {
      this.route = found;
      const flat = found.points.flat();
      if (flat.length) [this.ends[0].on, this.ends[1].on] = [flat[0], flat[flat.length - 1]];
    }
    this.panel.showRoute(found, this.ends.map(({ at }) => this.degrees(at)));
  }

  // The way between two places, on the graph that is nearest to both.
  routeBetween(from, to) {
    const most = this.told.snap_m;
    const [here, there] = [from, to].map((place) => this.nearest(place, most));
    if (!here || !there) return { problem: `The ${here ? "destination" : "start"} is more than ${most} m from any road.` };
    const ways = [here.graph, there.graph].map((graph) => {
      const ends = [from, to].map((place) => graph.enter(...place, most));
      return { graph, ends, away: ends[0] && ends[1] ? ends[0].away + ends[1].away : Infinity };
    });
    const { graph, ends, away } = ways[0].away <= ways[1].away ? ways[0] : ways[1];
    if (away - here.away - there.away > APART_M) {
      return { problem: `No route: ${here.graph.name} and ${there.graph.name} are separate graphs.` };
    }
    const found = findRoute(graph, ...ends);
    if (!found) return { problem: "No route: these roads are not connected.", graph: graph.name };
    return { ...found, graph: graph.name };
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

  startRouting(on) {
    this.routing = on;
    this.forget();
    this.tools.update();
    if (on) this.panel.tellRoute("Click the start.");
  }

  forget() {
    Object.assign(this, { picked: null, route: null, ends: [] });
    this.panel.showNothing();
    this.drawMarks();
  }
}

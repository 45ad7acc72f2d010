// Review: goes through the roads, and tells the server what the person does to them.

const REACH_PX = 12;
const NEAREST_SCALE = 3; // pixels a metre at most where a road is shown
const MODES = {
  draw: ["Draw: choose one end of the missing road.", "Draw: choose its other end. Escape ends."],
  move: ["Move: choose a vertex of a road.", "Move: choose where it belongs. Escape ends."],
  join: ["Join: choose the end of a road.", "Join: choose the road that it leads to. Escape ends."],
  split: ["Split: choose the place on a road. Escape ends."],
};
const KEYS = [
  ["A", "accept the road"], ["R", "reject it"], ["N", "next road"], ["P", "previous road"], ["F", "show the road again"],
  ["U", "undo (or Ctrl+Z)"], ["Y", "redo (or Ctrl+Shift+Z)"], ["V", "set the speed"],
  ["D", "draw a missing road"], ["M", "move a vertex"], ["J", "join an end to a road"], ["S", "split a road"],
  ["I", "image on or off"], ["O", "probabilities on or off"], ["H", "roads on or off"], ["+ −", "zoom"], ["0", "show all"],
  ["Arrows", "move the map"], ["Enter", "choose what is in the middle"], ["?", "these keys"],
];
const POST = { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" };
const GONE = "The server does not answer. All that was acknowledged is kept. Start the review again, which opens at a new address.";

class Review {
  constructor(told, changes) {
    Object.assign(this, { told, view: new Viewport(), mode: null, first: null, pointer: null, busy: Promise.resolve(), seen: [], skipped: new Set() });
    Object.assign(this, { shown: { image: true, probability: false, roads: true }, tiles: new Tiles(() => this.redraw()) });
    this.contexts = Object.fromEntries(["ground", "roads", "marks"].map((id) => [id, byId(id).getContext("2d")]));
    this.actions = this.keyActions();
    this.hands = new Hands(this);
    this.watchButtons();
    chooseUnits(told.units);
    this.take(changes);
    this.resize();
    this.showAll();
    new ResizeObserver(() => this.resize()).observe(byId("view"));
    this.next();
  }

  // Take over all that edits have changed.
  take(told) {
    this.sheets = this.told.sheets.map((sheet) => ({ ...sheet, roads: new Roads(sheet) }));
    told.changes.forEach((change, sheet) => this.sheets[sheet].roads.change(change));
    this.sheet = Math.min(this.sheet ?? 0, this.sheets.length - 1);
    this.current = null;
    const every = this.sheets.flatMap(({ roads }, sheet) => [...roads.byId.values()].map((road) => ({ sheet, id: road.id, worth: road.worth })));
    this.order = every.sort((a, b) => b.worth - a.worth);
    byId("speed-unit").textContent = speedText(0).split(" ")[1];
    this.tellProgress(told);
    if (told.left_out.length) this.tell(`Of edits.gpkg, ${told.left_out.length} could not be used: ${told.left_out[0]}`);
  }

  road({ sheet, id }) {
    return this.sheets[sheet].roads.byId.get(id);
  }

  get here() {
    return this.sheets[this.sheet];
  }

  // Do one thing after the other, as each waits until the server has kept the one before.
  queue(work) {
    this.busy = this.busy.then(work).catch(() => this.tell(GONE, true));
    return this.busy;
  }

  async ask(path, body = {}) {
    const answer = await fetch(path, { ...POST, body: JSON.stringify(body) });
    const told = await answer.json();
    if (told.reload) {
      this.take(await fetched("changes"));
      this.showCurrent();
    }
    if (told.error) this.tell(told.error, true);
    if (!answer.ok || told.reload) return null;
    this.sheets[told.sheet].roads.change(told);
    const added = told.changed.filter(({ id }) => !this.order.some((each) => each.sheet === told.sheet && each.id === id));
    this.order.unshift(...added.map(({ id, worth }) => ({ sheet: told.sheet, id, worth })));
    // Of a road that was cut, a part is looked at.
    if (this.current && !this.road(this.current)) {
      const part = told.changed.find(isOpen);
      this.current = part ? { sheet: told.sheet, id: part.id } : null;
    }
    this.tellProgress(told);
    this.redraw();
    return told;
  }

  decide(kind) {
    this.queue(async () => {
      if (!this.current) return this.tell("Choose a road first: N goes to the next one.");
      const { sheet, id } = this.current;
      if (!(await this.ask("edit", { kind, sheet, id }))) return undefined;
      return this.step(1, kind === "accept" ? "Accepted." : "Rejected.");
    });
  }

  setSpeed() {
    this.queue(async () => {
      const typed = Number(byId("speed").value);
      if (!this.current) return this.tell("Choose a road first.");
      if (!(typed > 0)) return this.tell("Type a speed above 0.", true);
      const kph = UNITS.isMetric ? typed : typed * KM_PER_MILE;
      if (await this.ask("edit", { kind: "speed", ...this.current, kph })) {
        this.showCurrent(false);
        this.tell(`Speed set to ${speedText(kph)}.`);
      }
      return undefined;
    });
  }

  undo() {
    this.queue(async () => this.afterTurn(await this.ask("undo"), "Undone."));
  }

  redo() {
    this.queue(async () => this.afterTurn(await this.ask("redo"), "Redone."));
  }

  finish() {
    this.queue(async () => {
      if (byId("ended").open) return undefined; // A second click; nobody answers any more.
      const answer = await fetch("finish", POST);
      if (!answer.ok) return this.tell((await answer.json()).error, true);
      return byId("ended").showModal();
    });
  }

  // Show where something was undone or redone.
  afterTurn(told, said) {
    if (!told) return;
    const [road] = told.changed;
    if (road) this.go({ sheet: told.sheet, id: road.id });
    else this.showCurrent(false);
    this.tell(said);
  }

  // Go to a road that is still open: the one of most worth, or back to one that was seen.
  step(by, said = "") {
    if (by < 0) {
      while (this.seen.length && !this.road(this.seen.at(-1))) this.seen.pop();
      const back = this.seen.pop();
      if (!back) return this.tell("This is where you began.");
      this.current = back;
      this.showCurrent();
      return this.tell(said);
    }
    const key = ({ sheet, id }) => `${sheet} ${id}`;
    const here = this.current && key(this.current);
    if (here && !said) this.skipped.add(here);
    const open = (allows) => this.order.find((each) => isOpen(this.road(each) ?? {}) && allows(key(each)));
    let ahead = open((each) => each !== here && !this.skipped.has(each));
    if (!ahead) {
      this.skipped.clear();
      ahead = open((each) => each !== here) ?? open(() => true);
    }
    if (!ahead) {
      this.showCurrent(false);
      return this.tell(`${said} All roads are decided. Press Finish to end the review.`);
    }
    this.go({ sheet: ahead.sheet, id: ahead.id });
    return this.tell(said);
  }

  next() {
    this.queue(() => this.step(1));
  }

  go(place) {
    if (this.current) this.seen.push(this.current);
    this.current = place;
    this.showCurrent();
  }

  showCurrent(isMoved = true) {
    const road = this.current && this.road(this.current);
    if (!road) this.current = null;
    for (const id of ["accept", "reject", "set-speed", "speed"]) byId(id).disabled = !road;
    byId("road-title").textContent = road ? this.titleOf(road) : "No road chosen";
    byId("road-facts").textContent = road ? this.factsOf(road) : "N goes to the road that most needs a look.";
    byId("speed").value = road?.kph ? Math.round(UNITS.isMetric ? road.kph : road.kph / KM_PER_MILE) : "";
    if (road && isMoved) {
      this.sheet = this.current.sheet;
      this.view.fit(this.here.roads.boxOf(road), 0.22);
      this.view.scale = Math.min(this.view.scale, NEAREST_SCALE);
    }
    this.redraw();
  }

  titleOf(road) {
    if (!isOpen(road)) return `${inWords(road.edited)} road`;
    return "Is this a road?";
  }

  factsOf(road) {
    const sure = road.confidence === null ? null : `${Math.round(road.confidence * 100)} % certain`;
    const facts = [isOpen(road) ? sure : null, distance(road.length), road.kph === null ? null : speedText(road.kph), road.inferred ? "inferred across a gap" : null];
    return facts.filter(Boolean).join(" · ");
  }

  tell(text, isWrong = false) {
    byId("told").textContent = text.trim();
    byId("told").classList.toggle("wrong", isWrong);
  }

  tellProgress({ undo, redo }) {
    byId("undo").disabled = !undo;
    byId("redo").disabled = !redo;
    const [count, worth] = [[0, 0], [0, 0]]; // of open roads, and of those decided about
    for (const { roads } of this.sheets) {
      for (const road of roads.byId.values()) {
        count[Number(!isOpen(road))] += Number(road.worth > 0);
        worth[Number(!isOpen(road))] += road.worth;
      }
    }
    const all = count[0] + count[1];
    const share = all ? worth[1] / (worth[0] + worth[1]) : 1;
    byId("progress").value = share;
    byId("progress-text").textContent = `${count[1]} of ${all} roads decided, ${Math.floor(share * 100)} % of the doubt`;
  }

  setMode(mode) {
    this.mode = mode === this.mode ? null : mode;
    this.first = null;
    for (const button of byId("modes").children) button.setAttribute("aria-pressed", String(button.dataset.mode === this.mode));
    byId("ground").classList.toggle("placing", this.mode !== null);
    this.tell(this.mode ? MODES[this.mode][0] : "");
    if (this.mode) byId("ground").focus({ preventScroll: true });
    this.redraw();
  }

  // A place on the screen is chosen: of what the mode needs, else the road there.
  click(place, reachPx = REACH_PX) {
    const ground = this.view.toGround(place);
    const reach = Math.min(reachPx / this.view.scale, 100);
    if (!this.mode) {
      const road = this.here.roads.nearest(ground, reach);
      if (!road) return this.tell("There is no road.");
      if (this.current) this.seen.push(this.current);
      this.current = { sheet: this.sheet, id: road.id };
      return this.showCurrent(false);
    }
    if (MODES[this.mode].length > 1 && !this.first) {
      this.first = ground;
      this.tell(MODES[this.mode][1]);
      return this.redraw();
    }
    const { mode: kind, first, sheet } = this;
    const places = first ? { from: first, to: ground } : { from: ground };
    this.first = null;
    return this.queue(async () => {
      const told = await this.ask("edit", { kind, sheet, reach, ...places });
      if (told) {
        this.showCurrent(false);
        this.tell(`${{ draw: "Drawn", move: "Moved", join: "Joined", split: "Split" }[kind]}. ${MODES[kind][0]}`);
      }
      this.redraw();
    });
  }

  // Follow the pointer with the line that is being drawn.
  point(place) {
    this.pointer = place;
    if (this.first) this.redraw();
  }

  toggle(layer) {
    this.shown[layer] = !this.shown[layer];
    for (const button of byId("layers").children) button.setAttribute("aria-pressed", String(this.shown[button.dataset.layer]));
    this.redraw();
  }

  keyActions() {
    const move = (right, down) => () => { this.view.move(right, down); this.pointer = null; this.redraw(); };
    const zoom = (by) => () => { this.view.zoom(by); this.redraw(); };
    const modes = Object.fromEntries(Object.keys(MODES).map((mode) => [mode[0], () => this.setMode(mode)]));
    return {
      a: () => this.decide("accept"), r: () => this.decide("reject"), n: () => this.next(), p: () => this.queue(() => this.step(-1)),
      u: () => this.undo(), y: () => this.redo(), ...modes, v: () => byId("speed").select(), f: () => this.showCurrent(),
      i: () => this.toggle("image"), o: () => this.toggle("probability"), h: () => this.toggle("roads"),
      ArrowLeft: move(80, 0), ArrowRight: move(-80, 0), ArrowUp: move(0, 80), ArrowDown: move(0, -80),
      "+": zoom(1.4), "=": zoom(1.4), "-": zoom(1 / 1.4), 0: () => this.showAll(),
      Enter: () => this.click([this.view.width / 2, this.view.height / 2]), "?": () => byId("help").showModal(),
      Escape: () => this.setMode(this.mode),
    };
  }

  watchButtons() {
    const does = { accept: "a", reject: "r", next: "n", previous: "p", undo: "u", redo: "y", closer: "+", farther: "-", whole: "0", "help-button": "?" };
    for (const [id, key] of Object.entries(does)) byId(id).addEventListener("click", () => this.actions[key]());
    byId("finish").addEventListener("click", () => this.finish());
    for (const button of byId("modes").children) button.addEventListener("click", () => this.setMode(button.dataset.mode));
    for (const button of byId("layers").children) button.addEventListener("click", () => this.toggle(button.dataset.layer));
    byId("speed-form").addEventListener("submit", (event) => {
      event.preventDefault();
      byId("ground").focus({ preventScroll: true });
      this.setSpeed();
    });
    byId("keys").append(...KEYS.map(([key, does]) => make("p", {}, make("kbd", {}, key), ` ${does}`)));
    const decided = CERTAINTY.classes.length;
    byId("legend").append(make("p", {}, "Certainty"), ...CLASSES.slice(0, decided).map(keyOf),
      make("p", {}, "Decided"), ...CLASSES.slice(decided).map(keyOf));
  }

  showAll() {
    this.view.fit(this.here.box);
    this.redraw();
  }

  resize() {
    const { width, height } = byId("view").getBoundingClientRect();
    if (!width) return;
    Object.assign(this.view, { width, height });
    for (const { canvas } of Object.values(this.contexts)) sharpen(canvas, width, height);
    this.redraw();
  }

  redraw() {
    this.due ??= requestAnimationFrame(() => {
      this.due = null;
      this.draw();
    });
  }

  draw() {
    const { ground, roads } = this.contexts;
    clear(ground);
    clear(roads);
    this.here.scenes.forEach(({ layers }, scene) => {
      for (const layer of ["image", "probability"].filter((name) => this.shown[name] && layers[name])) {
        this.tiles.draw(ground, this.view, `sheet=${this.sheet}&scene=${scene}&layer=${layer}`, layers[layer]);
      }
    });
    if (this.shown.roads) this.here.roads.draw(roads, this.view);
    this.drawMarks();
    const { metres, text } = roundLength(120 / this.view.scale);
    Object.assign(byId("bar"), { textContent: text }).style.width = `${metres * this.view.scale}px`;
  }

  // The road that is looked at, what is being drawn, and in a mode the middle of the map.
  drawMarks() {
    const { marks } = this.contexts;
    const { view } = this;
    const ratio = marks.canvas.width / view.width;
    clear(marks);
    marks.setTransform(ratio, 0, 0, ratio, 0, 0);
    const path = (points) => {
      marks.beginPath();
      for (const point of points) marks.lineTo(...point);
    };
    const stroke = (colour, width) => {
      Object.assign(marks, { strokeStyle: colour, lineWidth: width, lineCap: "round", lineJoin: "round" });
      marks.stroke();
    };
    const road = this.current?.sheet === this.sheet && this.road(this.current);
    if (road && this.shown.roads) {
      path(this.here.roads.pointsOf(road).map((point) => view.toScreen(point)));
      // Two thin lines beside the road leave what is under it to be seen.
      marks.globalCompositeOperation = "source-over";
      stroke("#0d1219", 15);
      stroke(PICKED_COLOUR, 12);
      marks.globalCompositeOperation = "destination-out";
      stroke("#000", 7);
      marks.globalCompositeOperation = "source-over";
    }
    const middle = [view.width / 2, view.height / 2];
    if (this.first) {
      const start = view.toScreen(this.first);
      path([start, this.pointer ?? middle]);
      marks.setLineDash([5, 6]);
      stroke("#fff", 2.5);
      marks.setLineDash([]);
      marks.beginPath();
      marks.arc(...start, 6, 0, 7);
      stroke("#0d1219", 5);
      stroke("#ff3fb4", 3);
    }
    if (this.mode && !this.pointer) {
      for (const [colour, width] of [["#0d1219", 4], ["#fff", 2]]) {
        for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
          path([[middle[0] + 4 * x, middle[1] + 4 * y], [middle[0] + 14 * x, middle[1] + 14 * y]]);
          stroke(colour, width);
        }
      }
    }
  }
}

const fetched = (path) => fetch(path).then((answer) => answer.json());

Promise.all([fetched("data"), fetched("changes")]).then((told) => {
  window.review = new Review(...told); // for tests, and for whoever opens the console
}).catch(() => {
  byId("told").textContent = GONE;
});

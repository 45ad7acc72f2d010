// Tools: the switches of the map, its legend and scale, and the hands that move it.

class Tools {
  constructor(map) {
    this.map = map;
    this.fillScenes();
    this.buttons = Object.fromEntries(LAYERS.map(({ key, name }) => [key, this.button(key, name)]));
    for (const mode of map.modes) byId("colour").append(make("option", { value: mode.key }, mode.name));
    byId("colour").addEventListener("change", (event) => {
      map.mode = map.modes.find(({ key }) => key === event.target.value);
      map.toggle("graph", true);
      this.update();
    });
    byId("route").addEventListener("click", () => map.startRouting(!map.routing));
    byId("closer").addEventListener("click", () => this.zoom(1.6));
    byId("farther").addEventListener("click", () => this.zoom(1 / 1.6));
    byId("whole").addEventListener("click", () => map.showAll());
    byId("route").disabled = !map.graphs.length;
    byId("save").addEventListener("click", () => this.save());
    byId("save").hidden = !map.graphs.length || !map.areas.every((area) => area.to_degrees);
    this.update();
  }

  zoom(by) {
    this.map.view.zoom(by);
    this.map.redraw();
  }

  button(key, name) {
    const button = make("button", { type: "button", class: "tool", "data-layer": key,
      onclick: () => this.map.toggle(key) }, name);
    button.disabled = !this.map.has(key);
    if (button.disabled) button.title = "Not in this run";
    byId("layers").append(button);
    return button;
  }

  rowsOf(area) {
    return this.map.scenes.flatMap((scene, row) => (scene.area === area ? [row] : []));
  }

  optionOf(area) {  // an area of one scene has no option of its own
    const here = this.rowsOf(area);
    return here.length > 1 ? `a${area}` : `s${here[0]}`;
  }

  fillScenes() {
    const { scenes, areas } = this.map;
    areas.forEach((_, area) => {
      const here = this.rowsOf(area);
      const name = areas.length > 1 ? `Area ${area + 1}` : "All scenes";
      const all = here.length > 1 ? [make("option", { value: this.optionOf(area) }, `${name} (${here.length})`)] : [];
      const { measured } = this.map;
      const learnt = (name) => (measured && !measured.has(name) ? " (trained on)" : "");
      const options = here.map((row) => make("option", { value: `s${row}` }, `${scenes[row].name}${learnt(scenes[row].name)}`));
      byId("scene").append(...(areas.length > 1
        ? [make("optgroup", { label: name }, ...all, ...options)] : [...all, ...options]));
    });
    byId("scene-field").hidden = scenes.length < 2;
    byId("scene").addEventListener("change", (event) => {
      const [kind, number] = [event.target.value[0], Number(event.target.value.slice(1))];
      this.map.show(kind === "s" ? number : null, kind === "a" ? number : undefined);
    });
  }

  update() {
    const { map } = this;
    for (const [key, button] of Object.entries(this.buttons ?? {})) {
      button.setAttribute("aria-pressed", String(map.shown[key] && map.has(key)));
    }
    byId("route").setAttribute("aria-pressed", String(Boolean(map.routing)));
    byId("ground").classList.toggle("routing", Boolean(map.routing));
    byId("scene").value = map.scene === null ? this.optionOf(map.area) : `s${map.scene}`;
    byId("colour").value = map.mode.key;
    byId("told").textContent = this.summary();
    byId("legend").replaceChildren(...this.legend());
  }

  summary() {
    const { map } = this;
    const edges = map.graphsHere.reduce((sum, graph) => sum + graph.lines.count, 0);
    const metres = map.graphsHere.reduce((sum, graph) =>
      sum + graph.columns.length_m.reduce((a, b) => a + b, 0), 0);
    const learnt = map.measured ? map.scenesHere.filter(({ name }) => !map.measured.has(name)).length : 0;
    const seen = learnt ? ` · ${learnt} of ${map.scenesHere.length} scenes trained on, where results look better than elsewhere` : "";
    return `${(metres / 1000).toFixed(2)} km of roads on ${edges} edges · coordinates in ${map.areas[map.area].crs}${seen}`;
  }

  // Download the roads that are shown.
  save() {
    const features = this.map.graphsHere.flatMap((graph) => Array.from({ length: graph.lines.count }, (_, row) => ({
      type: "Feature",
      properties: Object.fromEntries(Object.keys(graph.columns).map((name) => [name, graph.get(name, row)])),
      geometry: { type: "LineString", coordinates: graph.lines.part(row, 0, 1).map((place) => this.map.degrees(place).map((value) => +value.toFixed(7))) },
    })));
    const text = JSON.stringify({ type: "FeatureCollection", features });
    const address = URL.createObjectURL(new Blob([text], { type: "application/geo+json" }));
    make("a", { href: address, download: `${document.title.split(" ")[0]}.geojson` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  legend() {
    const { map } = this;
    const parts = [];
    const add = (title, ...rows) => parts.push(make("p", {}, title), ...rows);
    if (map.shown.graph && map.graphsHere.length) {
      add(map.mode.name, ...seenClasses(map.graphsHere, map.mode).map((at) => keyOf(map.mode.classes[at])));
    }
    if (map.shown.reference && map.has("reference")) add("Labels", keyOf({ name: "reference road", colour: LABEL_COLOUR }));
    if (map.shown.errors && map.has("errors")) add("Against the labels", ...ERRORS.map(keyOf));
    if (map.shown.probability && map.has("probability")) {
      add("Probability of road", make("div", { class: "ramp" }),
        make("div", { class: "ends" }, make("span", {}, "0"), make("span", {}, "1")));
    }
    if (map.shown.mask && map.has("mask")) add("Mask", keyOf({ name: `probability ≥ ${map.told.threshold}`, colour: "#00d1e0" }));
    return parts;
  }

  tellScale() {
    const { scale } = this.map.view;
    const most = 110 / scale;
    const power = 10 ** Math.floor(Math.log10(most));
    const metres = [5, 2, 1].map((digit) => digit * power).find((length) => length <= most);
    byId("bar").style.width = `${metres * scale}px`;
    byId("bar").textContent = metres >= 1000 ? `${metres / 1000} km` : `${metres} m`;
  }

  tellCursor(place) {
    const [x, y] = this.map.degrees(this.map.view.toGround(place));
    const isDegrees = Boolean(this.map.areas[this.map.area].to_degrees);
    byId("cursor").value = isDegrees ? `lon ${x.toFixed(6)}, lat ${y.toFixed(6)}` : `x ${x.toFixed(1)}, y ${y.toFixed(1)}`;
  }
}

// What mouse, fingers and keys do to the map.
class Hands {
  constructor(map) {
    Object.assign(this, { map, canvas: byId("ground"), pointers: new Map(), moved: 0, byKeys: false });
    const on = (name, done) => this.canvas.addEventListener(name, done, { passive: false });
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.drag(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("wheel", (event) => this.wheel(event));
    on("keydown", (event) => this.key(event));
    on("blur", () => this.setKeys(false));
    on("focus", () => this.setKeys(this.canvas.matches(":focus-visible") && !this.pressing));
    on("dblclick", (event) => this.zoom(2, this.placeOf(event)));
  }

  placeOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  setKeys(on) {
    if (this.byKeys !== on) {
      this.byKeys = on;
      byId("view").classList.toggle("keys", on);
      this.map.drawMarks();
    }
  }

  press(event) {
    this.pressing = true;
    this.canvas.focus({ preventScroll: true });
    this.pressing = false;
    this.setKeys(false);
    this.canvas.setPointerCapture(event.pointerId);
    if (!this.pointers.size) this.moved = 0;
    this.pointers.set(event.pointerId, this.placeOf(event));
  }

  drag(event) {
    const place = this.placeOf(event);
    const before = this.pointers.get(event.pointerId);
    this.map.tools.tellCursor(place);
    if (!before) {
      if (!this.map.routing) this.canvas.classList.toggle("over", Boolean(this.map.roadAt(place)));
      return;
    }
    const [right, down] = [place[0] - before[0], place[1] - before[1]];
    this.moved += Math.hypot(right, down);
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.pointers.set(event.pointerId, place);
    if (this.moved < 4) return;
    this.canvas.classList.add("moving");
    if (other) this.pinch(before, place, other);
    else this.map.view.move(right, down);
    this.map.redraw(true);
  }

  pinch(before, place, other) {
    const apart = (at) => Math.max(Math.hypot(at[0] - other[0], at[1] - other[1]), 1);
    const middle = [(place[0] + other[0]) / 2, (place[1] + other[1]) / 2];
    this.map.view.move((place[0] - before[0]) / 2, (place[1] - before[1]) / 2);
    this.map.view.zoom(apart(place) / apart(before), middle);
  }

  release(event) {
    const wasHere = this.pointers.delete(event.pointerId);
    this.canvas.classList.remove("moving");
    if (wasHere && !this.pointers.size && this.moved < 4) {
      this.map.click(this.placeOf(event), event.pointerType === "touch" ? 2 * SNAP_PX : SNAP_PX);
    }
  }

  wheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) {
      byId("hint").hidden = false;
      clearTimeout(this.hiding);
      this.hiding = setTimeout(() => { byId("hint").hidden = true; }, 1200);
      return;
    }
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    this.zoom(Math.exp(-Math.min(Math.max(event.deltaY * lines, -240), 240) / 320), this.placeOf(event), true);
  }

  zoom(by, place, moving = false) {
    this.map.view.zoom(by, place);
    this.map.redraw(moving);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { map } = this;
    const { width, height } = map.view;
    const actions = {
      ArrowLeft: () => map.view.move(80, 0), ArrowRight: () => map.view.move(-80, 0),
      ArrowUp: () => map.view.move(0, 80), ArrowDown: () => map.view.move(0, -80),
      "+": () => map.view.zoom(1.4), "=": () => map.view.zoom(1.4), "-": () => map.view.zoom(1 / 1.4),
      0: () => map.showAll(), Escape: () => this.stop(), r: () => map.startRouting(!map.routing),
      Enter: () => map.click([width / 2, height / 2], 3 * SNAP_PX),
      n: () => this.step(1), p: () => this.step(-1),
      ...Object.fromEntries(LAYERS.map(({ key }, at) => [at + 1, () => map.toggle(key)])),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
    this.setKeys(true);
    map.redraw();
    map.tools.tellCursor([width / 2, height / 2]);
  }

  stop() {
    if (this.map.routing) this.map.startRouting(false);
    else this.map.forget();
  }

  step(by) {
    const { scenes, scene } = this.map;
    const next = scene === null ? (by > 0 ? 0 : scenes.length - 1) : scene + by;
    this.map.show((next + scenes.length) % scenes.length);
  }
}

// Hands: what mouse, fingers and keys do to the map.

class Hands {
  constructor(map) {
    Object.assign(this, { map, canvas: byId("ground"), pointers: new Map(), moved: 0, byKeys: false });
    const on = (name, done) => this.canvas.addEventListener(name, done, { passive: false });
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.drag(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("pointerleave", () => this.map.hover(null));
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
      this.map.marks.draw();
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
      this.map.hover(event.pointerType === "touch" ? null : place);
      return;
    }
    const [right, down] = [place[0] - before[0], place[1] - before[1]];
    this.moved += Math.hypot(right, down);
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.pointers.set(event.pointerId, place);
    if (this.moved < 4) return;
    this.canvas.classList.add("moving");
    this.map.hover(null);
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
      0: () => map.showAll(), Escape: () => this.stop(), r: () => map.trip.start(!map.trip.isOn),
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
    if (this.map.trip.isOn) this.map.trip.start(false);
    else this.map.forget();
  }

  step(by) {
    const { scenes, scene } = this.map;
    const next = scene === null ? (by > 0 ? 0 : scenes.length - 1) : scene + by;
    this.map.show((next + scenes.length) % scenes.length);
  }
}

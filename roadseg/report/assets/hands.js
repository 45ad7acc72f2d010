// Hands: what mouse, fingers and keys do to the map of the report.

class Hands extends Pointers {
  constructor(map) {
    super(map, SNAP_PX);
    this.byKeys = false;
    const on = (name, done) => this.canvas.addEventListener(name, done);
    on("pointerleave", () => this.map.hover(null));
    on("keydown", (event) => this.key(event));
    on("blur", () => this.setKeys(false));
    on("focus", () => this.setKeys(this.canvas.matches(":focus-visible") && !this.pressing));
    on("dblclick", (event) => this.zoom(2, this.placeOf(event)));
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
    super.press(event);
    this.pressing = false;
    this.setKeys(false);
  }

  point(place, isTouch, isMoving) {
    this.map.tools.tellCursor(place);
    if (isMoving || !this.pointers.size) this.map.hover(isMoving || isTouch ? null : place);
  }

  wheel(event) {
    if (document.activeElement === this.canvas || event.ctrlKey) {
      super.wheel(event);
      return;
    }
    byId("hint").hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => { byId("hint").hidden = true; }, 1200);
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

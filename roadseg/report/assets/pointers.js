// Pointers: what mouse and fingers do to a map, which has a view, and the functions redraw and click.

class Pointers {
  constructor(map, reachPx) {
    Object.assign(this, { map, reachPx, canvas: byId("ground"), pointers: new Map(), moved: 0 });
    const on = (name, done) => this.canvas.addEventListener(name, done, { passive: false });
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.drag(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("wheel", (event) => this.wheel(event));
  }

  placeOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  press(event) {
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    if (!this.pointers.size) this.moved = 0;
    this.pointers.set(event.pointerId, this.placeOf(event));
  }

  drag(event) {
    const place = this.placeOf(event);
    const before = this.pointers.get(event.pointerId);
    if (before) this.moved += Math.hypot(place[0] - before[0], place[1] - before[1]);
    const isMoving = Boolean(before) && this.moved >= 4;
    this.point(place, event.pointerType === "touch", isMoving);
    if (!before) return;
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.pointers.set(event.pointerId, place);
    if (!isMoving) return;
    this.canvas.classList.add("moving");
    if (other) this.pinch(before, place, other);
    else this.map.view.move(place[0] - before[0], place[1] - before[1]);
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
      this.map.click(this.placeOf(event), (event.pointerType === "touch" ? 2 : 1) * this.reachPx);
    }
  }

  wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 20 : 1;
    this.zoom(Math.exp(-Math.min(Math.max(event.deltaY * lines, -240), 240) / 320), this.placeOf(event), true);
  }

  zoom(by, place, moving = false) {
    this.map.view.zoom(by, place);
    this.map.redraw(moving);
  }
}

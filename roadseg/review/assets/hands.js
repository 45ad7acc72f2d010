// Hands: what mouse, fingers and keys do to the map.

class Hands {
  constructor(review) {
    Object.assign(this, { review, canvas: byId("ground"), pointers: new Map(), moved: 0 });
    const on = (name, done) => this.canvas.addEventListener(name, done, { passive: false });
    on("pointerdown", (event) => this.press(event));
    on("pointermove", (event) => this.drag(event));
    on("pointerup", (event) => this.release(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("wheel", (event) => this.wheel(event));
    document.addEventListener("keydown", (event) => this.key(event));
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
    const { review } = this;
    const place = this.placeOf(event);
    const before = this.pointers.get(event.pointerId);
    review.point(event.pointerType === "touch" ? null : place);
    if (!before) return;
    const [right, down] = [place[0] - before[0], place[1] - before[1]];
    this.moved += Math.hypot(right, down);
    const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.pointers.set(event.pointerId, place);
    if (this.moved < 4) return;
    if (other) {
      const apart = (at) => Math.max(Math.hypot(at[0] - other[0], at[1] - other[1]), 1);
      review.view.move(right / 2, down / 2);
      review.view.zoom(apart(place) / apart(before), [(place[0] + other[0]) / 2, (place[1] + other[1]) / 2]);
    } else {
      review.view.move(right, down);
    }
    review.redraw();
  }

  release(event) {
    const wasHere = this.pointers.delete(event.pointerId);
    if (wasHere && !this.pointers.size && this.moved < 4) {
      this.review.choose(this.placeOf(event), event.pointerType === "touch" ? 2 * REACH_PX : REACH_PX);
    }
  }

  wheel(event) {
    event.preventDefault();
    const down = event.deltaY * (event.deltaMode === 1 ? 20 : 1);
    this.review.view.zoom(Math.exp(-Math.min(Math.max(down, -240), 240) / 320), this.placeOf(event));
    this.review.redraw();
  }

  key(event) {
    const { review } = this;
    if (event.altKey || byId("help").open || event.target.matches("input")) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    let action = null;
    if (isCommand) action = { z: () => (event.shiftKey ? review.redo() : review.undo()), y: () => review.redo() }[name];
    // Enter and the space bar belong to a button that has the focus.
    else if (!(event.target.matches("button, summary, a") && [" ", "Enter"].includes(name))) action = review.actions[name];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

// Swipe: two layers on the two sides of a divider that is dragged, or moved by keys.

class Swipe {
  constructor(map) {
    Object.assign(this, { map, layers: null, share: 0.5, divider: byId("divider") });
    this.divider.addEventListener("pointerdown", (event) => this.divider.setPointerCapture(event.pointerId));
    this.divider.addEventListener("pointermove", (event) => this.drag(event));
    this.divider.addEventListener("keydown", (event) => this.key(event));
  }

  // Show two layers, left and right of the divider; none if they are null.
  set(layers, share = this.share) {
    this.layers = layers;
    this.move(share);
    this.map.tools.update();
  }

  // Move the divider to a share of the width.
  move(share) {
    this.share = Math.min(Math.max(share, 0), 1);
    this.update();
    this.map.redraw();
  }

  has(layer) {
    return Boolean(this.layers?.includes(layer));
  }

  // Draw a layer only on its side of the divider.
  clip(context, layer, drawn) {
    const { width, height } = context.canvas;
    const at = this.share * width;
    context.save();
    if (this.has(layer)) {
      context.beginPath();
      if (layer === this.layers[0]) context.rect(0, 0, at, height);
      else context.rect(at, 0, width - at, height);
      context.clip();
    }
    drawn();
    context.restore();
  }

  drag(event) {
    if (!this.divider.hasPointerCapture(event.pointerId)) return;
    const box = byId("view").getBoundingClientRect();
    this.move((event.clientX - box.left) / box.width);
  }

  key(event) {
    const { share } = this;
    const places = { ArrowLeft: share - 0.02, ArrowRight: share + 0.02, PageDown: share - 0.1, PageUp: share + 0.1, Home: 0, End: 1 };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.move(places[event.key]);
  }

  update() {
    const { divider, layers } = this;
    divider.hidden = !layers;
    if (!layers) return;
    const [left, right] = layers.map(layerName);
    const percents = Math.round(this.share * 100);
    divider.style.left = `${this.share * 100}%`;
    divider.setAttribute("aria-valuenow", percents);
    divider.setAttribute("aria-valuetext", `${left} up to ${percents} % of the width, then ${right}`);
    byId("left-layer").textContent = left;
    byId("right-layer").textContent = right;
  }
}

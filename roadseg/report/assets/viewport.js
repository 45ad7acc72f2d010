// Viewport: which ground is seen, and how large; x to the right and y up in metres.

const [LEAST_SCALE, MOST_SCALE] = [0.002, 60]; // pixels a metre

class Viewport {
  constructor(width = 1, height = 1) {
    Object.assign(this, { width, height, x: 0, y: 0, scale: 1 });
  }

  // Show a box in whole, with a margin as a share of the view.
  fit([west, south, east, north], margin = 0.04) {
    this.x = (west + east) / 2;
    this.y = (south + north) / 2;
    const [wide, high] = [Math.max(east - west, 1), Math.max(north - south, 1)];
    this.scale = Math.min(this.width / wide, this.height / high) * (1 - 2 * margin);
    return this;
  }

  // Show a place in the middle.
  look([x, y], scale) {
    Object.assign(this, { x, y, scale: Math.min(Math.max(scale, LEAST_SCALE), MOST_SCALE) });
  }

  toGround([right, down]) {
    return [this.x + (right - this.width / 2) / this.scale, this.y - (down - this.height / 2) / this.scale];
  }

  toScreen([x, y]) {
    return [this.width / 2 + (x - this.x) * this.scale, this.height / 2 - (y - this.y) * this.scale];
  }

  move(right, down) {
    this.x -= right / this.scale;
    this.y += down / this.scale;
  }

  // Zoom, and keep the ground at a place on the screen where it is.
  zoom(by, place = [this.width / 2, this.height / 2]) {
    const [x, y] = this.toGround(place);
    this.scale = Math.min(Math.max(this.scale * by, LEAST_SCALE), MOST_SCALE);
    const [x2, y2] = this.toGround(place);
    this.x += x - x2;
    this.y += y - y2;
  }

  get box() {
    const [wide, high] = [this.width / this.scale / 2, this.height / this.scale / 2];
    return [this.x - wide, this.y - high, this.x + wide, this.y + high];
  }

  sees(box) {
    const here = this.box;
    return box[0] <= here[2] && box[2] >= here[0] && box[1] <= here[3] && box[3] >= here[1];
  }
}

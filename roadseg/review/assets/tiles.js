// Tiles: pictures of a scene, fetched part by part as they come into view, as sharp as they are seen.

const TILE_PX = 1024;
const AT_ONCE = 2; // so that an edit never waits for pictures
const MOST_TILES = 150; // kept; those that were seen longest ago go first

class Tiles {
  constructor(redraw) {
    Object.assign(this, { redraw, kept: new Map(), wanted: [], loading: 0 });
  }

  // Draw what is there of a layer of a scene, coarse pictures first, and ask for what is missing.
  draw(context, view, name, { size, corner, right, down }) {
    const [height, width] = size;
    const pixel = Math.hypot(...right) / width * view.scale * Math.min(window.devicePixelRatio || 1, 2);
    const top = Math.max(Math.ceil(Math.log2(Math.max(height, width) / TILE_PX)), 0);
    const level = Math.min(Math.max(Math.floor(Math.log2(1 / pixel)), 0), top);
    for (let at = top; at >= level; at -= 1) {
      for (const [row, col] of this.inView(view, { height, width, corner, right, down }, TILE_PX * 2 ** at)) {
        const key = `${name}&level=${at}&row=${row}&col=${col}`;
        if (at === level || at === top) this.want(key);
        this.kept.get(key)?.draw?.(context, view);
      }
    }
  }

  // The rows and columns of the squares of some pixels of a raster that are in view.
  inView(view, { height, width, corner, right, down }, side) {
    const [west, south, east, north] = view.box;
    const turned = right[0] * down[1] - right[1] * down[0];
    const places = [[west, south], [west, north], [east, south], [east, north]].map(([x, y]) => {
      const [dx, dy] = [x - corner[0], y - corner[1]];
      return [(right[0] * dy - right[1] * dx) / turned * height, (dx * down[1] - dy * down[0]) / turned * width];
    });
    const [rows, cols] = [[0, height], [1, width]].map(([axis, most]) => {
      const along = places.map((place) => place[axis]);
      const first = Math.floor(Math.max(Math.min(...along), 0) / side);
      const last = Math.ceil(Math.min(Math.max(...along), most) / side);
      return Array.from({ length: Math.max(last - first, 0) }, (_, at) => first + at);
    });
    return rows.flatMap((row) => cols.map((col) => [row, col]));
  }

  want(key) {
    const picture = this.kept.get(key) ?? {};
    this.kept.delete(key);
    this.kept.set(key, picture);
    if (picture.asked || this.wanted.includes(key)) return;
    this.wanted.push(key);
    this.load();
  }

  // What was wanted last is seen now, and comes first.
  async load() {
    if (this.loading >= AT_ONCE || !this.wanted.length) return;
    const key = this.wanted.pop();
    this.loading += 1;
    this.kept.set(key, { asked: true });
    const told = await fetch(`picture?${key}`).then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
    this.loading -= 1;
    if (told) {
      const picture = new Picture(told, this.redraw);
      picture.asked = true;
      this.kept.set(key, picture);
      this.redraw();
    }
    for (const old of [...this.kept.keys()].slice(0, Math.max(this.kept.size - MOST_TILES, 0))) this.kept.delete(old);
    this.load();
  }
}

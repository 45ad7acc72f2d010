// Lines: lines decoded, the nearest of them found through a grid of cells.

class Lines {
  // told: differences from vertex to vertex in steps; sizes: vertices of each line.
  constructor(told) {
    this.count = told.sizes.length;
    this.starts = new Uint32Array(this.count + 1);
    told.sizes.forEach((size, row) => { this.starts[row + 1] = this.starts[row] + size; });
    this.xy = new Float64Array(told.xy.length);
    let [x, y] = [0, 0];
    for (let at = 0; at < told.xy.length; at += 2) {
      x += told.xy[at];
      y += told.xy[at + 1];
      this.xy[at] = x * told.step;
      this.xy[at + 1] = y * told.step;
    }
    this.box = this.boxOf(0, this.starts[this.count]);
  }

  get rows() {
    return [...this.starts.keys()].slice(0, -1);
  }

  // The box around some vertices, as small as may be; with a box that is made larger, also around it.
  boxOf(first, end, box = [Infinity, Infinity, -Infinity, -Infinity]) {
    for (let at = 2 * first; at < 2 * end; at += 2) {
      box[0] = Math.min(box[0], this.xy[at]);
      box[1] = Math.min(box[1], this.xy[at + 1]);
      box[2] = Math.max(box[2], this.xy[at]);
      box[3] = Math.max(box[3], this.xy[at + 1]);
    }
    return box;
  }

  // Length of a line as it is drawn here.
  lengthOf(row) {
    let sum = 0;
    for (let at = this.starts[row]; at < this.starts[row + 1] - 1; at += 1) sum += this.step(at);
    return sum;
  }

  step(at) {
    return Math.hypot(this.xy[2 * at + 2] - this.xy[2 * at], this.xy[2 * at + 3] - this.xy[2 * at + 1]);
  }

  // Part of a line from one share of its length to another, backwards if the second is smaller.
  part(row, from, to) {
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    const length = this.lengthOf(row);
    const points = [this.pointAt(row, low, length)];
    let along = 0;
    for (let at = this.starts[row]; at < this.starts[row + 1]; at += 1) {
      const share = length ? along / length : 0;
      if (share > low && share < high) points.push([this.xy[2 * at], this.xy[2 * at + 1]]);
      if (at < this.starts[row + 1] - 1) along += this.step(at);
    }
    points.push(this.pointAt(row, high, length));
    return from <= to ? points : points.reverse();
  }

  pointAt(row, share, length) {
    let left = share * length;
    let at = this.starts[row];
    while (at < this.starts[row + 1] - 2 && left > this.step(at)) {
      left -= this.step(at);
      at += 1;
    }
    const step = this.step(at);
    const by = step ? Math.min(left / step, 1) : 0;
    return [
      this.xy[2 * at] + by * (this.xy[2 * at + 2] - this.xy[2 * at]),
      this.xy[2 * at + 1] + by * (this.xy[2 * at + 3] - this.xy[2 * at + 1]),
    ];
  }

  get grid() {
    this.kept ??= new Grid(this);
    return this.kept;
  }

  // The line nearest to a place, no farther than `most`: its row, the place on it as a share of
  // its length, the distance; null if there is none. Only lines of which `shows` says so count.
  nearest(x, y, most, shows = null) {
    const found = this.grid.nearest(x, y, most, shows);
    if (!found) return null;
    const row = this.grid.rowOf[found.at];
    let before = found.by * this.step(found.at);
    for (let at = this.starts[row]; at < found.at; at += 1) before += this.step(at);
    const length = this.lengthOf(row);
    return { row, along: before, length, away: found.away, share: length ? before / length : 0 };
  }
}

class Grid {
  constructor(lines) {
    this.lines = lines;
    const [west, south, east, north] = lines.box;
    const area = Math.max((east - west) * (north - south), 1);
    this.cell = Math.max(15, Math.sqrt(area / Math.max(lines.count, 1)));
    this.columns = Math.floor((east - west) / this.cell) + 1;
    this.rows = Math.floor((north - south) / this.cell) + 1;
    this.cells = new Map();
    this.rowOf = new Uint32Array(lines.xy.length / 2);
    for (let row = 0; row < lines.count; row += 1) {
      for (let at = lines.starts[row]; at < lines.starts[row + 1]; at += 1) this.rowOf[at] = row;
      for (let at = lines.starts[row]; at < lines.starts[row + 1] - 1; at += 1) this.add(at);
    }
  }

  place(x, y) {
    return [Math.floor((x - this.lines.box[0]) / this.cell), Math.floor((y - this.lines.box[1]) / this.cell)];
  }

  add(at) {
    const box = this.lines.boxOf(at, at + 2);
    const [low, bottom] = this.place(box[0], box[1]);
    const [high, top] = this.place(box[2], box[3]);
    for (let row = bottom; row <= top; row += 1) {
      for (let column = low; column <= high; column += 1) {
        const key = row * this.columns + column;
        if (!this.cells.has(key)) this.cells.set(key, []);
        this.cells.get(key).push(at);
      }
    }
  }

  nearest(x, y, most, shows) {
    const [column, row] = this.place(x, y);
    const best = { at: -1, by: 0, away: most };
    const last = Math.ceil(most / this.cell) + 1;
    for (let ring = 0; ring <= last && (ring - 1) * this.cell <= best.away; ring += 1) {
      this.around(column, row, ring, (at) => {
        if (!shows || shows(this.rowOf[at])) this.compare(at, x, y, best);
      });
    }
    return best.at < 0 ? null : best;
  }

  // Visit the segments in the cells that are `ring` cells away.
  around(column, row, ring, visit) {
    for (let up = Math.max(row - ring, 0); up <= Math.min(row + ring, this.rows - 1); up += 1) {
      const step = Math.abs(up - row) === ring || ring === 0 ? 1 : 2 * ring;
      for (let right = column - ring; right <= column + ring; right += step) {
        if (right < 0 || right >= this.columns) continue;
        for (const at of this.cells.get(up * this.columns + right) ?? []) visit(at);
      }
    }
  }

  compare(at, x, y, best) {
    const { xy } = this.lines;
    const [x0, y0] = [xy[2 * at], xy[2 * at + 1]];
    const [dx, dy] = [xy[2 * at + 2] - x0, xy[2 * at + 3] - y0];
    const square = dx * dx + dy * dy;
    const by = square ? Math.min(Math.max(((x - x0) * dx + (y - y0) * dy) / square, 0), 1) : 0;
    const away = Math.hypot(x - x0 - by * dx, y - y0 - by * dy);
    if (away < best.away || (best.at < 0 && away <= best.away)) Object.assign(best, { at, by, away });
  }
}

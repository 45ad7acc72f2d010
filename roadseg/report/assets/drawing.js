// Drawing: pictures and lines on a canvas, only what is in view, batched by colour.

const LINES_A_CHUNK = 150;
const MOST_EDGED = 800; // narrow lines, beyond which dark edges would hide the ground
const MOST_WIDE = 10000; // lines, beyond which they are hairlines: browsers draw those many times faster
const HAIR_PX = 0.99;
const FINE_PX = 2.2; // so narrow, corners need not be round

// Lines by class, kept as paths for each part of the ground and each scale.
class Strokes {
  constructor(lines, { rows = lines.rows, classOf = () => 0, classes = 1 } = {}) {
    Object.assign(this, { lines, rows, classes, paths: new Map() });
    this.classOf = Uint8Array.from({ length: lines.count }, (_, row) => classOf(row));
    this.chunks = this.cut();
  }

  cut() {
    const { lines } = this;
    const [west, south, east, north] = lines.box;
    const side = Math.min(Math.max(Math.ceil(Math.sqrt(lines.count / LINES_A_CHUNK)), 1), 24);
    const chunks = new Map();
    for (const row of this.rows) {
      const at = 2 * lines.starts[row];
      const column = Math.min(Math.floor(((lines.xy[at] - west) / (east - west || 1)) * side), side - 1);
      const up = Math.min(Math.floor(((lines.xy[at + 1] - south) / (north - south || 1)) * side), side - 1);
      const key = up * side + column;
      if (!chunks.has(key)) chunks.set(key, { rows: [], box: [Infinity, Infinity, -Infinity, -Infinity] });
      const chunk = chunks.get(key);
      chunk.rows.push(row);
      lines.boxOf(lines.starts[row], lines.starts[row + 1], chunk.box);
    }
    return [...chunks.values()];
  }

  // Paths of a chunk, one a class, without vertices closer to each other than about a pixel.
  pathsOf(number, level) {
    const key = `${level} ${number}`;
    if (!this.paths.has(key)) {
      const paths = Array.from({ length: this.classes }, () => null);
      for (const row of this.chunks[number].rows) {
        paths[this.classOf[row]] ??= new Path2D();
        this.trace(paths[this.classOf[row]], row, 2 ** level);
      }
      this.paths.set(key, paths);
    }
    return this.paths.get(key);
  }

  trace(path, row, least) {
    const { xy, starts } = this.lines;
    const last = starts[row + 1] - 1;
    let [x, y] = [xy[2 * starts[row]], xy[2 * starts[row] + 1]];
    path.moveTo(x, y);
    for (let at = starts[row] + 1; at <= last; at += 1) {
      const [x2, y2] = [xy[2 * at], xy[2 * at + 1]];
      if (at < last && Math.abs(x2 - x) + Math.abs(y2 - y) < least) continue;
      path.lineTo(x2, y2);
      [x, y] = [x2, y2];
    }
  }

  // Draw what is in view; return how many lines that are.
  draw(context, view, styles, wanted) {
    const level = Math.round(Math.log2(1 / view.scale));
    const numbers = [...this.chunks.keys()].filter((number) => view.sees(this.chunks[number].box));
    const seen = numbers.map((number) => this.pathsOf(number, level));
    const count = numbers.reduce((sum, number) => sum + this.chunks[number].rows.length, 0);
    const width = count > MOST_WIDE ? Math.min(wanted, HAIR_PX) : wanted;
    onGround(context, view, () => {
      context.lineCap = width > FINE_PX ? "round" : "butt";
      context.lineJoin = width > FINE_PX ? "round" : "bevel";
      context.strokeStyle = CASING;
      context.lineWidth = (width + 2.2) / view.scale;
      const edged = width > FINE_PX || count < MOST_EDGED;
      for (const paths of edged ? seen : []) for (const path of paths) if (path) context.stroke(path);
      context.lineWidth = width / view.scale;
      styles.forEach(({ colour, dashed }, at) => {
        context.strokeStyle = colour;
        context.setLineDash(dashed ? [2 * width / view.scale, 2.2 * width / view.scale] : []);
        for (const paths of seen) if (paths[at]) context.stroke(paths[at]);
      });
      context.setLineDash([]);
    });
    return count;
  }
}

// Draw in metres, with y up.
function onGround(context, view, drawn) {
  const ratio = context.canvas.width / view.width;
  const scale = view.scale * ratio;
  context.save();
  context.setTransform(scale, 0, 0, -scale,
    context.canvas.width / 2 - view.x * scale, context.canvas.height / 2 + view.y * scale);
  drawn();
  context.restore();
}

// A picture on the ground that is decoded when it is first seen.
class Picture {
  constructor({ picture, box }, redraw) {
    Object.assign(this, { source: picture, box, redraw, image: null, ready: false });
  }

  load() {
    if (!this.image) {
      this.image = new Image();
      this.image.src = this.source;
      this.loaded = this.image.decode().then(() => { this.ready = true; });
      this.loaded.then(() => this.redraw());
    }
    return this.loaded;
  }

  draw(context, view) {
    if (!view.sees(this.box)) return;
    this.load();
    if (!this.ready) return;
    const ratio = context.canvas.width / view.width;
    const [left, top] = view.toScreen([this.box[0], this.box[3]]).map((value) => Math.floor(value * ratio));
    const [right, bottom] = view.toScreen([this.box[2], this.box[1]]).map((value) => Math.ceil(value * ratio));
    context.imageSmoothingEnabled = (right - left) / this.image.naturalWidth < 3;
    context.imageSmoothingQuality = "medium";
    context.drawImage(this.image, left, top, right - left, bottom - top);
  }
}

const roadWidth = (view) => Math.min(Math.max(view.scale * 3.2, 1.6), 6);

function drawLabels(context, view, scene) {
  return scene.strokes("reference")?.draw(context, view, [{ colour: LABEL_COLOUR }], roadWidth(view) * 0.8) ?? 0;
}

function drawErrors(context, view, scene) {
  const [found, missed, wrong] = ERRORS.map((error) => [error]);
  const width = roadWidth(view);
  const labels = scene.strokes("measured") ?? scene.strokes("reference");
  const lines = labels?.draw(context, view, found, width) ?? 0;
  scene.strokes("false")?.draw(context, view, wrong, width);
  scene.strokes("missed")?.draw(context, view, missed, width + 0.8);
  return lines;
}

function drawGraph(context, view, graph, mode, filter = null) {
  return strokesOf(graph, mode, filter).draw(context, view, mode.classes, roadWidth(view));
}

// The strokes of a graph, kept for each way to colour it; of filters those of the last one.
function strokesOf(graph, mode, filter) {
  const classes = { classOf: (row) => mode.classOf(graph, row), classes: mode.classes.length };
  graph.byMode ??= new Map();
  if (!filter?.isOn) {
    if (!graph.byMode.has(mode.key)) graph.byMode.set(mode.key, new Strokes(graph.lines, classes));
    return graph.byMode.get(mode.key);
  }
  const key = `${mode.key} ${filter.key}`;
  if (graph.filtered?.key !== key) {
    graph.filtered = { key, strokes: new Strokes(graph.lines, { ...classes, rows: filter.rows(graph) }) };
  }
  return graph.filtered.strokes;
}

// Set the pixels of a canvas to its size on the screen; return whether they changed.
function sharpen(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === wide && canvas.height === high) return false;
  canvas.width = wide;
  canvas.height = high;
  return true;
}

function clear(context) {
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
}

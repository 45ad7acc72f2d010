// Tables: metrics of chips, sorted by a click, and the facts of a run.

const METRIC_NAMES = {
  chip: "Chip", iou: "IoU", precision: "Precision", recall: "Recall", f1: "F1", apls_length: "APLS length",
  apls_time: "APLS time", reference_km: "Labels", predicted_km: "Predicted", correctness: "Correctness",
  completeness: "Completeness", quality: "Quality",
  topo_f1: "TOPO F1", breaks: "Breaks", breaks_per_km: "Breaks", connectivity: "Connectivity",
};
const METRIC_HELP = {
  iou: "Overlap of the predicted and the known road pixels, divided by their union: 1 is perfect.",
  precision: "Share of the predicted road pixels that are right.",
  recall: "Share of the known road pixels that were found.",
  f1: "Harmonic mean of precision and recall.",
  apls_length: "Average path length similarity: how well lengths of routes agree in both networks. Gaps lower it most.",
  apls_time: "The same for travel times, so that wrong speeds lower it as well.",
  reference_km: "Length of the known roads.",
  predicted_km: "Length of the predicted roads.",
  correctness: "Share of the length of the predicted roads that lies on known ones, within the tolerance.",
  completeness: "Share of the length of the known roads that was found, within the tolerance.",
  quality: "Matching road length divided by the length of all roads on both sides.",
  topo_f1: "TOPO: what can be reached from many places in both networks; it tests junctions and links.",
  breaks: "How often a known road is interrupted: it is found, then missing, and found again, and no short way leads around the gap. "
    + "A road that is missing altogether is no break. Fewer is better.",
  breaks_per_km: "The same per length of the known roads.",
  connectivity: "Share of the predicted road length in the largest connected part, divided by the same share of the known roads. "
    + "Below 1, the prediction is more broken up than the known roads; above 1, less.",
};
// These are in the files only, so that the tables stay narrow enough to read.
const LEFT_OUT = [
  "topo_precision", "topo_recall", "reference_parts", "predicted_parts",
  "shift_m", // Of earlier versions, which gave it in other directions.
];
const QUALITY_NAMES = {
  dtypes: "Data types", gsd_m: "Pixel size, m", nodata_share: "Pixels without data", road_share: "Road pixels",
  road_km: "Labelled roads", roads_by_speed_source: "Speed of roads from", schemes: "Label schemes",
  label_keys: "Label attributes", dropped: "Labels left out", repaired: "Labels repaired",
  remaining_m: "Shift of labels that remains, m (east, north)", failed: "Scenes that failed",
  moved: "Shift that labels were given", moved_m: "Labels moved, m (east, north)", moved_range_m: "Least and largest move, m",
  outside: "Images outside of the area",
};
const MODEL_NAMES = {
  gsd_m: "Pixel size, m", resample_m: "Resampled to, m", window_px: "Windows, px", bin_edges: "Ends of speed bins",
  bin_unit: "Unit of speeds", score: "Validation", encoder_weights: "First weights", augment: "Augmentation",
};
// Whether there is nothing to say: no value, nothing but empty texts, or counts and lengths of 0.
const isEmpty = (value) => (Array.isArray(value) ? value.every((part) => !part)
  : value === null || value === "" || (typeof value === "object" && !Object.keys(value).length));
const isLong = (name) => name.endsWith("_km") && !name.endsWith("_per_km");
const isCount = (name) => ["scenes", "chips", "breaks"].includes(name);
const isRatio = (name) => !isCount(name) && metricUnit(name) === "";

function metricUnit(name) {
  if (name.endsWith("_per_km")) return `/${roadUnit()}`;
  if (isLong(name)) return roadUnit();
  return "";
}

function metricName(name) {
  const [title, unit] = [METRIC_NAMES[name] ?? QUALITY_NAMES[name] ?? inWords(name), metricUnit(name)];
  return unit.startsWith("/") ? title + unit : unit ? `${title}, ${unit}` : title;
}

// A metric as it is shown, in the units that are shown.
function metricText(name, value) {
  if (isCount(name)) return value.toFixed(0);
  if (name.endsWith("_per_km")) return (value / inRoadUnit(1)).toFixed(2);
  if (isLong(name)) return inRoadUnit(value).toFixed(2);
  return value.toFixed(3);
}
const WORTH = ["apls_length", "topo_f1", "iou"]; // the first that there is says how good a scene is

class Scores {
  constructor({ columns, rows }, sceneOf) {
    Object.assign(this, { columns, rows, sceneOf });
    this.shown = [...columns.keys()].filter((at) => !LEFT_OUT.includes(columns[at]));
    this.worthAt = columns.indexOf(WORTH.find((name) => columns.includes(name)));
  }

  sceneOfRow(row) {
    return this.sceneOf[row[0]] ?? row[0];
  }

  // What is known of a scene: how good it is, and that in words; means over its chips.
  of(scene) {
    const rows = this.rows.filter((row) => this.sceneOfRow(row) === scene);
    if (!rows.length) return null;
    const mean = (name) => {
      const values = rows.map((row) => row[this.columns.indexOf(name)]).filter((value) => typeof value === "number");
      return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
    };
    const said = ["apls_length", "topo_f1", "iou"].filter((name) => mean(name) !== null)
      .map((name) => `${metricName(name)} ${mean(name).toFixed(3)}`);
    return { worth: mean(this.columns[this.worthAt]) ?? Infinity, said: said.join(" · ") };
  }
}

class ScoreTable {
  constructor(section, scores, map) {
    Object.assign(this, { scores, map, column: scores.worthAt, rises: true });
    this.head = make("tr");
    this.body = make("tbody");
    const table = make("table", {}, make("thead", {}, this.head), this.body);
    section.append(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of the metrics" }, table),
      make("p", { class: "muted small" }, "The worst chips come first. Click a column to sort by it, a chip to see it on the map."),
      metricHelp(scores.shown.map((at) => scores.columns[at])));
    this.sort();
  }

  sort(column = this.column) {
    if (column !== this.column) Object.assign(this, { column, rises: true });
    this.head.replaceChildren(...this.scores.shown.map((at) => this.header(this.scores.columns[at], at)));
    this.body.replaceChildren(...this.sorted().map((row) => this.row(row)));
  }

  sorted() {
    const way = this.rises ? 1 : -1;
    return [...this.scores.rows].sort((a, b) => {
      const [x, y] = [a[this.column], b[this.column]];
      if (x === null || y === null) return (x === null) - (y === null);
      return way * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
    });
  }

  header(name, at) {
    const chosen = at === this.column;
    const click = () => {
      if (at === this.column) this.rises = !this.rises;
      this.sort(at);
      this.head.children[this.scores.shown.indexOf(at)].firstChild.focus();
    };
    return make("th", { scope: "col", "aria-sort": chosen ? (this.rises ? "ascending" : "descending") : null },
      make("button", { type: "button", onclick: click, title: METRIC_HELP[name] ?? null },
        metricName(name)));
  }

  row(row) {
    const scene = this.map.scenes.findIndex(({ name }) => name === this.scores.sceneOfRow(row));
    const show = (event) => {
      event.preventDefault();
      this.map.open(scene);
    };
    const name = scene < 0 ? row[0] : make("a", { href: "#map", onclick: show }, row[0]);
    const cells = this.scores.shown.slice(1).map((at) => this.cell(row[at], this.scores.columns[at]));
    return make("tr", {}, make("td", {}, name), ...cells);
  }

  cell(value, name) {
    if (typeof value !== "number") return make("td", {}, "–");
    if (!isRatio(name)) return make("td", {}, metricText(name, value));
    const cell = make("td", { class: "share" }, metricText(name, value));
    cell.style.setProperty("--part", String(Math.min(Math.max(value, 0), 1)));
    return cell;
  }
}

// What the columns of a table of metrics mean.
function metricHelp(columns) {
  const terms = columns.filter((name) => name in METRIC_HELP).flatMap((name) =>
    [make("dt", {}, metricName(name)), make("dd", { class: "muted" }, METRIC_HELP[name])]);
  return make("details", {}, make("summary", {}, "What these figures mean"), make("div", {}, make("dl", {}, ...terms)));
}

// A mean over folds, and the standard deviation if there are several.
function spreadText(name, { mean, std }) {
  return metricText(name, mean) + (std === null ? "" : ` ± ${metricText(name, std)}`);
}

// A table with a row for each fold of a cross-validation, and one for their means and spread.
function foldsTable({ by_fold: byFold, spread, set_of_fold: setOf }) {
  const named = (fold) => (fold in setOf ? `${fold}, ${setOf[fold]}` : fold);
  const folds = Object.entries(byFold).map(([fold, figures]) => [named(fold), figures]);
  const means = Object.fromEntries(Object.entries(spread).map(([name, of]) => [name, spreadText(name, of)]));
  return setsTable([...folds, ["mean ± standard deviation", means]], "fold");
}

// A table with a row for each class of distance from the training ground.
function distancesTable(classes) {
  const whole = (metres) => inShortUnit(metres).toFixed(0);
  const limits = (from, to) => (to === null ? `over ${whole(from)}` : `${whole(from)} to ${whole(to)}`);
  const rows = classes.map(({ from_m: from, to_m: to, ...figures }) => [`${limits(from, to)} ${shortUnit()}`, figures]);
  return setsTable(rows, "distance from the training ground");
}

// A table with a row for each set of scenes, fold or distance, given as pairs of its name and its figures.
function setsTable(sets, of = "set") {
  const columns = Object.keys(sets[0][1]).filter((name) => !name.startsWith("pooled_") && ![...LEFT_OUT, "breaks"].includes(name));
  const figure = (name, value) => (typeof value === "number" ? metricText(name, value) : asText(value));
  const head = [of, ...columns].map((name) =>
    make("th", { scope: "col" }, make("button", { type: "button", disabled: "", title: METRIC_HELP[name] ?? null }, metricName(name))));
  const rows = sets.map(([name, figures]) =>
    make("tr", {}, make("td", {}, name), ...columns.map((key) => make("td", {}, figure(key, figures[key])))));
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Figures by ${of}` },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

function bars(title, values, said) {
  const most = Math.max(...values.map(([, value]) => value), 1e-9);
  const cells = values.flatMap(([name, value]) => {
    const bar = make("i");
    bar.style.setProperty("--part", String(value / most));
    return [make("span", {}, name), bar, make("span", {}, said(value))];
  });
  return make("div", { class: "card" }, make("h3", {}, title), make("div", { class: "bars" }, ...cells));
}

// Lengths of road by class, and a row for each polygon of the area; nothing if this says no more than the map.
function showLengths(section, { classes, areas }) {
  const [names, rows] = [Object.keys(classes), Object.entries(areas)];
  if (names.length < 2 && !rows.length) return section.remove();
  const text = (km) => inRoadUnit(km).toFixed(2);
  const shownClass = (name) => (name === "road" ? "Class not known" : inWords(name));
  const sum = (of) => Object.values(of).reduce((a, b) => a + b, 0);
  if (names.length > 1) {
    const said = (km) => `${text(km)} ${roadUnit()} · ${percent(km / sum(classes))}`;
    section.append(make("div", { class: "columns" }, bars("Whole map", names.map((name) => [shownClass(name), classes[name]]), said)));
  }
  if (!rows.length) return undefined;
  const columns = names.length > 1 ? names : [];
  const head = ["Area", ...columns.map(shownClass), `All, ${roadUnit()}`].map((name) =>
    make("th", { scope: "col" }, make("button", { type: "button", disabled: "" }, name)));
  const body = [...rows, ["Whole map", classes]].map(([name, of]) => make("tr", {}, make("td", {}, name),
    ...columns.map((each) => make("td", {}, text(of[each] ?? 0))), make("td", {}, text(sum(of)))));
  return section.append(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Lengths of road by area" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body))));
}

function quality(name, value) {
  if (name.endsWith("_share") && typeof value === "number") return `${(value * 100).toFixed(2)} %`;
  return isLong(name) && typeof value === "number" ? `${inRoadUnit(value).toFixed(2)} ${roadUnit()}` : asText(value);
}

function showQuality(section, { facts, sheets }) {
  const long = new Set(["road_km_by_speed_bin", "pixel_share_by_speed_bin", "remaining_by_scene_m", "shift_m", "shifts_m", "sets"]);
  const isMove = (name) => name.startsWith("moved") || ["outside", "remaining_m"].includes(name);
  const rows = Object.entries(facts).filter(([name, value]) => !long.has(name) && !(isMove(name) && (isEmpty(value) || ["none", 0].includes(value))));
  const columns = [make("div", { class: "card" }, make("h3", {}, "Images and labels"),
    pairs(rows.map(([name, value]) => [QUALITY_NAMES[name] ?? inWords(name), quality(name, value)])))];
  const km = Object.entries(facts.road_km_by_speed_bin ?? {}).filter(([, value]) => value > 0);
  const share = Object.entries(facts.pixel_share_by_speed_bin ?? {}).filter(([, value]) => value > 0);
  if (km.length) columns.push(bars("Labelled roads by speed", km, (value) => `${inRoadUnit(value).toFixed(1)} ${roadUnit()}`));
  else if (share.length) columns.push(bars("Pixels of road by speed", share, (value) => `${(value * 100).toFixed(2)} %`));
  section.append(make("div", { class: "columns" }, ...columns));
  const sets = Object.entries(facts.sets ?? {});
  if (sets.length) section.append(setsTable(sets));
  const shifts = Object.entries(facts.remaining_by_scene_m ?? {});
  if (shifts.length) section.append(shiftsTable(shifts));
  if (sheets.length) section.append(make("h3", {}, "Labels over images"));
  sheets.forEach((sheet, at) => section.append(make("p", {},
    make("img", { class: "sheet", src: sheet, loading: "lazy", alt: `Quality sheet ${at + 1}: labels drawn over images` }))));
}

function shiftsTable(shifts) {
  const length = ([, [east, north]]) => Math.hypot(east, north);
  const rows = [...shifts].sort((a, b) => length(b) - length(a)).map(([name, [east, north]]) =>
    make("tr", {}, make("td", {}, name), make("td", {}, east.toFixed(2)), make("td", {}, north.toFixed(2)),
      make("td", {}, Math.hypot(east, north).toFixed(2))));
  const head = ["Scene", "East, m", "North, m", "In all, m"].map((name) =>
    make("th", { scope: "col" }, make("button", { type: "button", disabled: "" }, name)));
  return make("details", {}, make("summary", {}, `How far labels lie off their images (${rows.length})`),
    make("div", {}, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
}

function showModel(section, training) {
  for (const { name, facts } of training) {
    const rows = Object.entries(facts).filter(([, value]) => !isEmpty(value))
      .map(([key, value]) => [MODEL_NAMES[key] ?? inWords(key), asText(value)]);
    section.append(make("details", training.length === 1 ? { open: "" } : {}, make("summary", {}, name),
      make("div", {}, pairs(rows, "left"))));
  }
}

function showConfig(section, config) {
  for (const [name, value] of Object.entries(config)) {
    if (typeof value !== "object" || value === null) continue;
    const rows = Object.entries(value).map(([key, part]) => [key, asText(part)]);
    section.append(make("details", {}, make("summary", {}, name), make("div", {}, pairs(rows, "left"))));
  }
}

function showVersions(section, { versions, seconds }) {
  const columns = [make("div", { class: "card" }, make("h3", {}, "Versions"), pairs(Object.entries(versions)))];
  const spent = Object.entries(seconds);
  if (spent.length) columns.push(bars("Time of the stages", spent, duration));
  section.append(make("div", { class: "columns" }, ...columns));
}

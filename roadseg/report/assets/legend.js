// Legend: what the colours on the map mean, on the page and in a saved picture.

const MASK_COLOUR = "#00d1e0";
const RAMP = ["#0d2f6f33", "#35486faa", "#7c7b78cc", "#b8aa68ee", "#fde737"];

// Parts of the legend: a title with keys, or with a ramp from 0 to 1.
function legendOf(map) {
  const parts = [];
  const on = (key) => map.shows(key);
  if (on("graph") && map.graphsHere.length) {
    const seen = seenClasses(map.graphsHere, map.mode, map.filter);
    parts.push({ title: map.mode.name, keys: seen.map((at) => map.mode.classes[at]) });
  }
  if (on("reference")) parts.push({ title: "Labels", keys: [{ name: "reference road", colour: LABEL_COLOUR }] });
  if (on("errors")) parts.push({ title: "Compared with labels", keys: ERRORS });
  if (on("probability")) parts.push({ title: "Probability of road", ramp: RAMP });
  if (on("mask")) parts.push({ title: "Mask", keys: [{ name: `probability ≥ ${map.told.threshold}`, colour: MASK_COLOUR }] });
  return parts;
}

const legendRows = (parts) => parts.flatMap(({ title, keys, ramp }) => [make("p", {}, title),
  ...(ramp ? [make("div", { class: "ramp" }), make("div", { class: "ends" }, make("span", {}, "0"), make("span", {}, "1"))]
    : keys.map(keyOf))]);

// Draw a legend on a canvas, its lower left corner at x, y.
function drawLegend(context, parts, x, y, { ink, ground }) {
  const rowHeight = 19;
  const rows = parts.reduce((sum, { keys }) => sum + 1 + (keys?.length ?? 1), 0);
  if (!rows) return;
  context.font = "12.5px system-ui, sans-serif";
  const names = parts.flatMap(({ title, keys }) => [title, ...(keys ?? []).map(({ name }) => `${name}         `)]);
  const width = Math.max(...names.map((name) => context.measureText(name).width), 150) + 24;
  const height = rows * rowHeight + 14;
  context.fillStyle = ground;
  context.fillRect(x, y - height, width, height);
  let down = y - height + 7 + rowHeight / 2;
  const next = (drawn) => {
    drawn(x + 12, down);
    down += rowHeight;
  };
  const text = (name, at, high, weight = "") => {
    Object.assign(context, { fillStyle: ink, textAlign: "left", textBaseline: "middle", font: `${weight} 12.5px system-ui, sans-serif` });
    context.fillText(name, at, high);
  };
  for (const { title, keys, ramp } of parts) {
    next((at, high) => text(title, at, high, "600"));
    if (ramp) next((at, high) => { drawRamp(context, ramp, at + 12, high); text("0", at, high); text("1", at + 128, high); });
    for (const key of keys ?? []) next((at, high) => { drawKey(context, key, at, high); text(key.name, at + 34, high); });
  }
}

function drawKey(context, { colour, dashed }, x, y) {
  context.lineCap = "round";
  for (const [stroke, width] of [[CASING, 6], [colour, 3.5]]) {
    Object.assign(context, { strokeStyle: stroke, lineWidth: width });
    context.setLineDash(dashed && stroke === colour ? [5, 5] : []);
    context.beginPath();
    context.moveTo(x + 2, y);
    context.lineTo(x + 24, y);
    context.stroke();
  }
  context.setLineDash([]);
}

function drawRamp(context, colours, x, y) {
  const ramp = context.createLinearGradient(x, 0, x + 110, 0);
  colours.forEach((colour, at) => ramp.addColorStop(at / (colours.length - 1), colour));
  context.fillStyle = ramp;
  context.fillRect(x, y - 5, 110, 10);
}

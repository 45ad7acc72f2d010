// Colours: what the colours of roads mean. All sets can be told apart by colour-blind people.

const CERTAINTY_RAMP = ["#8f67f2", "#c96cd6", "#f08096", "#faaf5a", "#fde745"];
const LABEL_COLOUR = "#ffffff";
const CASING = "#0d1219cc";
const NOT_KNOWN = "#b8bec7";
const ERRORS = Object.entries(PALETTE).map(([name, colour]) => ({ name, colour }));
const ROUTE_COLOUR = "#ff3fb4";
const PICKED_COLOUR = "#00e5ff";
const CERTAINTY_LIMITS = [0.5, 0.7, 0.8, 0.9];

function ramp(colours, count) {
  const channels = colours.map((colour) =>
    [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
  return Array.from({ length: count }, (_, number) => {
    const place = count > 1 ? (number / (count - 1)) * (channels.length - 1) : channels.length - 1;
    const low = Math.min(Math.floor(place), channels.length - 2);
    const mixed = channels[low].map((value, at) =>
      Math.round(value + (place - low) * (channels[low + 1][at] - value)));
    return `rgb(${mixed.join(" ")})`;
  });
}

// A way to colour a graph: its name, its classes, and the class of each edge of a graph.
function speedMode(bins) {
  const classOf = (graph, row) => {
    const kph = graph.get("speed_kph", row);
    if (kph === null) return bins.names.length;
    const found = bins.edges.findIndex((edge) => kph / bins.kph <= edge + 1e-6);
    return found < 0 ? bins.edges.length : found;
  };
  const classes = bins.names.map((name, at) => ({ name, colour: bins.colours[at] }));
  classes.push({ name: "not known", colour: NOT_KNOWN });
  return { key: "speed", name: "Speed", classes, classOf };
}

// Numbers of the classes that occur in graphs, from low to high; of roads that a filter shows.
function seenClasses(graphs, mode, filter = null) {
  const seen = new Set();
  for (const graph of graphs) {
    for (const row of filter?.rows(graph) ?? graph.lines.rows) seen.add(mode.classOf(graph, row));
  }
  return [...seen].sort((a, b) => a - b);
}

// Return the certainty of an edge: its confidence, or its mean probability in graphs without; null if not known.
const certaintyOf = (graph, row) => graph.get("confidence", row) ?? graph.get("probability", row);

function certaintyMode() {
  const colours = ramp(CERTAINTY_RAMP, CERTAINTY_LIMITS.length + 1);
  const classes = colours.map((colour, at) => ({ name: certaintyName(at), colour }));
  classes.push({ name: "not known", colour: NOT_KNOWN });
  const classOf = (graph, row) => {
    const sure = certaintyOf(graph, row);
    if (sure === null) return colours.length;
    const found = CERTAINTY_LIMITS.findIndex((limit) => sure < limit);
    return found < 0 ? CERTAINTY_LIMITS.length : found;
  };
  return { key: "certainty", name: "Certainty", classes, classOf };
}

function certaintyName(at) {
  if (at === 0) return `below ${CERTAINTY_LIMITS[0] * 100} %`;
  const low = CERTAINTY_LIMITS[at - 1] * 100;
  return at === CERTAINTY_LIMITS.length ? `${low} % and more` : `${low} to ${CERTAINTY_LIMITS[at] * 100} %`;
}

function inferredMode() {
  const classes = [
    { name: "seen in the image", colour: "#4fb3ee" },
    { name: "inferred across a gap", colour: "#ff9d2e", dashed: true },
  ];
  const classOf = (graph, row) => (graph.get("inferred", row) === 1 ? 1 : 0);
  return { key: "inferred", name: "Inferred", classes, classOf };
}

function swatch(colour, dashed = false) {
  const line = { x1: 2, x2: 24, y1: 5, y2: 5, "stroke-linecap": "round" };
  return draw("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" },
    draw("line", { ...line, stroke: CASING, "stroke-width": 6 }),
    draw("line", { ...line, stroke: colour, "stroke-width": 3.5, "stroke-dasharray": dashed ? "5 5" : null }));
}

const keyOf = ({ name, colour, dashed }) => make("div", { class: "key" }, swatch(colour, dashed), name);

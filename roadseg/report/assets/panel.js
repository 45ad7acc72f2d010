// Panel: what is told beside the map of a road or a route.

const SAID = {
  highway: ["Class", (value) => value],
  speed_kph: ["Speed", speedText],
  speed_known: ["Speed from", (value) => (value ? "network" : "default")],
  length_m: ["Length", shortText],
  travel_time_s: ["Travel time", (value) => `${value.toFixed(1)} s`],
  probability: ["Probability, mean", percent],
  min_probability: ["Probability, lowest", percent],
  inferred: ["Inferred", (value) => (value ? "yes, link across a gap" : "no, seen in the image")],
  confidence: ["Confidence", percent],
  width_m: ["Width", shortText],
  source: ["Scene", (value) => value],
  model: ["Model", (value) => value],
};

function percent(value) {
  return `${(value * 100).toFixed(1)} %`;
}

class Panel {
  constructor(map) {
    this.map = map;
    this.element = byId("panel");
    this.showNothing();
  }

  // On a narrow page an answer lies over the map as a sheet; the text that is there otherwise, below it.
  set(...children) {
    this.element.replaceChildren(...children);
    this.element.classList.toggle("told", Boolean(this.element.querySelector("h3 button")));
  }

  title(text) {
    const close = make("button", { type: "button", "aria-label": "Close", onclick: () => this.map.forget() }, "✕");
    return make("h3", {}, text, close);
  }

  showNothing() {
    const keys = [["+ −", "zoom"], ["← ↑ ↓ →", "move"], ["0", "show all"], ["Enter", "pick the road in the middle"],
      ["R", "route"], ["N P", "next, previous scene"], ["1 – 6", "layers"], ["Esc", "clear"]];
    const rows = keys.map(([key, text]) => [make("span", {}, ...key.split(" ").flatMap((each, at) =>
      at ? [" ", make("kbd", {}, each)] : [make("kbd", {}, each)])), text]);
    const [first, second] = this.map.graphs.length
      ? ["Click a road for its attributes.", "Press Route and click two places for the fastest route between them."]
      : ["This run has no graph.", "Run 'roadseg graph' to make one."];
    this.set(make("h3", {}, "Roads"), make("p", {}, first), make("p", {}, second),
      make("div", { class: "keyboard" }, make("p", { class: "muted small" }, "Keyboard shortcuts (click the map first):"), pairs(rows)));
  }

  showPicked() {
    const { picked } = this.map;
    if (!picked) {
      this.showNothing();
      return;
    }
    const { graph, row } = picked;
    const names = [...new Set([...Object.keys(SAID), ...Object.keys(graph.columns)])];
    const rows = names.filter((name) => name in graph.columns).map((name) => this.told(graph, name, row));
    const ends = `${graph.ends[2 * row]} to ${graph.ends[2 * row + 1]}`;
    const inferred = graph.get("inferred", row) === 1;
    this.set(this.title(graph.get("highway", row) ?? "Road"),
      make("span", { class: "chip" }, `edge ${row}`),
      make("span", { class: inferred ? "chip inferred" : "chip" }, inferred ? "inferred" : "seen"),
      pairs([...rows, ["Nodes", ends], ["Graph", graph.name]]));
  }

  told(graph, name, row) {
    const value = graph.get(name, row);
    const [label, said] = SAID[name] ?? [inWords(name), asText];
    return [label, value === null ? "–" : said(value)];
  }

  tellRoute(text) {
    this.set(this.title("Route"), make("p", {}, text));
  }

  showLink(address) {
    this.set(this.title("Link"), make("p", {}, "Link to this view:"), make("pre", { class: "line" }, address));
  }

  showRoute(found, [from, to]) {
    const [start, goal] = [from, to].map((place) => place.map((value) => value.toFixed(6)).join(","));
    const children = [this.title("Route")];
    if (found.points) {
      const rows = [["Length", distance(found.length_m)], ["Edges", String(found.edges)],
        ["Inferred", percent(found.inferred_share)], ["Speed assumed", percent(found.assumed_share)],
        ["Start to the road", distance(found.from_road_m)], ["Destination to the road", distance(found.to_road_m)]];
      const time = found.seconds === null ? distance(found.length_m) : duration(found.seconds);
      children.push(make("p", { class: "big", id: "route-time" }, time),
        make("p", { class: "muted" }, found.seconds === null ? "shortest route; the graph has no times" : "fastest route"), pairs(rows));
    } else {
      children.push(make("p", { class: "wrong" }, found.problem));
    }
    if (found.graph) {
      children.push(make("p", { class: "muted small" }, "The same on the command line:"),
        make("pre", { class: "line" }, `roadseg route ${this.map.folder}/${found.graph}.gpkg --from=${start} --to=${goal}`));
    }
    this.set(...children);
  }
}

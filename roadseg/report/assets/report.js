// Report: fill the page with what it is to show.

function tiles(shown) {
  const { summaries, seconds, km2 } = shown;
  const found = summaries.evaluate ?? {};
  const metres = shown.map.graphs.flatMap(({ columns }) => columns.length_m.values).reduce((a, b) => a + b, 0);
  const all = Object.values(seconds).reduce((a, b) => a + b, 0);
  const share = (value) => (typeof value === "number" ? value.toFixed(3) : null);
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const held = "chips" in found ? `${count(found.chips, "chip")} held out` : "";
  // How far the folds of a cross-validation differ, or else something about the figure.
  const over = (name, aside) => (found.spread?.[name] ? `over folds ${spreadText(name, found.spread[name])}` : aside);
  return [
    ["Roads", inRoadUnit(metres / 1000).toFixed(1), roadUnit(), count(shown.map.graphs.reduce((sum, graph) => sum + graph.ends.length / 2, 0), "edge")],
    ["Area", inAreaUnit(km2).toFixed(inAreaUnit(km2) < 10 ? 2 : 0), `${roadUnit()}²`, count(shown.map.scenes.length, "scene")],
    ["APLS length", share(found.apls_length), "", over("apls_length", "routes, by length")],
    ["APLS time", share(found.apls_time), "", over("apls_time", "routes, by time")],
    ["TOPO F1", share(found.topo_f1), "", over("topo_f1", "junctions, links")],
    ["Breaks", typeof found.breaks_per_km === "number" ? metricText("breaks_per_km", found.breaks_per_km) : null,
      `/${roadUnit()}`, over("breaks_per_km", "in known roads")],
    ["Correctness", share(found.correctness), "", over("correctness", "of found roads")],
    ["Completeness", share(found.completeness), "", over("completeness", "of known roads")],
    ["IoU", share(found.iou), "", over("iou", held)],
    ["Time", all ? duration(all) : null, "", Object.keys(seconds).join(", ")],
  ].filter(([, value]) => value !== null);
}

function showHead(shown) {
  byId("title").textContent = shown.title;
  if (matchMedia(NARROW).matches) byId("headline").tabIndex = 0; // there it scrolls sideways
  byId("subtitle").textContent = `${shown.folder} · made ${shown.made} · roadseg ${shown.versions.roadseg}`;
  const helpOf = (name) => METRIC_HELP[name.toLowerCase().replace(" ", "_")] ?? null;
  byId("headline").append(...tiles(shown).map(([name, value, unit, aside]) => make("div", { title: helpOf(name) },
    make("dt", {}, name), make("dd", { class: "value" }, value, unit ? make("small", {}, ` ${unit}`) : null),
    make("dd", { class: "aside", title: aside || null }, aside))));
}

// The scenes of which no part was trained on, as all their chips were held out; null if nothing was measured.
function heldOutScenes(shown) {
  const chips = new Set(shown.scores?.rows.map(([chip]) => chip));
  const scenes = new Set([...chips].map((chip) => shown.scene_of[chip] ?? chip));
  for (const [chip, scene] of Object.entries(shown.scene_of)) if (!chips.has(chip)) scenes.delete(scene);
  return chips.size ? scenes : null;
}

function showContents() {
  for (const section of document.querySelectorAll("main > section")) {
    byId("contents").append(make("a", { href: `#${section.id}` }, section.dataset.short));
  }
}

// Whether the run has labels; without, there is nothing to prepare, train or measure.
const isLabelled = ({ config }) =>
  [config.labels, ...Object.values(config.imagery.sets ?? {})].some(({ roads }) => roads?.length);

// Warn of a map by a network that knows no labels of these images.
function showUnlabelled({ map }) {
  const by = (model) => map.graphs.some(({ columns }) => columns.model?.texts?.includes(model));
  if (by("adapted")) {
    byId("map-title").after(note("Mapped with a network that learned from its own first map of these images, "
      + "without known roads: expect missed and false roads."));
  } else if (by("starter")) {
    byId("map-title").after(note("Mapped with the starter, a network that was trained on other places: "
      + "expect missed and false roads, and no speeds."));
  }
}

// Say what the lengths of missed and false roads do not show, but routes suffer from.
function showGaps({ summaries }, map) {
  const { breaks } = summaries.evaluate ?? {};
  if (!map.has("errors") || !breaks) return;
  byId("map").append(make("p", { class: "muted small" }, "The layer Errors compares lengths of road. Short gaps "
    + `hardly show there, but lower APLS: on the held-out chips ${breaks} break${breaks === 1 ? "" : "s"} in known roads.`));
}

// Say which command makes what is missing on the map.
function showMissing(shown, map) {
  const commands = [["probability", "Probabilities", "roadseg predict"], ["graph", "A graph", "roadseg graph"],
    ["reference", "Labels", "roadseg prepare"], ["image", "Imagery", "imagery.images"]];
  for (const [key, name, command] of commands) {
    if (map.has(key) || (key === "reference" && !isLabelled(shown))) continue;
    const how = key === "image" ? [`${name} is not shown; the config names it with `, command] : [`${name} cannot be shown; run `, command];
    byId("map").append(note(...how));
  }
  if (shown.outdated) byId("map").append(note(`Out of date: ${shown.outdated}`));
  if (!shown.left_out.length) return;
  const rows = shown.left_out.map((text) => make("li", {}, text));
  byId("map").append(make("details", {}, make("summary", {}, `Left out (${rows.length})`),
    make("div", {}, make("ul", { class: "small" }, ...rows))));
}

function showRest(shown, map) {
  showLengths(byId("lengths"), shown.lengths);
  const scores = shown.scores?.rows.length ? new Scores(shown.scores, shown.scene_of) : null;
  const training = shown.training.filter(({ epochs }) => epochs.length);
  const missing = (id, what, command) =>
    (isLabelled(shown) ? byId(id).append(note(`${what}; run `, command)) : byId(id).remove());
  const found = shown.summaries.evaluate ?? {};
  const sets = Object.entries(found.by_set ?? {});
  if (Object.keys(found.by_fold ?? {}).length) byId("metrics").append(foldsTable(found));
  if (sets.length) byId("metrics").append(setsTable(sets));
  if (found.by_distance?.length > 1) byId("metrics").append(distancesTable(found.by_distance));
  if (scores) map.table = new ScoreTable(byId("metrics"), scores, map);
  else missing("metrics", "No metrics in this run", "roadseg evaluate");
  if (map.has("image") || map.has("reference")) map.sides = new SideBySide(map, scores);
  else byId("scenes").append(note("No images to show side by side; set them in the config with ", "imagery.images"));
  if (training.length) showTraining(byId("training"), training);
  else missing("training", "No training in this run", "roadseg train --fold 0");
  if (shown.quality.facts) showQuality(byId("quality"), shown.quality);
  else missing("quality", "No data statistics in this run", "roadseg prepare");
  if (shown.training.length) showModel(byId("model"), shown.training);
  else missing("model", "No checkpoint in this run", "roadseg train --fold 0");
  showConfig(byId("config"), shown.config);
  showVersions(byId("versions"), shown);
}

const shown = JSON.parse(byId("data").textContent);
chooseUnits(shown.map.units);
showHead(shown);
showUnlabelled(shown);
watchMenus();
const map = new RoadMap(shown.map, { title: shown.title, credits: shown.credits, folder: shown.graph_folder, heldOut: heldOutScenes(shown) });
showGaps(shown, map);
showMissing(shown, map);
showRest(shown, map);
showContents();
watchPrint(map);

// For tests, and for whoever opens the console.
window.roadseg = {
  map,
  route(from, to) {
    const { points, ...told } = map.trip.between(map.place(from), map.place(to));
    return told;
  },
  readPlaces,
  screen: (lonLat) => map.view.toScreen(map.place(lonLat)),
};

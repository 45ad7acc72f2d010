// Tools: the switches of the map, and what is told around it.

const COPIED_MS = 2000;
const NARROW = "(max-width: 560px), (max-height: 500px)"; // as in report.css; the legend is folded there

// The longest bar of round length that is at most 110 pixels long.
function scaleBar(scale) {
  const { metres, text } = roundLength(110 / scale);
  return { px: metres * scale, text };
}

class Tools {
  constructor(map) {
    this.map = map;
    this.fillScenes();
    this.filterMenu = new FilterMenu(map);
    this.displayMenu = new DisplayMenu(map);
    this.buttons = Object.fromEntries(LAYERS.map(({ key, name }) => [key, this.button(key, name)]));
    for (const mode of map.modes) byId("colour").append(make("option", { value: mode.key }, mode.name));
    byId("colour").addEventListener("change", (event) => {
      map.mode = map.modes.find(({ key }) => key === event.target.value);
      map.toggle("graph", true);
      this.update();
    });
    byId("route").addEventListener("click", () => map.trip.start(!map.trip.isOn));
    byId("closer").addEventListener("click", () => this.zoom(1.6));
    byId("farther").addEventListener("click", () => this.zoom(1 / 1.6));
    byId("whole").addEventListener("click", () => map.showAll());
    byId("full").addEventListener("click", () => this.fill());
    byId("full").hidden = !document.fullscreenEnabled;
    byId("route").disabled = !map.graphs.length;
    byId("filter-menu").hidden = !map.graphs.length;
    this.download("save", saveRoads);
    byId("save").hidden = !map.graphs.length || !map.areas.every((area) => area.to_degrees);
    this.download("picture", savePicture);
    byId("link").hidden = !hasAddress();
    byId("link").addEventListener("click", () => this.copyLink());
    byId("legend-box").open = !matchMedia(NARROW).matches;
    byId("credits").textContent = map.credits.join(" · ");
    this.update();
  }

  // A download is chosen once, so its menu closes.
  download(id, save) {
    byId(id).addEventListener("click", () => {
      byId("download-menu").open = false;
      save(this.map);
    });
  }

  fill() {
    if (document.fullscreenElement) document.exitFullscreen();
    else byId("map").requestFullscreen();
  }

  // Copy the address of what is shown; where the browser does not let us, show it.
  async copyLink() {
    this.map.address.keep();
    try {
      await navigator.clipboard.writeText(location.href);
      byId("link").textContent = "Copied";
      setTimeout(() => { byId("link").textContent = "Copy link"; }, COPIED_MS);
    } catch {
      this.map.panel.showLink(location.href);
    }
  }

  zoom(by) {
    this.map.view.zoom(by);
    this.map.redraw();
  }

  button(key, name) {
    const button = make("button", { type: "button", class: "tool", "data-layer": key,
      onclick: () => this.map.toggle(key) }, name);
    button.disabled = !this.map.has(key);
    if (button.disabled) button.title = "Not in this run";
    byId("layers").append(button);
    return button;
  }

  rowsOf(area) {
    return this.map.scenes.flatMap((scene, row) => (scene.area === area ? [row] : []));
  }

  optionOf(area) {  // an area of one scene has no option of its own
    const here = this.rowsOf(area);
    return here.length > 1 ? `a${area}` : `s${here[0]}`;
  }

  fillScenes() {
    const { scenes, areas } = this.map;
    areas.forEach((_, area) => {
      const here = this.rowsOf(area);
      const name = areas.length > 1 ? `Area ${area + 1}` : "All scenes";
      const all = here.length > 1 ? [make("option", { value: this.optionOf(area) }, `${name} (${here.length})`)] : [];
      const learnt = (scene) => (this.map.learnedFrom(scene) ? " (trained on)" : "");
      const options = here.map((row) => make("option", { value: `s${row}` }, `${scenes[row].name}${learnt(scenes[row])}`));
      byId("scene").append(...(areas.length > 1
        ? [make("optgroup", { label: name }, ...all, ...options)] : [...all, ...options]));
    });
    byId("scene-field").hidden = scenes.length < 2;
    byId("scene").addEventListener("change", (event) => {
      const [kind, number] = [event.target.value[0], Number(event.target.value.slice(1))];
      this.map.show(kind === "s" ? number : null, kind === "a" ? number : undefined);
    });
  }

  update() {
    const { map } = this;
    for (const [key, button] of Object.entries(this.buttons ?? {})) {
      button.setAttribute("aria-pressed", String(map.shows(key)));
    }
    byId("route").setAttribute("aria-pressed", String(map.trip.isOn));
    byId("ground").classList.toggle("routing", map.trip.isOn);
    byId("scene").value = map.scene === null ? this.optionOf(map.area) : `s${map.scene}`;
    byId("colour").value = map.mode.key;
    const counts = this.counts();
    byId("told").textContent = this.summary(counts);
    const legend = legendOf(map);
    byId("legend").replaceChildren(...legendRows(legend));
    byId("legend-box").hidden = !legend.length;
    this.filterMenu.update(counts);
    this.displayMenu.update();
  }

  // Edges and metres of road that are shown, and that there are.
  counts() {
    const { graphsHere, filter } = this.map;
    const sum = (rowsOf) => graphsHere.map((graph) => [rowsOf(graph), graph.columns.length_m])
      .reduce(([edges, metres], [rows, lengths]) =>
        [edges + rows.length, metres + rows.reduce((total, row) => total + lengths[row], 0)], [0, 0]);
    const [[edges, metres], [all, allMetres]] = [sum((graph) => filter.rows(graph)), sum((graph) => graph.lines.rows)];
    return { edges, all, metres, allMetres };
  }

  summary({ edges, all, metres, allMetres }) {
    const { map } = this;
    const of = (part, whole) => (map.filter.isOn ? `${part} of ${whole}` : whole);
    const long = (metres) => inRoadUnit(metres / 1000).toFixed(2);
    const learnt = map.scenesHere.filter((scene) => map.learnedFrom(scene)).length;
    const seen = learnt ? ` · ${learnt} of ${map.scenesHere.length} scenes trained on, at least in part, where results look better than elsewhere` : "";
    return `${of(long(metres), long(allMetres))} ${roadUnit()} of roads on ${of(edges, all)} edges · coordinates in ${map.areas[map.area].crs}${seen}`;
  }

  tellScale() {
    const { px, text } = scaleBar(this.map.view.scale);
    byId("bar").style.width = `${px}px`;
    byId("bar").textContent = text;
  }

  tellCursor(place) {
    const [x, y] = this.map.degrees(this.map.view.toGround(place));
    const isDegrees = Boolean(this.map.areas[this.map.area].to_degrees);
    byId("cursor").value = isDegrees ? `lon ${x.toFixed(6)}, lat ${y.toFixed(6)}` : `x ${x.toFixed(1)}, y ${y.toFixed(1)}`;
  }
}

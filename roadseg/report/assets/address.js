// Address: what the map shows, as the fragment of the page's address, and back.

const AT_REST_MS = 300; // the address follows when nothing has changed for so long
const STEPS = ["scene", "area", "from", "to"]; // only changes of these are steps that Back undoes

// A page inside another has no address of its own.
const hasAddress = () => location.protocol !== "about:";

class Address {
  constructor(map) {
    Object.assign(this, { map, kept: null });
    this.first = { layers: this.layers, scene: map.scene, area: map.area };
    this.read();
    window.addEventListener("hashchange", () => this.read());
  }

  get layers() {
    return LAYERS.filter(({ key }) => this.map.shown[key]).map(({ key }) => key).join();
  }

  // Return what the map shows, part by part; parts that have not changed since the start are left out.
  tell() {
    const { map } = this;
    const faint = Object.entries(map.opacity).filter(([, value]) => value < 1);
    const ranges = map.filter.modes.filter((mode) => !map.filter.isWhole(mode))
      .map((mode) => [mode.key, map.filter.ranges.get(mode.key).join("-")]);
    const parts = {
      scene: map.scene === null ? null : map.scenes[map.scene].name,
      area: map.scene === null ? map.area + 1 : null,
      at: [...this.written([map.view.x, map.view.y], 6), +(1 / map.view.scale).toPrecision(4)].join(),
      layers: this.layers === this.first.layers ? null : this.layers,
      colour: map.mode === map.modes[0] ? null : map.mode.key,
      ...Object.fromEntries(ranges),
      opacity: faint.map(([key, value]) => `${key}:${value}`).join() || null,
      swipe: map.swipe.layers ? [...map.swipe.layers, +map.swipe.share.toFixed(3)].join() : null,
      ...this.tellRoute(map.trip.ends),
    };
    return Object.fromEntries(Object.entries(parts).filter(([, value]) => value !== null));
  }

  tellRoute(ends) {
    const [from, to] = ends.map(({ at }) => this.written(at, 7).join());
    return to ? { from, to } : {};
  }

  written(place, digits) {
    return this.map.degrees(place).map((value) => +value.toFixed(digits));
  }

  // Write what the map shows into the address, once nothing has changed for a moment.
  write() {
    clearTimeout(this.later);
    if (hasAddress()) this.later = setTimeout(() => this.keep(), AT_REST_MS);
  }

  keep() {
    clearTimeout(this.later);
    const parts = this.tell();
    const [text, step] = [asFragment(parts), STEPS.map((key) => parts[key]).join("&")];
    if (text === this.kept?.text) return;
    history[step === this.kept.step ? "replaceState" : "pushState"](null, "", `#${text}`);
    this.kept = { text, step };
  }

  // Show what the address says. Wrong parts count as missing; addresses of headings change nothing.
  read() {
    clearTimeout(this.later);
    const parts = new URLSearchParams(location.hash.slice(1));
    const isOurs = ["scene", "area", "at"].some((key) => parts.has(key));
    if (isOurs || !location.hash) this.show(parts);
    const told = this.tell();
    this.kept = { text: asFragment(told), step: STEPS.map((key) => told[key]).join("&") };
  }

  show(parts) {
    const list = (key) => parts.get(key)?.split(",") ?? [];
    this.showGround(parts.get("scene"), Number(parts.get("area")) - 1);
    this.showLayers(list("layers"), parts.has("layers"));
    this.showRoads(parts);
    this.showStrength(list("opacity").map((each) => each.split(":")));
    this.showSwipe(list("swipe"));
    this.showPlace(list("at").map(asNumber));
    this.showRoute(["from", "to"].map((key) => this.place(list(key).map(asNumber))));
    this.map.tools.update();
  }

  showGround(name, area) {
    const { map, first } = this;
    const scene = map.scenes.findIndex((each) => each.name === name);
    if (scene >= 0) map.show(scene);
    else if (map.areas[area]) map.show(null, area);
    else map.show(first.scene, first.area);
  }

  // An empty list means no layer at all; names that are no layers mean nothing.
  showLayers(names, isTold) {
    const known = names.filter(isLayer);
    const isNone = isTold && names.join() === "";
    const layers = known.length || isNone ? known : this.first.layers.split(",");
    for (const { key } of LAYERS) this.map.shown[key] = layers.includes(key);
  }

  showRoads(parts) {
    const { map } = this;
    map.mode = map.modes.find(({ key }) => key === parts.get("colour")) ?? map.modes[0];
    map.filter.clear();
    for (const mode of map.filter.modes) map.filter.set(mode, ...(parts.get(mode.key) ?? "").split("-").map(asNumber));
  }

  showStrength(pairs) {
    const { opacity } = this.map;
    for (const key of Object.keys(opacity)) opacity[key] = 1;
    for (const [key, value] of pairs) if (Object.hasOwn(opacity, key) && isShare(value)) opacity[key] = Number(value);
  }

  showSwipe([left, right, share]) {
    const { map } = this;
    const isPair = left !== right && [left, right].every((name) => isLayer(name) && map.has(name)) && isShare(share);
    map.swipe.set(isPair ? [left, right] : null, isPair ? Number(share) : 0.5);
  }

  showRoute(ends) {
    if (ends.every(Boolean)) this.map.trip.show(ends);
  }

  showPlace([x, y, metres]) {
    const place = this.place([x, y]);
    if (place && metres > 0) this.map.view.look(place, 1 / metres);
  }

  // The place on the map; null if the numbers are none, or far from it.
  place([x, y]) {
    return Number.isFinite(x) && Number.isFinite(y) && this.map.reaches(this.map.area, [x, y]) ? this.map.place([x, y]) : null;
  }
}

const asNumber = (text) => (/^-?\d+(\.\d+)?(e-?\d+)?$/.test(text ?? "") ? Number(text) : NaN);

const isLayer = (name) => LAYERS.some(({ key }) => key === name);

const isShare = (text) => asNumber(text) >= 0 && asNumber(text) <= 1;

const asFragment = (parts) => Object.entries(parts).map(([key, value]) =>
  `${key}=${encodeURIComponent(value).replaceAll("%2C", ",").replaceAll("%3A", ":")}`).join("&");

// Filter: which roads are shown, by the classes of their speed and of their certainty.

class Filter {
  // The last class of each of these ways to colour holds what is not known.
  constructor(modes) {
    this.modes = modes;
    this.clear();
  }

  clear() {
    this.ranges = new Map(this.modes.map((mode) => [mode.key, this.whole(mode)]));
  }

  whole(mode) {
    return [0, mode.classes.length - 2];
  }

  isWhole(mode) {
    return this.ranges.get(mode.key).join() === this.whole(mode).join();
  }

  get isOn() {
    return !this.modes.every((mode) => this.isWhole(mode));
  }

  // Two filters with the same key show the same.
  get key() {
    return [...this.ranges.values()].join();
  }

  // Show the classes from one to another; return false, and change nothing, if there are no such classes.
  set(mode, first, last) {
    const [low, high] = this.whole(mode);
    if (!(Number.isInteger(first) && Number.isInteger(last) && low <= first && first <= last && last <= high)) return false;
    this.ranges.set(mode.key, [first, last]);
    return true;
  }

  shows(graph, row) {
    return this.modes.every((mode) => {
      if (this.isWhole(mode)) return true;
      const [first, last] = this.ranges.get(mode.key);
      const at = mode.classOf(graph, row);
      return first <= at && at <= last;
    });
  }

  rows(graph) {
    return this.isOn ? graph.lines.rows.filter((row) => this.shows(graph, row)) : graph.lines.rows;
  }
}

// The two ends of each range, to choose from.
class FilterMenu {
  constructor(map) {
    Object.assign(this, { map, fields: new Map() });
    this.count = make("p", { class: "muted small", "aria-live": "polite", id: "filter-count" });
    const clear = make("button", { type: "button", onclick: () => this.set(() => map.filter.clear()) }, "Show all roads");
    byId("filter").append(...map.filter.modes.map((mode) => this.range(mode)), this.count, clear);
  }

  range(mode) {
    const known = mode.classes.slice(0, -1);
    const options = () => known.map(({ name }, at) => make("option", { value: at }, name));
    const fields = ["from", "up to"].map((end) =>
      make("select", { "aria-label": `${mode.name} ${end}`, "data-filter": `${mode.key} ${end}` }, ...options()));
    fields.forEach((field, at) => field.addEventListener("change", () => this.choose(mode, fields, at)));
    this.fields.set(mode, fields);
    const [from, upTo] = fields;
    return make("fieldset", {}, make("legend", {}, mode.name), "from ", from, " up to ", upTo);
  }

  // An end that passes the other takes it along.
  choose(mode, fields, at) {
    const ends = fields.map(({ value }) => Number(value));
    if (ends[0] > ends[1]) ends[1 - at] = ends[at];
    this.set(() => this.map.filter.set(mode, ...ends));
  }

  set(change) {
    change();
    this.map.toggle("graph", true);
  }

  update({ edges, all, metres }) {
    for (const [mode, fields] of this.fields) {
      fields.forEach((field, at) => { field.value = this.map.filter.ranges.get(mode.key)[at]; });
    }
    this.count.textContent = `${edges} of ${all} edges are shown, ${distance(metres)} of road.`;
    const name = byId("filter-name");
    name.textContent = this.map.filter.isOn ? `Filter: ${edges} of ${all}` : "Filter";
    name.classList.toggle("on", this.map.filter.isOn);
  }
}

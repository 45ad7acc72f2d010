// Search: scenes by name, places by their coordinates, edges by their number.

const MOST_HITS = 7;
// An angle such as -117.01, 117.01 W or 32°58'48.0"N: degrees, minutes, seconds, side of the earth.
const NUMBER = String.raw`\d+(?:\.\d+)?`;
const MINUTES = String.raw`(${NUMBER})\s*['′’]\s*(?:(${NUMBER})\s*(?:["″”]|''))?`;
const ANGLE = new RegExp(String.raw`(-?${NUMBER})\s*°?\s*(?:${MINUTES})?\s*([NSEW](?![A-Z]))?`, "g");

// Return the two angles in a text, each with its axis (lat, lon, or null); null if the text is no place.
function readAngles(text) {
  const plain = text.toUpperCase().replace(/[−–]/g, "-")
    .replace(/\bLAT(ITUDE)?\b/g, "@").replace(/\bLON(GITUDE|G)?\b|\bLNG\b/g, "#");
  const found = [...plain.matchAll(ANGLE)];
  const rest = plain.replace(ANGLE, "").replace(/[\s,;:=/()[\]@#]|GEO|POINT/g, "");
  if (found.length !== 2 || rest) return null;
  return found.map((match, at) => {
    const before = plain.slice(at ? found[0].index + found[0][0].length : 0, match.index);
    return { value: degreesOf(match), axis: axisOf(before, match[4]) };
  });
}

function degreesOf([, whole, minutes = 0, seconds = 0, side]) {
  const size = Math.abs(whole) + minutes / 60 + seconds / 3600;
  return whole.startsWith("-") || side === "S" || side === "W" ? -size : size;
}

function axisOf(before, side) {
  if (side) return side === "N" || side === "S" ? "lat" : "lon";
  return before.includes("@") ? "lat" : before.includes("#") ? "lon" : null;
}

// Return the pairs of longitude and latitude that a text can mean, the likelier one first.
function readPlaces(text) {
  const angles = readAngles(text);
  if (!angles) return [];
  const [first, second] = angles;
  const orders = [[second.value, first.value], [first.value, second.value]];
  const isLonFirst = first.axis === "lon" || second.axis === "lat";
  const isLatFirst = first.axis === "lat" || second.axis === "lon";
  const said = isLonFirst ? [orders[1]] : isLatFirst ? [orders[0]] : orders;
  return said.filter(([lon, lat]) => Math.abs(lon) <= 180 && Math.abs(lat) <= 90);
}

class Search {
  constructor(map) {
    Object.assign(this, { map, field: byId("search"), list: byId("hits"), hits: [] });
    this.field.addEventListener("input", () => this.update());
    byId("searching").addEventListener("submit", (event) => {
      event.preventDefault();
      this.update();
      this.hits[0]?.go();
    });
    byId("searching").addEventListener("keydown", (event) => this.key(event));
    byId("searching").addEventListener("focusout", (event) => {
      if (!byId("searching").contains(event.relatedTarget)) this.list.replaceChildren();
    });
  }

  update() {
    const text = this.field.value.trim();
    this.hits = text ? [...this.places(text), ...this.edges(text), ...this.scenes(text)].slice(0, MOST_HITS) : [];
    const items = this.hits.map(({ name, go }) => make("li", {}, make("button", { type: "button", onclick: go }, name)));
    const nothing = make("li", { class: "muted" },
      "Nothing found. Search for a scene, coordinates such as 32.98, -117.01, or the number of an edge.");
    this.list.replaceChildren(...(items.length || !text ? items : [nothing]));
  }

  hit(name, go) {
    return { name, go: () => { this.list.replaceChildren(); go(); } };
  }

  scenes(text) {
    const wanted = text.toLowerCase();
    const rank = (name) => [name === wanted, name.startsWith(wanted), name.includes(wanted)].indexOf(true);
    return this.map.scenes.map(({ name }, row) => ({ name, row, rank: rank(name.toLowerCase()) }))
      .filter((scene) => scene.rank >= 0).sort((a, b) => a.rank - b.rank)
      .map(({ name, row }) => this.hit(`Scene ${name}`, () => this.map.open(row)));
  }

  // "12", "edge 12" or, with its graph, "city_0 12".
  edges(text) {
    const [, name = "", number] = /^(?:(.*?)\s+)?(?:edge\s*)?(\d+)$/i.exec(text) ?? [];
    if (number === undefined) return [];
    const row = Number(number);
    const isMeant = (graph) => !name || name.toLowerCase() === "edge" || graph.name.toLowerCase() === name.toLowerCase();
    const here = new Set(this.map.graphsHere);
    const graphs = [...here, ...this.map.graphs.filter((graph) => !here.has(graph))];
    return graphs.filter((graph) => isMeant(graph) && row < graph.lines.count)
      .map((graph) => this.hit(`Edge ${row} of ${graph.name}`, () => this.map.pick(graph, row)));
  }

  places(text) {
    const { map } = this;
    const places = readPlaces(text);
    const areas = [map.area, ...map.areas.keys()].filter((area) => map.areas[area].from_degrees);
    for (const [lon, lat] of places) {
      const area = areas.find((number) => map.reaches(number, [lon, lat]));
      if (area !== undefined) {
        return [this.hit(`Place: lat ${lat.toFixed(5)}, lon ${lon.toFixed(5)}`, () => map.goTo(area, [lon, lat]))];
      }
    }
    return places.length ? [this.hit("These coordinates are not on the map.", () => {})] : [];
  }

  key(event) {
    if (event.key === "Escape") {
      this.field.value = "";
      this.update();
      this.field.focus();
    }
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    const stops = [this.field, ...this.list.querySelectorAll("button")];
    event.preventDefault();
    stops[Math.min(Math.max(stops.indexOf(document.activeElement) + by, 0), stops.length - 1)].focus();
  }
}

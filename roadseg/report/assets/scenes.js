// Scenes: image, labels, roads found and errors of each scene, side by side.

const AT_FIRST = 6;
const MORE = 12;

class SideBySide {
  constructor(map, scores) {
    Object.assign(this, { map, scores, shown: 0 });
    this.section = byId("scenes");
    this.order = this.worstFirst();
    this.list = make("div");
    this.more = make("button", { type: "button", onclick: () => this.add(MORE) });
    this.seen = new IntersectionObserver((entries) => this.drawSeen(entries), { rootMargin: "300px" });
    this.section.append(this.intro(), this.list, this.more);
    this.add(AT_FIRST);
  }

  worstFirst() {
    const worths = this.map.scenes.map((scene) => (this.scores ? this.scores.of(scene.name)?.worth : scene.confidence) ?? Infinity);
    return [...worths.keys()].sort((a, b) => worths[a] - worths[b]);
  }

  intro() {
    const { map } = this;
    const { tolerance_m: metres } = map.told;
    const keys = map.has("errors")
      ? [`Roads within ${metres} m of each other are the same:`, ...ERRORS.map(keyOf)]
      : [`Roads by ${map.modes[0].name.toLowerCase()}:`, ...seenClasses(map.graphs, map.modes[0]).map((at) => keyOf(map.modes[0].classes[at]))];
    return make("div", { class: "keys" }, ...keys);
  }

  add(count) {
    for (const row of this.order.slice(this.shown, this.shown + count)) this.list.append(this.card(row));
    this.shown = Math.min(this.shown + count, this.order.length);
    const left = this.order.length - this.shown;
    this.more.hidden = left === 0;
    this.more.textContent = `Show ${Math.min(left, MORE)} more of ${left}`;
  }

  card(row) {
    const scene = this.map.scenes[row];
    const sure = scene.confidence === null ? "" : `confidence ${scene.confidence.toFixed(2)}`;
    const said = [this.scores?.of(scene.name)?.said, sure].filter(Boolean).join(" · ");
    const open = () => this.map.open(row);
    const card = make("article", { class: "scene", id: `scene-${row}` },
      make("header", {}, make("h3", {}, scene.name),
        make("span", { class: "muted small" }, said),
        make("button", { type: "button", onclick: open }, "Show on the map")),
      make("div", { class: "sides" }, ...this.sides(scene).map(([name, drawn]) => this.side(scene, name, drawn))));
    this.seen.observe(card);
    return card;
  }

  sides(scene) {
    const { map } = this;
    const image = (context, view) => scene.pictures.image?.draw(context, view);
    const roads = (context, view) => {
      image(context, view);
      if (scene.graph !== null) drawGraph(context, view, map.graphs[scene.graph], map.modes[0]);
    };
    const sides = [];
    if (scene.pictures.image) sides.push(["Image", image]);
    if (scene.reference) sides.push(["Labels", (context, view) => { image(context, view); drawLabels(context, view, scene); }]);
    if (scene.graph !== null) sides.push([`Predicted roads by ${map.modes[0].name.toLowerCase()}`, roads]);
    if (scene.missed) sides.push(["Errors", (context, view) => { image(context, view); dim(context); drawErrors(context, view, scene); }]);
    return sides;
  }

  side(scene, name, drawn) {
    const [west, south, east, north] = scene.box;
    const canvas = make("canvas", { role: "img", "aria-label": `${name} of ${scene.name}` });
    canvas.style.aspectRatio = String(Math.min(Math.max((east - west) / (north - south || 1), 0.6), 2.5));
    canvas.drawn = () => {
      const box = canvas.getBoundingClientRect();
      const view = new Viewport(box.width, box.height).fit(scene.box, 0);
      sharpen(canvas, box.width, box.height);
      const context = canvas.getContext("2d");
      clear(context);
      drawn(context, view);
    };
    return make("figure", {}, canvas, make("figcaption", {}, name));
  }

  drawSeen(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting || target.dataset.drawn) continue;
      const scene = this.map.scenes[Number(target.id.slice("scene-".length))];
      Promise.resolve(scene.pictures.image?.load()).then(() => {
        this.draw(target);
        new ResizeObserver(() => this.draw(target)).observe(target);
      });
    }
  }

  draw(card) {
    card.dataset.drawn = "yes";
    for (const canvas of card.querySelectorAll("canvas")) canvas.drawn();
  }

  // Draw all cards at once, without images that were not seen yet.
  drawAll() {
    for (const card of this.list.children) this.draw(card);
  }
}

function dim(context) {
  context.save();
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = "#0d1219";
  context.globalAlpha = 0.55;
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  context.restore();
}

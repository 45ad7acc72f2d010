// Display: the opacity of pictures, and which two layers are swiped.

class DisplayMenu {
  constructor(map) {
    Object.assign(this, { map, sliders: new Map() });
    const here = LAYERS.filter(({ key }) => map.has(key));
    const pictures = here.filter(({ key }) => key in map.opacity);
    if (pictures.length) byId("display").append(this.opacities(pictures));
    if (here.length > 1) byId("display").append(this.swipe(here));
    byId("display-menu").hidden = here.length < 2 && !pictures.length;
  }

  opacities(pictures) {
    return make("fieldset", {}, make("legend", {}, "Opacity"), ...pictures.map((layer) => this.slider(layer)));
  }

  slider({ key, name }) {
    const input = make("input", { type: "range", min: 0, max: 100, step: 5, "data-opacity": key });
    const value = make("output");
    input.addEventListener("input", () => {
      this.map.opacity[key] = input.value / 100;
      if (!this.map.shows(key)) this.map.toggle(key, true);
      this.update();
      this.map.redraw();
    });
    this.sliders.set(key, { input, value });
    return make("label", { class: "slider" }, make("span", {}, name), input, value);
  }

  // Begin with two layers that are often compared.
  swipe(layers) {
    const { map } = this;
    const options = () => layers.map(({ key, name }) => make("option", { value: key }, name));
    this.sides = ["left", "right"].map((side) =>
      make("select", { id: `swipe-${side}`, "aria-label": `Layer ${side} of the divider` }, ...options()));
    const pair = [["reference", "graph"], ["image", "probability"]].find((keys) => keys.every((key) => map.has(key)));
    this.sides.forEach((side, at) => { side.value = pair?.[at] ?? layers[at].key; });
    this.button = make("button", { type: "button", class: "tool", id: "swipe", onclick: () => this.toggle() }, "Swipe");
    this.sides.forEach((side, at) => side.addEventListener("change", () => this.choose(at)));
    return make("fieldset", {}, make("legend", {}, "Two layers, with a divider between them"),
      ...this.sides.flatMap((side, at) => [["left ", " right "][at], side]), " ", this.button);
  }

  get chosen() {
    return this.sides.map(({ value }) => value);
  }

  toggle() {
    this.map.swipe.set(this.map.swipe.layers ? null : this.chosen);
    if (this.map.swipe.layers) this.map.swipe.divider.focus();
  }

  // A layer cannot be swiped against itself, so the other side takes what this one had.
  choose(at) {
    const before = this.map.swipe.layers ?? this.before;
    if (this.sides[0].value === this.sides[1].value) this.sides[1 - at].value = before[at];
    this.before = this.chosen;
    if (this.map.swipe.layers) this.map.swipe.set(this.chosen);
  }

  update() {
    const { map } = this;
    for (const [key, { input, value }] of this.sliders) {
      input.value = Math.round(map.opacity[key] * 100);
      value.textContent = `${input.value} %`;
    }
    if (!this.button) return;
    map.swipe.layers?.forEach((key, at) => { this.sides[at].value = key; });
    this.before = this.chosen;
    this.button.setAttribute("aria-pressed", String(Boolean(map.swipe.layers)));
  }
}

// Curves: how training went, as drawings with axes.

const SIZE = { width: 520, height: 230, left: 44, right: 12, top: 14, bottom: 34 };

function ticks(low, high) {
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(+value.toPrecision(6));
  return found;
}

function curve(title, epochs, series, best, isShare) {
  const values = series.flatMap(({ key }) => epochs.map((row) => row[key])).filter((value) => value !== null);
  const [low, high] = [isShare ? 0 : Math.min(0, ...values), isShare ? 1 : Math.max(...values) * 1.05 || 1];
  const [first, last] = [epochs[0].epoch, epochs[epochs.length - 1].epoch];
  const x = (epoch) => SIZE.left + ((epoch - first) / (last - first || 1)) * (SIZE.width - SIZE.left - SIZE.right);
  const y = (value) => SIZE.height - SIZE.bottom - ((value - low) / (high - low)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const told = make("figcaption", {});
  const said = (row) => `epoch ${row.epoch}: ` +
    series.map(({ key, name }) => `${name} ${row[key] === null ? "–" : row[key].toFixed(4)}`).join(", ");
  const bestRow = epochs.find(({ epoch }) => epoch === best) ?? epochs[epochs.length - 1];
  told.textContent = `Best ${said(bestRow)}`;
  const picture = draw("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": `${title}; ${told.textContent}` },
    ...axes(x, y, { low, high, first, last }),
    draw("line", { class: "best", x1: x(bestRow.epoch), x2: x(bestRow.epoch), y1: SIZE.top, y2: SIZE.height - SIZE.bottom }),
    ...series.flatMap(({ key }, at) => plotted(epochs, key, x, y, at ? "second" : "first")));
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * SIZE.width;
    const near = epochs.reduce((a, b) => (Math.abs(x(b.epoch) - place) < Math.abs(x(a.epoch) - place) ? b : a));
    told.textContent = inWords(said(near));
  });
  picture.addEventListener("pointerleave", () => { told.textContent = `Best ${said(bestRow)}`; });
  const keys = series.map(({ name }, at) => make("span", { class: "key" },
    draw("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" },
      draw("line", { class: at ? "second" : "first", x1: 2, x2: 24, y1: 5, y2: 5, "stroke-width": 3 })), name));
  return make("figure", { class: "curve card" }, make("h3", {}, title),
    make("div", { class: "keys" }, ...keys), picture, told);
}

function axes(x, y, { low, high, first, last }) {
  const rules = ticks(low, high).flatMap((value) => [
    draw("line", { class: "rule", x1: SIZE.left, x2: SIZE.width - SIZE.right, y1: y(value), y2: y(value) }),
    draw("text", { x: SIZE.left - 7, y: y(value) + 4, "text-anchor": "end" }, String(value))]);
  const epochs = ticks(first, last).filter(Number.isInteger).map((epoch) =>
    draw("text", { x: x(epoch), y: SIZE.height - SIZE.bottom + 16, "text-anchor": "middle" }, String(epoch)));
  const name = draw("text", { x: (SIZE.left + SIZE.width) / 2, y: SIZE.height - 3, "text-anchor": "middle" }, "epoch");
  return [...rules, ...epochs, name];
}

function plotted(epochs, key, x, y, kind) {
  const known = epochs.filter((row) => row[key] !== null && row[key] !== undefined);
  const path = known.map((row, at) => `${at ? "L" : "M"}${x(row.epoch).toFixed(1)} ${y(row[key]).toFixed(1)}`).join("");
  const dots = known.length <= 40
    ? known.map((row) => draw("circle", { class: kind, cx: x(row.epoch), cy: y(row[key]), r: 2.6 })) : [];
  return [draw("path", { class: kind, d: path }), ...dots];
}

function showTraining(section, training) {
  for (const { name, epochs, best_epoch: best } of training) {
    if (training.length > 1) section.append(make("h3", {}, name));
    if (name.startsWith("adapted/")) {
      section.append(make("p", { class: "muted" }, "This network learned from the roads of its own first map that it was sure of. "
        + "The curves compare it with these roads, so they do not measure accuracy."));
    }
    // A training on all chips holds nothing out, so that its epochs lack what is measured there.
    const known = (series) => series.filter(({ key }) => key in epochs[0]);
    const losses = known([{ key: "train_loss", name: "training" }, { key: "val_loss", name: "validation" }]);
    const scores = known([{ key: "val_iou", name: "IoU" }, { key: "val_f1", name: "F1" }]);
    section.append(make("div", { class: "columns" }, curve("Loss", epochs, losses, best, false),
      ...(scores.length ? [curve("Validation, pixels", epochs, scores, best, true)] : [])));
  }
}

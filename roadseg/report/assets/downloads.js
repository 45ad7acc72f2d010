// Downloads: the roads that are shown as GeoJSON, and the map as a picture.

// Of the strip below a picture: its height with one line of text, and that of each line more.
const [FOOT_PX, FOOT_LINE_PX, FOOT_FONT] = [34, 17, "12.5px system-ui, sans-serif"];

function saveAs(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000); // A busy browser starts late.
}

const fileName = (ending) => `${document.title.split(" ")[0]}.${ending}`;

function saveRoads(map) {
  const features = map.graphsHere.flatMap((graph) => map.filter.rows(graph).map((row) => feature(map, graph, row)));
  const text = JSON.stringify({ type: "FeatureCollection", features });
  saveAs(new Blob([text], { type: "application/geo+json" }), fileName("geojson"));
}

function feature(map, graph, row) {
  const places = graph.lines.part(row, 0, 1).map((place) => map.degrees(place).map((value) => +value.toFixed(7)));
  return {
    type: "Feature",
    properties: Object.fromEntries(Object.keys(graph.columns).map((name) => [name, graph.get(name, row)])),
    geometry: { type: "LineString", coordinates: places },
  };
}

function savePicture(map) {
  map.draw();
  pictureOf(map).toBlob((blob) => saveAs(blob, fileName("png")));
}

// The map as it is on the screen, with its legend, and below it scale and credits.
function pictureOf(map) {
  const { view } = map;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const ratio = map.ground.canvas.width / view.width;
  const foot = footOf(context, map);
  Object.assign(canvas, { width: map.ground.canvas.width, height: Math.round((view.height + foot.height) * ratio) });
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = { ink: colour("--ink"), ground: colour("--surface") };
  context.fillStyle = colour("--map");
  context.fillRect(0, 0, canvas.width, canvas.height);
  map.marks.draw({ forPicture: true });
  for (const layer of [map.ground, map.roads, map.marks.context]) context.drawImage(layer.canvas, 0, 0);
  map.marks.draw();
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (map.swipe.layers) drawDivider(context, map);
  drawLegend(context, legendOf(map), 12, view.height - 12, colours);
  drawFoot(context, view, foot, colours);
  return canvas;
}

function drawDivider(context, { view, swipe }) {
  context.fillStyle = "#fff";
  context.fillRect(swipe.share * view.width - 1, 0, 2, view.height);
}

// The strip below a picture: its scale bar, its lines of text beside it, its height.
function footOf(context, { view, title, credits }) {
  const bar = scaleBar(view.scale);
  context.font = FOOT_FONT;
  const room = view.width - 60 - bar.px - context.measureText(bar.text).width;
  const lines = [title];
  for (const part of [...credits, "roadseg"]) {
    const longer = `${lines[lines.length - 1]} · ${part}`;
    if (context.measureText(longer).width > room) lines.push(part);
    else lines[lines.length - 1] = longer;
  }
  return { bar, lines, room, height: FOOT_PX + (lines.length - 1) * FOOT_LINE_PX };
}

function drawFoot(context, { width, height: top }, { bar, lines, room, height }, { ink, ground }) {
  const middle = top + height / 2;
  context.fillStyle = ground;
  context.fillRect(0, top, width, height);
  Object.assign(context, { fillStyle: ink, strokeStyle: ink, lineWidth: 1.5, textBaseline: "middle", font: FOOT_FONT });
  context.beginPath();
  for (const [x, y] of [[12, -4], [12, 4], [12 + bar.px, 4], [12 + bar.px, -4]]) context.lineTo(x, middle + y);
  context.stroke();
  context.textAlign = "left";
  context.fillText(bar.text, 20 + bar.px, middle);
  context.textAlign = "right";
  lines.forEach((line, at) =>
    context.fillText(line, width - 12, middle + (at - (lines.length - 1) / 2) * FOOT_LINE_PX, Math.max(room, 10)));
}

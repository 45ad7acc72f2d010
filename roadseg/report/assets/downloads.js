// Downloads: the roads that are shown as GeoJSON, and the map as a picture.

const FOOT_PX = 34; // height of the strip below a picture, with its scale and credits

function saveAs(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
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
  const ratio = map.ground.canvas.width / view.width;
  Object.assign(canvas, { width: map.ground.canvas.width, height: Math.round((view.height + FOOT_PX) * ratio) });
  const context = canvas.getContext("2d");
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
  drawFoot(context, map, colours);
  return canvas;
}

function drawDivider(context, { view, swipe }) {
  context.fillStyle = "#fff";
  context.fillRect(swipe.share * view.width - 1, 0, 2, view.height);
}

function drawFoot(context, map, { ink, ground }) {
  const { width, height } = map.view;
  const { px, text } = scaleBar(map.view.scale);
  const middle = height + FOOT_PX / 2;
  context.fillStyle = ground;
  context.fillRect(0, height, width, FOOT_PX);
  Object.assign(context, { fillStyle: ink, strokeStyle: ink, lineWidth: 1.5, textBaseline: "middle", font: "12.5px system-ui, sans-serif" });
  context.beginPath();
  for (const [x, y] of [[12, -4], [12, 4], [12 + px, 4], [12 + px, -4]]) context.lineTo(x, middle + y);
  context.stroke();
  context.textAlign = "left";
  context.fillText(text, 20 + px, middle);
  context.textAlign = "right";
  const left = 30 + px + context.measureText(text).width;
  context.fillText([map.title, ...map.credits, "roadseg"].join(" · "), width - 12, middle, Math.max(width - 12 - left, 10));
}

// Marks: what lies over the roads: a route with its ends, the picked road, the one under the pointer.

const HOVER_COLOUR = "#ffffff";

class Marks {
  constructor(map) {
    Object.assign(this, { map, context: byId("marks").getContext("2d") });
  }

  // Draw all marks; without those of the pointer and the keys if they are for a saved picture.
  draw({ forPicture = false } = {}) {
    const { map, context } = this;
    clear(context);
    if (map.trip.route) this.line(map.trip.route.points.flat(), ROUTE_COLOUR, 5);
    if (map.under && !forPicture) this.road(map.under, HOVER_COLOUR, 3);
    if (map.picked) this.road(map.picked, PICKED_COLOUR, 5);
    map.trip.ends.forEach((end, at) => this.end(end, "AB"[at]));
    if (map.pinned) this.pin(map.pinned);
    if (map.hands.byKeys && !forPicture) this.middle();
  }

  // Count in pixels of the page, from a place on the screen on.
  from([x, y] = [0, 0]) {
    const ratio = this.context.canvas.width / this.map.view.width;
    this.context.setTransform(ratio, 0, 0, ratio, x * ratio, y * ratio);
  }

  road({ graph, row }, colour, width) {
    this.line(graph.lines.part(row, 0, 1), colour, width);
  }

  line(points, colour, width) {
    const { context } = this;
    this.from();
    Object.assign(context, { lineJoin: "round", lineCap: "round" });
    this.path(points);
    this.stroke("#0d1219", width + 3);
    this.stroke(colour, width);
  }

  path(points) {
    this.context.beginPath();
    points.forEach((point, at) => this.context[at ? "lineTo" : "moveTo"](...this.map.view.toScreen(point)));
  }

  stroke(colour, width) {
    Object.assign(this.context, { strokeStyle: colour, lineWidth: width });
    this.context.stroke();
  }

  end({ at, on }, name) {
    const { context } = this;
    this.from();
    if (on) {
      context.setLineDash([4, 4]);
      this.path([at, on]);
      this.stroke("#fff", 2);
      context.setLineDash([]);
    }
    this.disc(at, 10);
    Object.assign(context, { fillStyle: "#fff", font: "600 12px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    context.fillText(name, 0, 0.5);
  }

  disc(place, radius) {
    const { context } = this;
    this.from(this.map.view.toScreen(place));
    context.beginPath();
    context.arc(0, 0, radius, 0, 7);
    context.fillStyle = "#1a2230";
    context.fill();
    this.stroke("#fff", 2);
  }

  // A place that was searched for: its tip is there.
  pin(place) {
    const { context } = this;
    this.from(this.map.view.toScreen(place));
    context.beginPath();
    context.moveTo(0, 0);
    context.arc(0, -20, 9, 0.8 * Math.PI, 0.2 * Math.PI);
    context.closePath();
    context.fillStyle = ROUTE_COLOUR;
    context.fill();
    this.stroke("#0d1219", 1.5);
    context.beginPath();
    context.arc(0, -20, 3.2, 0, 7);
    context.fillStyle = "#fff";
    context.fill();
  }

  // A cross in the middle, where Enter picks.
  middle() {
    const { context, map: { view } } = this;
    this.from([view.width / 2, view.height / 2]);
    for (const [colour, width] of [["#0d1219", 4], ["#fff", 2]]) {
      context.beginPath();
      for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(4 * x, 4 * y);
        context.lineTo(12 * x, 12 * y);
      }
      this.stroke(colour, width);
    }
  }
}

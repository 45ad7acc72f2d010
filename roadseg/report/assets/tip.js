// Tip: a short label of the road under the pointer.

class Tip {
  constructor() {
    this.element = byId("tip");
  }

  show(road, [x, y], { width }) {
    this.element.hidden = false;
    this.element.textContent = this.text(road);
    const most = width - this.element.offsetWidth - 8;
    this.element.style.left = `${Math.max(Math.min(x + 14, most), 8)}px`;
    this.element.style.top = `${y + 18}px`;
  }

  hide() {
    this.element.hidden = true;
  }

  text({ graph, row }) {
    const kph = graph.get("speed_kph", row);
    const sure = certaintyOf(graph, row);
    const parts = [kph === null ? null : speedText(kph), distance(graph.get("length_m", row)),
      sure === null ? null : `${(sure * 100).toFixed(0)} % certain`,
      graph.get("inferred", row) === 1 ? "inferred" : null];
    return parts.filter((part) => part !== null).join(" · ");
  }
}

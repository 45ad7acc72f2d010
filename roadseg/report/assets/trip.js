// Trip: a route on the map, and its two ends, which are clicked or given.

const APART_M = 50; // farther from the road than in another graph, and the route is of no use

class Trip {
  constructor(map) {
    Object.assign(this, { map, isOn: false });
    this.clear();
  }

  clear() {
    Object.assign(this, { ends: [], route: null });
  }

  // Take clicks on the map for ends, or no longer.
  start(isOn) {
    this.isOn = isOn;
    this.map.forget();
    this.map.tools.update();
    if (isOn) this.map.panel.tellRoute("Click the start.");
  }

  add(at) {
    if (this.ends.length === 2) this.clear();
    this.ends.push({ at, on: null });
    if (this.ends.length === 2) this.find();
    else this.map.panel.tellRoute("Now click the destination.");
    this.map.marks.draw();
    this.map.address.write();
  }

  // Show the route between two places on the ground.
  show(places) {
    this.ends = places.map((at) => ({ at, on: null }));
    this.find();
    this.map.marks.draw();
  }

  find() {
    const { map, ends } = this;
    const found = this.between(...ends.map(({ at }) => at));
    this.route = found.points ? found : null;
    const flat = found.points?.flat() ?? [];
    if (flat.length) [ends[0].on, ends[1].on] = [flat[0], flat[flat.length - 1]];
    map.panel.showRoute(found, ends.map(({ at }) => map.degrees(at)));
  }

  // The route between two places, on the graph that is nearest to both.
  between(from, to) {
    const most = this.map.told.snap_m;
    const [here, there] = [from, to].map((place) => this.map.nearest(place, most));
    if (!here || !there) return { problem: `The ${here ? "destination" : "start"} is more than ${most} m from any road.` };
    const ways = [here.graph, there.graph].map((graph) => {
      const ends = [from, to].map((place) => graph.enter(...place, most));
      return { graph, ends, away: ends[0] && ends[1] ? ends[0].away + ends[1].away : Infinity };
    });
    const { graph, ends, away } = ways[0].away <= ways[1].away ? ways[0] : ways[1];
    if (away - here.away - there.away > APART_M) {
      return { problem: `No route: ${here.graph.name} and ${there.graph.name} are separate graphs.` };
    }
    const found = findRoute(graph, ...ends);
    if (!found) return { problem: "No route: these roads are not connected.", graph: graph.name };
    return { ...found, graph: graph.name };
  }
}

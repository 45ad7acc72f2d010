// Units: lengths and speeds as people read them, metric or in miles (`compute.units`).

const KM_PER_MILE = 1.609344;
const METRES_PER_FOOT = 0.3048;
const UNITS = { isMetric: true };

function chooseUnits(units) {
  UNITS.isMetric = units === "metric";
}

const roadUnit = () => (UNITS.isMetric ? "km" : "mi");
const shortUnit = () => (UNITS.isMetric ? "m" : "ft");
const inRoadUnit = (km) => (UNITS.isMetric ? km : km / KM_PER_MILE);
const inShortUnit = (metres) => (UNITS.isMetric ? metres : metres / METRES_PER_FOOT);
const inAreaUnit = (km2) => (UNITS.isMetric ? km2 : km2 / KM_PER_MILE ** 2);
const shortText = (metres) => `${inShortUnit(metres).toFixed(UNITS.isMetric ? 1 : 0)} ${shortUnit()}`;
const speedText = (kph) => (UNITS.isMetric ? `${kph.toFixed(0)} km/h` : `${(kph / KM_PER_MILE).toFixed(0)} mph`);

function distance(metres) {
  if (inShortUnit(metres) >= 1000) return `${inRoadUnit(metres / 1000).toFixed(2)} ${roadUnit()}`;
  return metres < 100 ? shortText(metres) : `${inShortUnit(metres).toFixed(0)} ${shortUnit()}`;
}

// The longest length of a round number that is at most so many metres: its metres, and what it is called.
function roundLength(most) {
  const long = UNITS.isMetric ? 1000 : KM_PER_MILE * 1000;
  const [size, name] = most >= long ? [long, roadUnit()] : [UNITS.isMetric ? 1 : METRES_PER_FOOT, shortUnit()];
  const power = 10 ** Math.floor(Math.log10(most / size));
  const number = [5, 2, 1].map((digit) => digit * power).find((round) => round * size <= most);
  return { metres: number * size, text: `${number} ${name}` };
}

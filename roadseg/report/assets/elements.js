// Elements: pieces of the page. Texts go in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

function note(before, command, after = "") {
  return make("p", { class: "note" }, before, command ? make("code", {}, command) : null, after);
}

function pairs(rows, kind = "") {
  const cells = rows.map(([name, value]) =>
    make("tr", {}, make("td", {}, name), make("td", {}, value)));
  return make("table", { class: `pairs ${kind}` }, make("tbody", {}, ...cells));
}

const inWords = (name) => {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

function asText(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(+value.toPrecision(5));
  if (Array.isArray(value)) return value.length ? value.map(asText).join(", ") : "none";
  if (typeof value === "object") {
    const told = Object.entries(value).map(([name, part]) => `${name}: ${asText(part)}`);
    return told.length ? told.join("; ") : "none";
  }
  return String(value);
}

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

// Print: what is folded on the screen, or not drawn yet, is shown on paper.

const PAPER = { width: 680, height: 624 }; // CSS pixels of the map on paper, as in report.css

// The map on paper is its picture of the screen, made smaller or larger: so is its scale.
function tellScaleOnPaper({ view, tools }) {
  const { scale } = view;
  view.scale *= Math.min(PAPER.width / view.width, PAPER.height / view.height);
  tools.tellScale();
  view.scale = scale;
}

function watchPrint(map) {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not(.menu):not([open])")];
    for (const details of opened) details.open = true;
    map.sides?.drawAll();
    tellScaleOnPaper(map);
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    map.tools.tellScale();
  });
}

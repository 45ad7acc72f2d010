// Print: what is folded on the screen, or not drawn yet, is shown on paper.

function watchPrint(sides) {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("main details:not(.menu):not([open])")];
    for (const details of opened) details.open = true;
    sides?.drawAll();
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });
}

// Menus: parts of the toolbar that open below their name, one at a time.

// Close menus by Escape, by a click elsewhere, and when another opens.
function watchMenus() {
  const menus = [...document.querySelectorAll("details.menu")];
  const close = (but) => menus.filter((menu) => menu !== but).forEach((menu) => { menu.open = false; });
  for (const menu of menus) {
    menu.addEventListener("toggle", () => {
      if (!menu.open) return;
      close(menu);
      keepInside(menu.querySelector(".drop"));
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }
  document.addEventListener("pointerdown", (event) => close(event.target.closest("details.menu")));
}

// Move a sheet to the left if it would end beyond the page.
function keepInside(sheet) {
  sheet.style.left = "";
  const beyond = sheet.getBoundingClientRect().right - document.documentElement.clientWidth + 8;
  if (beyond > 0 && getComputedStyle(sheet).position === "absolute") sheet.style.left = `${-beyond}px`;
}

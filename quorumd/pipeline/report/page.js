"use strict";
// Titles of marks, shown at once and readable: browsers show them late and small.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll("svg title")) {
  const mark = title.parentNode;
  mark.dataset.tip = title.textContent;
  mark.setAttribute("aria-label", title.textContent);
  title.remove();
}
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest ? event.target.closest("[data-tip]") : null;
  tip.hidden = !mark;
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(6, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + "px";
  tip.style.top = (event.clientY + box.height + 22 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16) + "px";
});
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
// A click on a header sorts by that column; numbers are compared by what they mean, in data-value.
for (const header of document.querySelectorAll("th[aria-sort]")) {
  header.addEventListener("click", () => {
    const body = header.closest("table").tBodies[0];
    const column = header.cellIndex;
    const up = header.getAttribute("aria-sort") === "descending";
    for (const other of header.parentNode.cells) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      const order = x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return up ? order : -order;
    };
    body.append(...[...body.rows].sort(compare));
  });
}

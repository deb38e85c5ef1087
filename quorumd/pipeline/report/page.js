"use strict";
// Draws each chart from the specification in its element, in the colors of the page, and again when the theme changes.
const charts = [...document.querySelectorAll(".chart")].map((element) => ({
  element,
  spec: element.querySelector("script").textContent,
  view: null,
}));

function colorsOfPage() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "paper", "muted", "line", "blue", "orange", "teal", "red", "violet", "pale", "calm", "onMark"];
  for (let i = 0; i < 8; i++) names.push("n" + i);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}

function configOf(colors) {
  const labels = { labelColor: colors.muted, titleColor: colors.muted, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 };
  return {
    background: null,
    font: "system-ui, sans-serif",
    padding: { left: 0, right: 8, top: 4, bottom: 0 },
    view: { stroke: null },
    axis: { ...labels, gridColor: colors.line, domainColor: colors.line, tickColor: colors.line },
    legend: { ...labels, symbolType: "square", symbolSize: 110, labelFontSize: 13, offset: 10 },
  };
}

async function drawCharts() {
  const colors = colorsOfPage();
  for (const chart of charts) {
    const spec = JSON.parse(chart.spec);
    spec.params.find((param) => param.name === "colors").value = colors;
    if (chart.view) chart.view.finalize();
    const options = {
      actions: { export: true, source: false, compiled: false, editor: false },
      config: configOf(colors),
      renderer: "svg",
      tooltip: { theme: "page" },
    };
    chart.view = await vegaEmbed(chart.element, spec, options);
  }
}

if (charts.length) {
  drawCharts();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
}

// A click on a column header sorts the table by that column; numbers are compared by data-value.
for (const header of document.querySelectorAll("th[aria-sort]")) {
  header.addEventListener("click", () => {
    const body = header.closest("table").tBodies[0];
    const column = header.cellIndex;
    const ascending = header.getAttribute("aria-sort") === "descending";
    for (const other of header.parentNode.cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      const order = numbers ? x - y : x.localeCompare(y, undefined, { numeric: true });
      return ascending ? order : -order;
    };
    body.append(...[...body.rows].sort(compare));
  });
}

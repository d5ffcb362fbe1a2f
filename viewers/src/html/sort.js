// Sorts a table by the column whose head is pressed: figures by data-v, names by their text.
"use strict";
for (const table of document.querySelectorAll("table.sort")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const number = head.classList.contains("n");
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : number;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      table.classList.toggle("moved", !(column === 0 && !down));
      const key = (row) => {
        const cell = row.cells[column];
        return number ? Number(cell.dataset.v) : cell.textContent;
      };
      const order = (a, b) => (number ? a - b : a.localeCompare(b));
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort((a, b) => (down ? order(b[0], a[0]) : order(a[0], b[0])));
      table.tBodies[0].replaceChildren(...rows.map((row) => row[1]));
    });
  });
}
// A link to a folded block opens it.
const unfold = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
window.addEventListener("hashchange", unfold);
unfold();

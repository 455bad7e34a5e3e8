"use strict";
// Headings become buttons that sort; without a script the tables are read as they are.
const said = document.getElementById("said");

function value(row, column) {
  return row.cells[column].dataset.v ?? row.cells[column].textContent;
}

// What is not known comes last, whichever way the others are sorted.
function order(one, other, numeric, sign) {
  if (one === "" || other === "") return (one === "") - (other === "");
  if (numeric) return sign * (Number(one) - Number(other));
  return sign * one.localeCompare(other, undefined, { numeric: true });
}

function sort(table, heading) {
  const descending = heading.getAttribute("aria-sort") === "ascending";
  const column = heading.cellIndex;
  const numeric = heading.classList.contains("num");
  const rows = [...table.tBodies[0].rows];
  const sign = descending ? -1 : 1;
  rows.sort((a, b) => order(value(a, column), value(b, column), numeric, sign));
  table.tBodies[0].append(...rows);
  for (const other of table.tHead.rows[0].cells) {
    if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
  }
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  said.textContent = `sorted by ${heading.textContent}, ${descending ? "descending" : "ascending"}`;
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const heading of table.tHead.rows[0].cells) {
    if (heading.classList.contains("pic")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading));
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
  }
}

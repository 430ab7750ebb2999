"use strict";
(() => {
  const sortBy = (table, place, ascending) => {
    const body = table.tBodies[0];
    const key = (row) => {
      const cell = row.cells[place];
      const value = cell.dataset.value;
      return value === undefined ? { text: cell.textContent.trim() } : { number: Number(value) };
    };
    const compare = (a, b) => {
      if (a.number !== undefined && b.number !== undefined) {
        return ascending ? a.number - b.number : b.number - a.number;
      }
      // what has no number comes last, whichever way
      if (a.number !== undefined) return -1;
      if (b.number !== undefined) return 1;
      const order = a.text.localeCompare(b.text, "en", { numeric: true });
      return ascending ? order : -order;
    };
    const rows = Array.from(body.rows, (row) => [key(row), row]);
    rows.sort((one, other) => compare(one[0], other[0]));
    body.append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead) continue;
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, place) => {
      head.querySelector("button").addEventListener("click", () => {
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sortBy(table, place, ascending);
      });
    });
  }

  const tip = document.getElementById("tip");
  const points = JSON.parse(document.getElementById("points").textContent);
  const line = (name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  };
  const showTip = (element, point) => {
    tip.replaceChildren(
      line("b", point.label), ...point.values.map(([name, value]) => line("span", `${name}: ${value}`)),
    );
    tip.hidden = false;
    const at = element.getBoundingClientRect();
    const width = document.documentElement.clientWidth;
    const left = Math.min(Math.max(at.left + at.width / 2 - tip.offsetWidth / 2, 8), width - tip.offsetWidth - 8);
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${(above > 0 ? above : at.bottom + 8) + window.scrollY}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  for (const [gid, point] of Object.entries(points)) {
    const element = document.getElementById(gid);
    if (!element) continue;
    const values = point.values.map(([name, value]) => `${name} ${value}`).join(", ");
    element.classList.add("point");
    element.setAttribute("tabindex", "0");
    element.setAttribute("role", point.href ? "link" : "img");
    element.setAttribute("aria-label", `${point.label}: ${values}`);
    const open = () => { if (point.href) window.location.href = point.href; };
    element.addEventListener("pointerenter", () => showTip(element, point));
    element.addEventListener("pointerleave", hideTip);
    element.addEventListener("focus", () => showTip(element, point));
    element.addEventListener("blur", hideTip);
    element.addEventListener("click", (event) => {
      // the first tap shows the values, as there is nothing to hover with
      if (event.pointerType === "touch" && tip.hidden) showTip(element, point);
      else if (event.pointerType !== "touch") open();
    });
    element.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
  }

  const contents = document.querySelector("nav details");
  if (window.matchMedia("(max-width: 1099px)").matches) contents.open = false;

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("code").textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(button.parentElement.querySelector("code"));
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();

"use strict";
(() => {
  const make = (name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  };

  // tables: numbers by value, what has none last either way; words by how they are read
  const numbersOf = (cell) => (cell.dataset.value ? Number(cell.dataset.value) : null);
  const byNumber = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return a === b ? 0 : sign * (a < b ? -1 : 1);
  };
  const byText = (a, b, sign) => sign * a.localeCompare(b, "en", { numeric: true });
  const sortBy = (table, place, numeric, sign) => {
    const key = numeric ? numbersOf : (cell) => cell.textContent.trim();
    const compare = numeric ? byNumber : byText;
    const rows = Array.from(table.tBodies[0].rows, (row) => [key(row.cells[place]), row]);
    rows.sort((one, other) => compare(one[0], other[0], sign));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead) continue;
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, place) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const order = head.ariaSort === "ascending" ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        sortBy(table, place, head.classList.contains("number"), order === "ascending" ? 1 : -1);
      });
    });
  }

  // plots: one tooltip for all points
  const HIT = 22;
  const tip = document.getElementById("tip");
  let shown = null;
  const place = () => {
    if (!shown) return;
    const at = shown.getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const left = Math.max(Math.min(at.left + (at.width - tip.offsetWidth) / 2, room), 8);
    const above = at.top - tip.offsetHeight - 8;
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${(above > 0 ? above : at.bottom + 8) + window.scrollY}px`;
  };
  const hide = () => { shown = null; tip.hidden = true; };
  const show = (element, point, hint) => {
    const values = document.createElement("dl");
    values.append(...point.values.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
    tip.replaceChildren(make("b", point.label), values);
    if (element.hasAttribute("href")) tip.append(make("small", `${hint} to open its raw cell`));
    tip.style.left = "0";
    tip.hidden = false;
    shown = element;
    place();
  };
  const addHit = (element) => {
    const box = element.getBBox();
    const width = Math.max(box.width, HIT);
    const height = Math.max(box.height, HIT);
    const hit = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    hit.setAttribute("class", "hit");
    hit.setAttribute("x", box.x + (box.width - width) / 2);
    hit.setAttribute("y", box.y + (box.height - height) / 2);
    hit.setAttribute("width", width);
    hit.setAttribute("height", height);
    hit.setAttribute("rx", 3);
    element.append(hit);
  };
  const listen = (element, point) => {
    let follows = true;
    element.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch") show(element, point, "Click");
    });
    element.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") hide();
    });
    element.addEventListener("focus", () => show(element, point, "Enter"));
    element.addEventListener("blur", hide);
    // a finger can't hover: the first tap tells, the second opens
    element.addEventListener("pointerdown", (event) => {
      follows = event.pointerType !== "touch" || shown === element;
    });
    element.addEventListener("click", (event) => {
      if (!follows) {
        event.preventDefault();
        show(element, point, "Tap again");
      }
      follows = true;
    });
  };
  for (const data of document.querySelectorAll("figure > script")) {
    for (const [id, point] of Object.entries(JSON.parse(data.textContent))) {
      const element = document.getElementById(id);
      addHit(element);
      listen(element, point);
    }
  }
  document.addEventListener("scroll", place, { capture: true, passive: true });
  window.addEventListener("resize", place);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  document.addEventListener("pointerdown", (event) => {
    if (shown && !shown.contains(event.target)) hide();
  });

  // contents: open beside the text, folded above it
  const contents = document.querySelector("nav details");
  if (contents) {
    const wide = window.matchMedia("(min-width: 1100px)");
    const fold = () => { contents.open = wide.matches; };
    wide.addEventListener("change", fold);
    fold();
    contents.addEventListener("click", (event) => {
      if (event.target.closest("a") && !wide.matches) contents.open = false;
    });
    const links = Array.from(contents.querySelectorAll("a"));
    const heads = Array.from(document.querySelectorAll("main h2"));
    const follow = () => {
      const passed = heads.filter((head) => head.getBoundingClientRect().top < 120).length - 1;
      links.forEach((link, index) => {
        if (index === passed) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
    };
    document.addEventListener("scroll", follow, { passive: true });
    follow();
  }

  // code: copied, or selected where the clipboard is not allowed
  for (const button of document.querySelectorAll(".copy")) {
    const words = button.parentElement.querySelector("code");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(words.textContent);
        button.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(words);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();

"use strict";
// Draws the two graphs. A module is one box until it is opened, so that thousands of ops stay readable.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg", WIDTH = 150, HEIGHT = 36, GAP = 22, ROW = 70, MANY = 80;
const tip = document.getElementById("tip");
const colour = (delegate) => `hsl(${(150 + 137.5 * delegate) % 360} 52% 82%)`;
const make = (parent, tag, attributes = {}, text = "") => {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  parent.appendChild(element);
  return element;
};
const shorten = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const opName = (op) => op.replace(/^(aten|dim_order_ops|quantized_decomposed)\./, "").replace(/\.default$/, "");

class Graph {
  constructor(svg, ops) {
    this.svg = svg;
    this.root = svg.firstElementChild;
    this.ops = ops;
    this.opened = new Set([""]);
    this.scale = 1; this.x = 0; this.y = 0; this.hits = new Set();
    this.paths();
    this.openSome();
    this.listen();
    this.draw();
    this.fit();
  }

  // The modules that each op is in, outermost first. Ops of the model itself are bundled where there are very many.
  paths() {
    this.byName = new Map(this.ops.map((op, index) => [op.n, index]));
    const bare = this.ops.filter((op) => !op.m).length;
    let run = 0, last = null;
    for (const op of this.ops) {
      const parts = (op.m || "").split(".").filter(Boolean);
      op.path = parts.map((_, depth) => parts.slice(0, depth + 1).join("."));
      if (!parts.length && bare > 2 * MANY && op.d !== undefined) {
        if (last !== op.d) { run += 1; last = op.d; }
        op.path = [`delegate ${op.d}, part ${run}`];
      } else if (op.c) last = null;
    }
    this.modules = new Map();
    this.ops.forEach((op, index) => op.path.forEach((path, depth) => {
      if (!this.modules.has(path)) this.modules.set(path, { path, depth, ops: [] });
      this.modules.get(path).ops.push(index);
    }));
  }

  // Open modules from the outside in, as long as the picture stays small.
  openSome() {
    const levels = [...this.modules.values()].sort((a, b) => a.depth - b.depth || a.ops.length - b.ops.length);
    for (const module of levels) {
      if (module.depth && !this.opened.has(module.path.slice(0, module.path.lastIndexOf(".")))) continue;
      this.opened.add(module.path);
      if (this.visible().length > MANY) { this.opened.delete(module.path); }
    }
  }

  // What is shown: ops, and modules that are closed.
  visible() {
    const found = new Map();
    this.boxOf = this.ops.map((op, index) => {
      const closed = op.path.find((path) => !this.opened.has(path));
      const key = closed === undefined ? `op ${index}` : `module ${closed}`;
      if (!found.has(key)) found.set(key, closed === undefined
        ? { key, op, first: index, ops: [index], path: op.path }
        : { key, module: closed, first: index, ops: [], path: op.path.slice(0, op.path.indexOf(closed)) });
      const box = found.get(key);
      if (box.module !== undefined) box.ops.push(index);
      return box;
    });
    return [...found.values()];
  }

  // Rows by the longest way from the inputs; in a row, each box near what it reads.
  layout() {
    const boxes = this.visible().sort((a, b) => a.first - b.first);
    for (const box of boxes) { box.sources = new Set(); box.readers = new Set(); box.row = 0; }
    this.ops.forEach((op, index) => {
      for (const name of op.i || []) {
        const source = this.boxOf[this.byName.get(name)], box = this.boxOf[index];
        if (source && source !== box) { box.sources.add(source); source.readers.add(box); }
      }
    });
    const rows = [];
    for (const box of boxes) {
      // A module may be left and entered again; only what comes earlier counts.
      for (const source of box.sources) if (source.first < box.first) box.row = Math.max(box.row, source.row + 1);
      (rows[box.row] = rows[box.row] || []).push(box);
    }
    for (const box of [...boxes].reverse()) {  // inputs move down to where they are read
      const readers = [...box.readers].filter((reader) => reader.first > box.first);
      if (box.sources.size || !readers.length) continue;
      const row = Math.min(...readers.map((reader) => reader.row)) - 1;
      if (row > box.row) { rows[box.row].splice(rows[box.row].indexOf(box), 1); box.row = row; rows[row].push(box); }
    }
    for (const row of rows) {
      for (const [place, box] of row.entries()) {
        const xs = [...box.sources].filter((source) => source.first < box.first).map((source) => source.x);
        box.wish = xs.length ? xs.reduce((a, b) => a + b) / xs.length : place * (WIDTH + GAP) - (row.length - 1) * (WIDTH + GAP) / 2;
      }
      row.sort((a, b) => a.wish - b.wish || a.first - b.first);
      let edge = -Infinity, moved = 0;
      for (const box of row) { box.x = Math.max(box.wish, edge + WIDTH + GAP); edge = box.x; moved += box.x - box.wish; }
      for (const box of row) { box.x -= moved / row.length; box.y = box.row * ROW; }
    }
    return boxes;
  }

  draw() {
    this.root.replaceChildren();
    const boxes = this.boxes = this.layout();
    this.frames(boxes);
    for (const box of boxes) {
      box.edges = box.edges || [];
      for (const source of box.sources) {
        const [top, bottom] = [source.y + HEIGHT, box.y], bend = Math.max(20, Math.abs(bottom - top) / 2);
        const edge = make(this.root, "path", { class: "edge", d: `M${source.x},${top} C${source.x},${top + bend} ${box.x},${bottom - bend} ${box.x},${bottom}` });
        box.edges.push(edge); (source.edges = source.edges || []).push(edge);
      }
    }
    for (const box of boxes) this.drawBox(box);
    this.place();
  }

  // A frame around the boxes of each open module, with its name; a click on the name closes it.
  frames(boxes) {
    const shown = new Map();
    for (const box of boxes) for (const path of box.path) {
      if (!shown.has(path)) shown.set(path, []);
      shown.get(path).push(box);
    }
    const titles = [];
    for (const [path, inside] of [...shown].sort((a, b) => a[0].length - b[0].length)) {
      const only = [...shown].some(([other, boxes]) => other.startsWith(path + ".") && boxes.length === inside.length);
      if (only && inside.length > 1) continue;  // the frame within it has the same boxes
      const depth = this.modules.get(path).depth, pad = Math.max(3, 10 - 2 * depth);
      const left = Math.min(...inside.map((b) => b.x)) - WIDTH / 2 - pad, top = Math.min(...inside.map((b) => b.y)) - 12 - pad;
      const right = Math.max(...inside.map((b) => b.x)) + WIDTH / 2 + pad, bottom = Math.max(...inside.map((b) => b.y)) + HEIGHT + pad;
      const frame = make(this.root, "g", { class: "frame" });
      make(frame, "rect", { x: left, y: top, width: right - left, height: bottom - top, rx: 8 });
      const outer = [...shown.keys()].some((other) => path.startsWith(other + "."));
      const name = "− " + (outer ? path.split(".").pop() : path);
      const spot = { x: left + 6, y: top + 11, end: left + 6 + 7 * name.length };
      for (const other of titles) {
        if (Math.abs(other.y - spot.y) < 12 && other.x < spot.end && spot.x < other.end) {
          spot.x = other.end + 8; spot.end = spot.x + 7 * name.length;
        }
      }
      titles.push(spot);
      const title = make(frame, "text", { x: spot.x, y: spot.y }, name);
      title.addEventListener("click", () => this.toggle(path));
    }
  }

  drawBox(box) {
    const ops = box.ops.map((index) => this.ops[index]);
    const delegates = [...new Set(ops.map((op) => op.d).filter((d) => d !== undefined))];
    const left = ops.filter((op) => op.c).length;
    const kind = box.module === undefined ? `op${left ? " cpu" : ""}` : `module${left ? " mixed" : ""}`;
    const group = box.element = make(this.root, "g", { class: kind, transform: `translate(${box.x},${box.y})`, "data-key": box.key });
    const fill = box.module === undefined && left ? "#f4b4ae" : delegates.length === 1 ? colour(delegates[0]) : delegates.length ? "#e4e7ec" : left ? "#f4b4ae" : "#fff";
    make(group, "rect", { class: "box", x: -WIDTH / 2, y: 0, width: WIDTH, height: HEIGHT, rx: 5, fill });
    const label = box.module === undefined ? opName(box.op.o) : "+ " + box.module.split(".").pop();
    const second = box.module === undefined ? (box.op.o === "input" ? box.op.n : box.op.v || "") : `${ops.length} ops${left ? `, ${left} on the CPU` : ""}`;
    make(group, "text", { x: 0, y: 15, "text-anchor": "middle" }, shorten(label, 22));
    make(group, "text", { x: 0, y: 28, "text-anchor": "middle", class: "value" }, shorten(second, 28));
    if (box.ops.some((index) => this.hits.has(index))) group.classList.add("hit");
    group.addEventListener("click", () => { if (box.module !== undefined && !this.dragged) this.toggle(box.module); });
    group.addEventListener("pointerenter", (event) => { this.explain(box, ops, delegates, left, event); (box.edges || []).forEach((edge) => edge.classList.add("near")); });
    group.addEventListener("pointerleave", () => { tip.hidden = true; (box.edges || []).forEach((edge) => edge.classList.remove("near")); });
  }

  explain(box, ops, delegates, left, event) {
    tip.replaceChildren();
    const line = (text, kind) => { if (text) { const element = document.createElement(kind === "b" ? "b" : "div"); if (kind) element.className = kind; element.textContent = text; tip.appendChild(element); } };
    if (box.module === undefined) {
      line(box.op.o, "b"); line(box.op.n); line(box.op.v); line(box.op.s); line(box.op.m && `module ${box.op.m}`);
      line(box.op.d !== undefined ? `delegate ${box.op.d}` : box.op.c ? "on the CPU" : "");
      line(box.op.r, "why"); line(box.op.f && `Next step: ${box.op.f}`, "fix");
    } else {
      line(box.module, "b"); line(`${ops.length} ops, in ${delegates.length} delegate${delegates.length === 1 ? "" : "s"}`);
      for (const op of ops.filter((op) => op.c).slice(0, 5)) line(`${op.o} on the CPU: ${op.r}`, "why");
    }
    tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  }

  toggle(path) {
    if (this.opened.has(path)) this.opened.delete(path); else this.opened.add(path);
    tip.hidden = true;
    this.draw();
    const box = this.boxes.find((one) => one.module === path) || this.boxes.find((one) => one.path.includes(path));
    if (box) this.centre(box);
  }

  openAll(all) {
    this.opened = new Set(all ? ["", ...this.modules.keys()] : [""]);
    this.draw(); this.fit();
  }

  find(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = new Set(wanted ? this.ops.flatMap((op, index) => `${op.n} ${op.o} ${op.m || ""} ${op.s || ""}`.toLowerCase().includes(wanted) ? [index] : []) : []);
    for (const box of this.boxes) box.element.classList.toggle("hit", box.ops.some((index) => this.hits.has(index)));
    const first = this.boxes.find((box) => box.ops.some((index) => this.hits.has(index)));
    if (first) this.centre(first);
    return this.hits.size;
  }

  // Show one op, its modules opened.
  reveal(index) {
    if (index === undefined) return;
    this.ops[index].path.forEach((path) => this.opened.add(path));
    this.hits = new Set([index]);
    this.draw();
    this.centre(this.boxOf[index]);
  }

  nextLeft() {
    const left = this.ops.flatMap((op, index) => (op.c ? [index] : []));
    if (!left.length) return;
    this.at = ((this.at === undefined ? -1 : this.at) + 1) % left.length;
    this.reveal(left[this.at]);
  }

  place() { this.root.setAttribute("transform", `translate(${this.x},${this.y}) scale(${this.scale})`); }

  centre(box) {
    const { width, height } = this.svg.getBoundingClientRect();
    this.scale = Math.max(this.scale, 0.6);
    this.x = width / 2 - box.x * this.scale; this.y = height / 2 - (box.y + HEIGHT / 2) * this.scale;
    this.place();
  }

  fit() {
    if (!this.boxes.length) return;
    const { width, height } = this.svg.getBoundingClientRect();
    const left = Math.min(...this.boxes.map((b) => b.x)) - WIDTH / 2 - 20, right = Math.max(...this.boxes.map((b) => b.x)) + WIDTH / 2 + 20;
    const bottom = Math.max(...this.boxes.map((b) => b.y)) + HEIGHT + 50;
    this.scale = Math.min(1, Math.max(0.65, Math.min(width / (right - left), height / bottom)));
    this.x = width / 2 - (left + right) / 2 * this.scale; this.y = 34 * this.scale;
    this.place();
  }

  listen() {
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => { from = [event.clientX - this.x, event.clientY - this.y]; this.dragged = false; });
    addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x, y] = [event.clientX - from[0], event.clientY - from[1]];
      if (Math.abs(x - this.x) + Math.abs(y - this.y) > 3) { this.dragged = true; this.svg.classList.add("moving"); }
      this.x = x; this.y = y; this.place();
    });
    addEventListener("pointerup", () => { from = null; this.svg.classList.remove("moving"); });
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { left, top } = this.svg.getBoundingClientRect(), [x, y] = [event.clientX - left, event.clientY - top];
      const scale = Math.min(3, Math.max(0.05, this.scale * Math.exp(-event.deltaY / 400)));
      this.x = x - (x - this.x) * scale / this.scale; this.y = y - (y - this.y) * scale / this.scale; this.scale = scale;
      this.place();
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (step) { event.preventDefault(); this.x += step[0]; this.y += step[1]; }
      else if (event.key === "+" || event.key === "-") this.scale *= event.key === "+" ? 1.25 : 0.8;
      this.place();
    });
  }
}

const graphs = [];
for (const key of ["before", "after"]) {
  const svg = document.getElementById(key);
  if (svg) graphs.push(new Graph(svg, DATA[key]));
}
const on = (id, kind, call) => { const element = document.getElementById(id); if (element) element.addEventListener(kind, call); };
on("find", "input", (event) => {
  const counts = graphs.map((graph) => graph.find(event.target.value));
  document.getElementById("found").textContent = event.target.value.trim() ? counts.join(" and ") + " found" : "";
});
on("open", "click", () => graphs.forEach((graph) => graph.openAll(true)));
on("close", "click", () => graphs.forEach((graph) => graph.openAll(false)));
on("next", "click", () => graphs.forEach((graph) => graph.nextLeft()));
for (const row of document.querySelectorAll("#findings tr[data-node]")) {
  row.addEventListener("click", () => {
    const graph = graphs.at(-1), index = graph && graph.byName.get(row.dataset.node);
    if (index !== undefined) { graph.reveal(index); graph.svg.scrollIntoView({ block: "center" }); }
  });
}

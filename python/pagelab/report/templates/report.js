"use strict";

const tip = document.getElementById("tip");

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(x + 14, innerWidth - box.width - 8);
  const below = y + 18 + box.height < innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below ? y + 18 : y - box.height - 12}px`;
}

function hideTip() {
  tip.hidden = true;
}

document.addEventListener("pointermove", (event) => {
  const target = event.target.closest?.("[data-tip]");
  if (target) showTip(target.dataset.tip, event.clientX, event.clientY);
  else if (!event.target.closest?.(".plot, canvas")) hideTip();
});
document.addEventListener("pointerleave", hideTip);
addEventListener("scroll", hideTip, { passive: true });

// Line charts: the values at the recorded point nearest to the pointer.
for (const chart of document.querySelectorAll(".lines")) {
  const plot = chart.querySelector(".plot");
  const cursor = plot.querySelector(".cursor");
  const positions = JSON.parse(chart.dataset.positions);
  const labels = JSON.parse(chart.dataset.x);
  const lines = [...plot.querySelectorAll("polyline")].map((line) => ({
    name: line.dataset.name,
    values: JSON.parse(line.dataset.values),
  }));
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * 100;
    let nearest = 0;
    positions.forEach((x, i) => {
      if (Math.abs(x - at) < Math.abs(positions[nearest] - at)) nearest = i;
    });
    cursor.style.left = `${positions[nearest]}%`;
    cursor.hidden = false;
    const rows = lines.filter((line) => line.values[nearest]);
    const text = rows.map((line) => `${line.name}: ${line.values[nearest]}`);
    showTip([labels[nearest], ...text].join("\n"), event.clientX, event.clientY);
  });
  plot.addEventListener("pointerleave", () => {
    cursor.hidden = true;
    hideTip();
  });
}

// Physical memory: a grid of cells, as many columns as fit.
// A cell is [free, data, tables, preallocated], in frames.
const FREE = 0, DATA = 1, TABLES = 2, PREALLOCATED = 3;
const NAMES = ["free", "data", "page tables", "in use before the start"];

function frames(cell) {
  return cell[FREE] + cell[DATA] + cell[TABLES] + cell[PREALLOCATED];
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  return ["free", "data", "table", "preallocated"].map((name) => style.getPropertyValue(`--${name}`).trim());
}

function geometry(width, cells) {
  // Cells between 5 and 14 pixels, so that a map is neither dust nor a wall.
  const size = Math.max(5, Math.min(14, Math.floor(Math.sqrt((width * width * 0.42) / cells))));
  const columns = Math.max(1, Math.floor(width / size));
  return { size: width / columns, columns, rows: Math.ceil(cells / columns) };
}

function draw(canvas, map, colours) {
  const grid = geometry(canvas.parentElement.clientWidth, map.cells.length);
  const scale = devicePixelRatio || 1;
  canvas.grid = grid;
  canvas.width = Math.round(grid.columns * grid.size * scale);
  canvas.height = Math.round(grid.rows * grid.size * scale);
  canvas.style.height = `${grid.rows * grid.size}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const inner = grid.size - (grid.size > 6 ? 1 : 0.5);
  map.cells.forEach((cell, i) => {
    const x = (i % grid.columns) * grid.size;
    const y = Math.floor(i / grid.columns) * grid.size;
    const fill = (kind, alpha, side) => {
      const at = (inner - side) / 2;
      context.globalAlpha = alpha;
      context.fillStyle = colours[kind];
      context.fillRect(x + at, y + at, side, side);
    };
    const all = frames(cell);
    fill(FREE, 1, inner);
    for (const kind of [PREALLOCATED, DATA]) {
      if (cell[kind]) fill(kind, 0.12 + (0.88 * cell[kind]) / all, inner);
    }
    // A mark that stays visible when one frame in a thousand is meant.
    if (cell[TABLES]) fill(TABLES, 1, Math.max(inner * Math.sqrt(cell[TABLES] / all), Math.min(inner, 3.5)));
  });
}

function size(count) {
  const kib = count * 4;
  if (kib >= 1048576) return `${(kib / 1048576).toFixed(2)} GiB`;
  return kib >= 1024 ? `${(kib / 1024).toFixed(kib % 1024 ? 1 : 0)} MiB` : `${kib} KiB`;
}

function describe(map, i) {
  let start = 0;
  for (let cell = 0; cell < i; cell++) start += frames(map.cells[cell]);
  const kinds = [FREE, DATA, TABLES, PREALLOCATED].filter((kind) => map.cells[i][kind]);
  const rows = kinds.map((kind) => `${NAMES[kind]}: ${size(map.cells[i][kind])}`);
  return [`from 0x${(start * 4096).toString(16)}`, ...rows].join("\n");
}

// Only a page with pictures of memory has their data.
const maps = JSON.parse(document.getElementById("maps-data")?.textContent ?? "[]");
const canvases = maps.map((map) => {
  const figure = document.createElement("div");
  figure.className = "map";
  const title = document.createElement("h3");
  title.textContent = map.design;
  const summary = document.createElement("p");
  summary.textContent = map.summary;
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Physical memory under ${map.design}: ${map.summary}`);
  const frame = document.createElement("div");
  frame.append(canvas);
  figure.append(title, summary, frame);
  document.getElementById("maps").append(figure);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / canvas.grid.size);
    const row = Math.floor((event.clientY - box.top) / canvas.grid.size);
    const cell = row * canvas.grid.columns + column;
    if (column < canvas.grid.columns && cell < map.cells.length) {
      showTip(describe(map, cell), event.clientX, event.clientY);
    } else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  return [canvas, map];
});

function drawAll() {
  const colours = palette();
  for (const [canvas, map] of canvases) draw(canvas, map, colours);
}

drawAll();
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

// Addresses over time: a canvas a picture, its rows in bands of a kind of memory.
const ROW = 2.5, BAND = 16, BETWEEN = 5;

// Where the rows lie: tall enough for the band's name.
function heatRows(picture) {
  const rows = [];
  let y = 0;
  for (const band of picture.bands) {
    const height = Math.max(ROW, BAND / band.rows.length);
    band.top = y;
    band.rows.forEach((address, i) => {
      if (band.gaps.includes(i)) y += 2;
      rows.push({ y, height, address, kind: band.kind });
      y += height;
    });
    y += BETWEEN;
  }
  return { rows, height: y - BETWEEN };
}

function drawHeat(canvas, picture) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const { rows, height } = picture.grid;
  const width = canvas.parentElement.clientWidth;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const across = width / picture.columns;
  const most = Math.log1p(picture.most);
  // To whole pixels, so that neighbours have no seam.
  const snap = (place) => Math.round(place * scale) / scale;
  const fill = (row, from, to) => {
    const [x, y] = [snap(from), snap(row.y)];
    context.fillRect(x, y, snap(to) - x, snap(row.y + row.height) - y);
  };
  rows.forEach((row, i) => {
    context.globalAlpha = 1;
    context.fillStyle = colour("wash");
    fill(row, 0, width);
    context.fillStyle = colour(picture.colour);
    const cells = picture.cells[i];
    for (let at = 0; at < cells.length; at += 2) {
      context.globalAlpha = 0.15 + (0.85 * Math.log1p(cells[at + 1])) / most;
      fill(row, cells[at] * across, (cells[at] + 1) * across);
    }
  });
}

function describeHeat(picture, x, y) {
  const row = picture.grid.rows.findIndex((row) => y >= row.y && y < row.y + row.height);
  const column = Math.floor(x * picture.columns);
  if (row < 0 || column < 0 || column >= picture.columns) return null;
  const { kind, address } = picture.grid.rows[row];
  const cells = picture.cells[row];
  let count = 0;
  for (let at = 0; at < cells.length; at += 2) if (cells[at] === column) count = cells[at + 1];
  const number = (value) => value.toLocaleString("en-US");
  return [
    `${kind}, ${picture.size} from ${address}`,
    `accesses ${number(column * picture.step)} to ${number((column + 1) * picture.step)}`,
    `${picture.of}: ${number(count)}`,
  ].join("\n");
}

const heat = JSON.parse(document.getElementById("heat-data")?.textContent ?? "[]");
const heatCanvases = heat.map((picture) => {
  picture.most = 1;
  for (const row of picture.cells) for (let at = 1; at < row.length; at += 2) picture.most = Math.max(picture.most, row[at]);
  picture.grid = heatRows(picture);
  const make = (tag, name, text = "") => {
    const element = document.createElement(tag);
    element.className = name;
    element.textContent = text;
    return element;
  };
  const figure = make("figure", "heat-map");
  const most = picture.most.toLocaleString("en-US");
  const title = make("h3", "", `${picture.of[0].toUpperCase()}${picture.of.slice(1)}`);
  const what = make("p", "", `${picture.designs}; a cell is ${picture.size} by ${picture.step.toLocaleString("en-US")} accesses and has ${most} at the most`);
  const bands = make("div", "bands");
  for (const band of picture.bands) {
    const name = make("span", "", band.kind);
    name.style.top = `${band.top}px`;
    bands.append(name);
  }
  const frame = make("div", "frame");
  const canvas = document.createElement("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title.textContent} by address and time: ${what.textContent}`);
  frame.append(canvas);
  const ticks = make("div", "ticks");
  for (const [at, text] of picture.ticks) {
    const tick = make("span", "", text);
    tick.style.left = `${at}%`;
    ticks.append(tick);
  }
  figure.append(title, what, bands, frame, ticks);
  document.getElementById("heat").append(figure);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const text = describeHeat(picture, (event.clientX - box.left) / box.width, event.clientY - box.top);
    if (text) showTip(text, event.clientX, event.clientY);
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  return [canvas, picture];
});

function drawAllHeat() {
  for (const [canvas, picture] of heatCanvases) drawHeat(canvas, picture);
}

drawAllHeat();
addEventListener("resize", drawAllHeat);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAllHeat);

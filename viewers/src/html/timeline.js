// The timeline: a row per µop, a column per cycle, drawn as far as it is seen.
"use strict";
for (const root of document.querySelectorAll(".timeline")) {
  // Its data follow it.
  const find = (element) => element.matches(".timeline-data") ? element : find(element.nextElementSibling);
  const data = JSON.parse(find(root).textContent);
  const chart = root.querySelector(".chart");
  const map = root.querySelector(".map");
  const tip = root.querySelector(".tip");
  const output = root.querySelector("output");
  const narrow = matchMedia("(max-width: 40rem)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // What each µop does until when: [begin, end, state] in cycles of the excerpt.
  const FRONT = 0, QUEUE = 1, INPUT = 2, PORT = 3, EXECUTE = 4, LAST = 5, DONE = 6, RETIRE = 7;
  let before = null;
  const rows = data.rows.map(([number, code, kind, port, steps, late]) => {
    let cycle = 0;
    const stamps = steps.map((step) => (cycle += step));
    const [delivered, issued, ready, dispatched, executed, retired] = stamps;
    // On an in-order core a µop waits for the front end only where that made it late.
    const waits = before !== null && (!data.in_order || data.front_end[late]);
    const first = waits ? Math.min(before + 1, delivered) : delivered;
    before = data.in_order ? dispatched : delivered;
    const parts = [];
    let last = first;
    const until = (end, state) => {
      end = Math.min(end, retired);
      if (end > last) parts.push([last, end, state]);
      last = Math.max(last, end);
    };
    until(delivered, FRONT);
    until(issued, QUEUE);
    if (port !== -1) {
      until(ready, INPUT);
      until(dispatched, PORT);
      until(executed - 1, EXECUTE);
      until(executed, LAST);
    }
    until(retired, DONE);
    parts.push([retired, retired + 1, RETIRE]);
    return { number, code, kind, port, late, first, end: retired + 1, parts, stamps };
  });
  const cycles = rows.reduce((most, row) => Math.max(most, row.end), 1);
  const count = rows.length;
  // On an in-order core what a µop waits for has a letter and a text of its own.
  const named = (state, row) =>
    (state === FRONT || state === INPUT) && data.letters[row.late]
      ? [data.letters[row.late], data.late[row.late]] : data.states[state];
  const label = (row) => {
    const text = data.codes[row.code][1];
    return ["", "… ", "(rsp synchronisation) ", "(register merge) ", ""][row.kind]
      + (row.kind === 2 || row.kind === 3 ? "" : text) + (row.kind === 4 ? " + jump" : "");
  };

  // The view: first cycle and row, pixels per cycle and per row.
  const view = { cycle: 0, row: 0, x: 8, y: 16 };
  const RULER = 22;
  let width = 0, height = 0, gutter = 0, colours = {};
  const least = () => ({ x: Math.min((width - gutter) / cycles, 8), y: Math.min((height - RULER) / count, 16) });
  const columns = () => (width - gutter) / view.x;
  const lines = () => (height - RULER) / view.y;

  const clamp = (value, low, high) => Math.max(low, Math.min(value, Math.max(low, high)));
  const settle = () => {
    const bound = least();
    view.x = clamp(view.x, bound.x, 40);
    view.y = clamp(view.y, bound.y, 20);
    view.cycle = clamp(view.cycle, 0, cycles - columns());
    view.row = clamp(view.row, 0, count - lines());
    draw();
  };
  // Keeps what is at the point where it is.
  const zoom = (factor, px = gutter + (width - gutter) / 2, py = RULER + (height - RULER) / 2) => {
    const cycle = view.cycle + (px - gutter) / view.x;
    const row = view.row + (py - RULER) / view.y;
    const bound = least();
    view.x = clamp(view.x * factor, bound.x, 40);
    view.y = clamp(view.y * factor, bound.y, 20);
    view.cycle = cycle - (px - gutter) / view.x;
    view.row = row - (py - RULER) / view.y;
    settle();
  };
  // Moves along the program: the cycles follow the rows.
  const follow = (by) => {
    const at = (row) => rows[clamp(Math.round(row), 0, count - 1)].first;
    const from = view.row;
    view.row = clamp(view.row + by, 0, count - lines());
    view.cycle += at(view.row) - at(from);
    settle();
  };
  const show = (from, to) => {
    view.x = (width - gutter) / Math.max(to - from, 4);
    view.cycle = from;
    const first = rows.findIndex((row) => row.end > from);
    const after = rows.findIndex((row) => row.first >= to);
    view.y = (height - RULER) / Math.max((after < 0 ? count : after) - first, 4);
    view.row = Math.max(first, 0);
    settle();
  };
  const whole = () => {
    Object.assign(view, least(), { cycle: 0, row: 0 });
    settle();
  };
  const middle = () => {
    const inTheMiddle = rows.findIndex((row, n) => n >= count / 2 && data.codes[row.code][3]);
    const row = Math.max(inTheMiddle < 0 ? Math.floor(count / 2) : inTheMiddle, 0);
    view.x = narrow.matches ? 7 : 9;
    view.y = 16;
    // Whole rows, and all of them from the first one on where that is little more than a screen.
    view.row = count <= 1.5 * lines() ? 0 : Math.floor(row - lines() / 3);
    const top = rows[clamp(Math.floor(view.row), 0, count - 1)];
    view.cycle = top ? top.first - 2 : 0;
    settle();
  };

  const setColours = () => {
    const style = getComputedStyle(root);
    const get = (name) => style.getPropertyValue(name).trim();
    colours = {
      states: data.states.map((_, n) => get(`--s${n}`)),
      ink: data.states.map((_, n) => get(`--i${n}`)),
      fg: get("--fg"), dim: get("--dim"), line: get("--line"), bg: get("--panel"),
      hot: get("--accent"), stripe: get("--stripe"),
    };
  };
  const prepare = (canvas, w, h) => {
    const ratio = window.devicePixelRatio || 1;
    const [pw, ph] = [Math.round(w * ratio), Math.round(h * ratio)];
    if (canvas.width !== pw || canvas.height !== ph) [canvas.width, canvas.height] = [pw, ph];
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    return g;
  };

  const draw = () => {
    const g = prepare(chart, width, height);
    const mono = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
    const from = Math.floor(view.row);
    const to = Math.min(count, Math.ceil(view.row + lines()) + 1);
    const px = (cycle) => gutter + (cycle - view.cycle) * view.x;
    const py = (row) => RULER + (row - view.row) * view.y;
    // Columns.
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000]
      .find((step) => step * view.x >= 56) || 100000;
    const begin = Math.ceil((view.cycle + data.base) / step) * step - data.base;
    g.save();
    g.beginPath();
    g.rect(gutter, 0, width - gutter, height);
    g.clip();
    g.fillStyle = colours.line;
    for (let cycle = begin; px(cycle) < width; cycle += step) {
      g.fillRect(Math.round(px(cycle)), RULER, 1, height - RULER);
    }
    // µops.
    g.beginPath();
    g.rect(gutter, RULER, width - gutter, height - RULER);
    g.clip();
    const gap = view.y >= 8 ? 2 : view.y >= 4 ? 1 : 0;
    const glyphs = view.x >= 7 && view.y >= 12;
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.font = `${Math.min(view.y - 4, 11)}px ${mono}`;
    for (let n = from; n < to; n++) {
      const y = py(n);
      if (view.y >= 8 && n % 2) {
        g.fillStyle = colours.stripe;
        g.fillRect(gutter, y, width - gutter, view.y);
      }
      for (const [first, end, state] of rows[n].parts) {
        const x0 = Math.max(px(first), gutter), x1 = Math.min(px(end), width);
        if (x1 <= x0) continue;
        g.fillStyle = colours.states[state];
        g.fillRect(x0, y + gap / 2, Math.max(x1 - x0 - (view.x > 5 ? 0.5 : 0), 0.75), Math.max(view.y - gap, 0.75));
        if (glyphs) {
          g.fillStyle = colours.ink[state];
          const one = Math.max(first, Math.floor(view.cycle));
          const glyph = named(state, rows[n])[0];
          for (let c = one; c < end && px(c) < width; c++) {
            g.fillText(glyph, px(c) + view.x / 2, y + view.y / 2 + 0.5);
          }
        }
      }
    }
    g.restore();
    // Ruler.
    g.font = `11px ${mono}`;
    g.textBaseline = "middle";
    g.textAlign = "left";
    g.fillStyle = colours.dim;
    for (let cycle = begin; px(cycle) < width; cycle += step) {
      if (px(cycle) >= gutter) g.fillText((cycle + data.base).toLocaleString("en"), px(cycle) + 3, RULER / 2);
    }
    // Instructions.
    g.save();
    g.beginPath();
    g.rect(0, RULER, gutter - 6, height - RULER);
    g.clip();
    g.font = `${clamp(view.y - 4, 8, 12)}px ${mono}`;
    for (let n = from; n < to; n++) {
      const y = py(n);
      if (data.codes[rows[n].code][3]) {
        g.fillStyle = colours.hot;
        g.fillRect(0, y, 3, Math.max(view.y, 0.75));
      }
      if (view.y < 10) continue;
      g.fillStyle = rows[n].kind === 0 || rows[n].kind === 4 ? colours.fg : colours.dim;
      g.fillText(label(rows[n]), 8, y + view.y / 2 + 0.5);
    }
    g.restore();
    g.fillStyle = colours.line;
    g.fillRect(gutter - 5, 0, 1, height);
    g.fillRect(0, RULER - 1, width, 1);
    drawMap();
    const last = Math.min(cycles, view.cycle + columns());
    const shown = [Math.floor(view.cycle) + data.base, Math.ceil(last) + data.base];
    root.dataset.from = shown[0];
    root.dataset.to = shown[1];
    root.dataset.rows = Math.min(count, Math.ceil(lines()));
    output.textContent = `cycles ${shown[0].toLocaleString("en")} to ${shown[1].toLocaleString("en")}`
      + ` · ${Number(root.dataset.rows).toLocaleString("en")} of ${count.toLocaleString("en")} µops`;
  };

  // All µops at once, with the part that the chart shows.
  let picture = null;
  const drawMap = () => {
    const w = map.clientWidth, h = map.clientHeight;
    const g = prepare(map, w, h);
    if (!picture) {
      picture = document.createElement("canvas");
      const p = prepare(picture, w, h);
      for (let n = 0; n < count; n++) {
        for (const [first, end, state] of rows[n].parts) {
          p.fillStyle = colours.states[state];
          p.fillRect(first / cycles * w, n / count * h, Math.max((end - first) / cycles * w, 0.5), Math.max(h / count, 0.5));
        }
      }
    }
    g.drawImage(picture, 0, 0, w, h);
    g.strokeStyle = colours.fg;
    g.lineWidth = 1.5;
    const x = view.cycle / cycles * w, y = view.row / count * h;
    const ww = Math.max(columns() / cycles * w, 4), hh = Math.max(lines() / count * h, 4);
    g.strokeRect(clamp(x, 1, w - 5), clamp(y, 1, h - 5), Math.min(ww, w - x) - 1, Math.min(hh, h - y) - 1);
  };

  const resize = () => {
    width = chart.clientWidth;
    height = chart.clientHeight;
    gutter = narrow.matches ? 120 : 250;
    picture = null;
    settle();
  };

  const place = (event) => {
    const box = chart.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  // An in-order core has no queue behind issue: an instruction is the oldest one until it issues.
  const names = data.in_order
    ? [null, "oldest", null, "issued", "executed", "retired"]
    : ["in the queue", "issued", "inputs there", "dispatched", "executed", "retired"];
  const tell = (event) => {
    const [x, y] = place(event);
    const row = rows[Math.floor(view.row + (y - RULER) / view.y)];
    if (!row || y < RULER || x < 0) return hide();
    const cycle = Math.floor(view.cycle + (x - gutter) / view.x);
    const [address, , name] = data.codes[row.code];
    const line = (text, className) => {
      const div = document.createElement("div");
      div.textContent = text;
      if (className) div.className = className;
      return div;
    };
    const now = x < gutter ? null : row.parts.find(([first, end]) => first <= cycle && cycle < end);
    const parts = [line(label(row), "what"), line(`${name ? name + ", " : ""}${address}`, "dim")];
    parts.push(line(`instruction ${row.number.toLocaleString("en")}, ${row.port === -1 ? "no port" : row.port < 0 ? "any port" : "port " + (data.ports[row.port] ?? row.port)}`));
    if (row.late) parts.push(line(data.late[row.late], "late"));
    if (now) parts.push(line(`cycle ${(cycle + data.base).toLocaleString("en")}: ${named(now[2], row)[1]} (${now[1] - now[0]} cycle${now[1] - now[0] === 1 ? "" : "s"})`, "now"));
    const stamps = document.createElement("table");
    row.stamps.forEach((stamp, n) => {
      if (names[n] === null || (row.port === -1 && n > 1 && n < 5)) return;
      const tr = stamps.insertRow();
      tr.insertCell().textContent = names[n];
      tr.insertCell().textContent = (stamp + data.base).toLocaleString("en");
    });
    tip.replaceChildren(...parts, stamps);
    tip.hidden = false;
    const box = root.getBoundingClientRect();
    const [w, h] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${clamp(event.clientX - box.left + 14, 0, box.width - w)}px`;
    const below = event.clientY - box.top + 16;
    tip.style.top = `${below + h > box.height ? Math.max(below - h - 32, 0) : below}px`;
  };
  const hide = () => (tip.hidden = true);

  const pointers = new Map();
  let range = null;
  chart.addEventListener("pointerdown", (event) => {
    const at = place(event);
    pointers.set(event.pointerId, at);
    chart.setPointerCapture(event.pointerId);
    range = at[1] < RULER && at[0] > gutter ? at[0] : null;
    hide();
  });
  chart.addEventListener("pointermove", (event) => {
    const old = pointers.get(event.pointerId);
    if (!old) return tell(event);
    const at = place(event);
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const apart = (a, b) => Math.max(Math.hypot(a[0] - b[0], a[1] - b[1]), 8);
      zoom(apart(at, other) / apart(old, other), (at[0] + other[0]) / 2, (at[1] + other[1]) / 2);
    } else if (range === null) {
      view.cycle -= (at[0] - old[0]) / view.x;
      view.row -= (at[1] - old[1]) / view.y;
      settle();
    } else {
      draw();
      const g = chart.getContext("2d");
      g.globalAlpha = 0.25;
      g.fillStyle = colours.hot;
      g.fillRect(Math.min(range, at[0]), 0, Math.abs(at[0] - range), height);
      g.globalAlpha = 1;
    }
    pointers.set(event.pointerId, at);
  });
  const release = (event) => {
    const at = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (range !== null && at && Math.abs(at[0] - range) > 4) {
      const cycle = (x) => view.cycle + (Math.max(x, gutter) - gutter) / view.x;
      show(...[cycle(range), cycle(at[0])].sort((a, b) => a - b));
    } else if (range !== null) draw();
    range = null;
  };
  chart.addEventListener("pointerup", release);
  chart.addEventListener("pointercancel", release);
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("dblclick", (event) => zoom(2, ...place(event)));
  // The wheel is the page's until the chart is used.
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== chart) return;
    event.preventDefault();
    hide();
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    if (event.shiftKey) follow(pixels / view.y);
    else zoom(Math.exp(-pixels / 400), ...place(event));
  }, { passive: false });
  const keys = {
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), "0": whole,
    ArrowLeft: () => { view.cycle -= columns() / 8; settle(); },
    ArrowRight: () => { view.cycle += columns() / 8; settle(); },
    ArrowUp: () => follow(-Math.max(1, lines() / 8)), ArrowDown: () => follow(Math.max(1, lines() / 8)),
    PageUp: () => follow(-lines()), PageDown: () => follow(lines()),
    Home: () => follow(-count), End: () => follow(count), Escape: () => chart.blur(),
  };
  chart.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    hide();
    act();
  });
  const jump = (event) => {
    if (!event.buttons) return;
    const box = map.getBoundingClientRect();
    const cycle = (event.clientX - box.left) / box.width * cycles;
    const row = rows.findIndex((row) => row.end > cycle);
    view.row = (row < 0 ? count : row) - lines() / 2;
    view.cycle = cycle - columns() / 2;
    settle();
  };
  map.addEventListener("pointerdown", jump);
  map.addEventListener("pointermove", jump);
  const actions = { in: () => zoom(1.5), out: () => zoom(1 / 1.5), fit: whole, hot: middle };
  for (const button of root.querySelectorAll("button")) {
    button.addEventListener("click", () => actions[button.dataset.do]());
  }
  const recolour = () => {
    setColours();
    picture = null;
    draw();
  };
  dark.addEventListener("change", recolour);
  if (count) {
    setColours();
    width = chart.clientWidth;
    height = chart.clientHeight;
    gutter = narrow.matches ? 120 : 250;
    middle();
    new ResizeObserver(resize).observe(chart);
  }
  root.dataset.ready = "true";
}

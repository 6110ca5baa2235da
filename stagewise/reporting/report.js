// The report's own script: one step cursor for the whole page, heads that can be singled out, the attention viewer, and
// saving an inline figure as a file. Text from the run only ever becomes text: nothing of it is parsed as HTML.
"use strict";

const stagewise = { step: null, listeners: [] };

stagewise.element = (parent, tag, attributes, text) => {
  const svg = parent.namespaceURI === "http://www.w3.org/2000/svg";
  const made = parent.appendChild(svg ? document.createElementNS(parent.namespaceURI, tag) : document.createElement(tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
};

stagewise.show = (step, source) => {
  stagewise.step = step;
  for (const listener of stagewise.listeners) if (listener !== source) listener(step);
};

stagewise.nearest = (steps, step) => {
  let best = 0;
  for (let i = 1; i < steps.length; i++) if (Math.abs(steps[i] - step) < Math.abs(steps[best] - step)) best = i;
  return best;
};

stagewise.unpacked = (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

(function rows() {
  for (const link of document.querySelectorAll("a[data-csv]")) {
    link.addEventListener("click", async (event) => {
      if (link.href.startsWith("blob:")) return;
      event.preventDefault();
      link.href = URL.createObjectURL(new Blob([await stagewise.unpacked(link.dataset.csv)], { type: "text/csv" }));
      link.click();
    });
  }
})();

(function details() {
  // A link to what is folded, or to something in it, unfolds it.
  const unfold = () => {
    const folded = location.hash && document.getElementById(location.hash.slice(1))?.closest("details.section");
    if (folded && !folded.open) {
      folded.open = true;
      folded.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", unfold);
  window.addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
  });
  unfold();
})();

(function saveFigures() {
  for (const link of document.querySelectorAll("a[data-svg]")) {
    link.addEventListener("click", () => {
      const drawing = document.querySelector("#" + link.dataset.svg + " svg").cloneNode(true);
      for (const line of drawing.querySelectorAll(".cursor")) line.remove();
      link.href = URL.createObjectURL(new Blob([drawing.outerHTML], { type: "image/svg+xml" }));
    });
  }
})();

(function curves() {
  const place = ({ place: [left, right], scale: [last, linear, decades, first] }, step) => {
    const adjusted = decades / (1 - 1 / 10);
    const way = (x) => (x <= linear ? x * adjusted : linear * (adjusted + Math.log10(x / linear)));
    const along = way(Math.min(Math.max(step, first), last)) - way(first);
    return left + ((right - left) * along) / (way(last) - way(first));
  };
  for (const panel of document.querySelectorAll(".panel[data-axes]")) {
    const axes = JSON.parse(panel.dataset.axes);
    const svg = panel.querySelector("svg");
    if (!svg) continue;
    const lines = axes.map(({ place: [, , top, bottom] }) =>
      stagewise.element(svg, "line", { class: "cursor", y1: top, y2: bottom, x1: 0, x2: 0 }));
    const read = axes.filter(({ curves }) => curves.length);
    const says = read.length ? stagewise.element(panel, "p", { class: "reads" }) : null;
    const values = ({ name, curves }, step) => {
      const each = curves.map(([, label, , steps, values]) => {
        const value = values[stagewise.nearest(steps, step)];
        return `${label} ${value === null ? "\u2013" : value}`;
      });
      const named = read.length > 1 && curves[0][1] !== name;
      return (named ? `${name}: ` : "") + each.join(", ");
    };
    const show = (step) => {
      axes.forEach((one, i) => {
        const x = place(one, step).toFixed(1);
        lines[i].setAttribute("x1", x);
        lines[i].setAttribute("x2", x);
        lines[i].classList.add("on");
      });
      if (says) says.textContent = `${stagewise.names[stagewise.nearest(stagewise.steps, step)]}: ` + read.map((one) => values(one, step)).join("; ");
    };
    stagewise.listeners.push(show);
    svg.addEventListener("pointermove", (event) => {
      const { left, top, width, height } = svg.getBoundingClientRect();
      const box = svg.viewBox.baseVal;
      const [x, y] = [((event.clientX - left) / width) * box.width, ((event.clientY - top) / height) * box.height];
      const over = axes.find(({ place: [l, r, t, b] }) => x >= l - 4 && x <= r + 4 && y >= t && y <= b);
      if (!over || !stagewise.steps.length) return;
      const distances = stagewise.steps.map((step) => Math.abs(place(over, step) - x));
      const step = stagewise.steps[distances.indexOf(Math.min(...distances))];
      if (step !== stagewise.step) stagewise.show(step);
    });
  }
})();

(function cursor() {
  const data = JSON.parse(document.getElementById("cursor-data").textContent);
  stagewise.steps = data.steps;
  stagewise.names = data.names;
  const bar = document.getElementById("cursor");
  if (data.steps.length < 2 || !document.querySelector(".panel[data-axes], #viewer")) return bar.remove();
  const slider = stagewise.element(bar, "input", {
    type: "range", min: 0, max: data.steps.length - 1, step: 1, value: data.steps.length - 1, "aria-label": "checkpoint",
  });
  const label = stagewise.element(bar, "output", {});
  const text = (at) => [data.names[at], data.tokens && data.tokens.length && `${data.tokens[at]} tokens`,
    data.stages && data.stages[at]].filter(Boolean).join(", ");
  const number = (stage) => (/\d+/.exec(stage || "") || [""])[0];
  const show = (step) => {
    const at = stagewise.nearest(data.steps, step);
    slider.value = at;
    slider.setAttribute("aria-valuetext", text(at));
    label.textContent = text(at);
    const stage = number(data.stages && data.stages[at]);
    for (const cell of document.querySelectorAll('td[data-column="stage"]')) {
      cell.parentElement.classList.toggle("now", stage !== "" && cell.textContent === stage);
    }
    for (const cell of document.querySelectorAll('td[data-column^="between "]')) {
      const end = cell.textContent.split(" to ")[1];
      cell.parentElement.classList.toggle("yet", at < data.names.findIndex((name) => name.split(" ").includes(end)));
    }
  };
  stagewise.listeners.push(show);
  const go = (at) => stagewise.show(data.steps[Math.min(data.steps.length - 1, Math.max(0, at))]);
  slider.addEventListener("input", () => go(Number(slider.value)));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.target.closest("#viewer, .circuitsvis")) return;
    const at = Number(slider.value);
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    go(moves[event.key]);
  });
  stagewise.show(data.steps[data.steps.length - 1]);
})();

(function heads() {
  const name = /L\d+H\d+/g;
  let single = null;
  const dim = () => {
    for (const panel of document.querySelectorAll(".panel")) {
      const axes = panel.dataset.axes ? JSON.parse(panel.dataset.axes) : [];
      const of = (label) => label.match(name) || [];
      const curves = axes.flatMap(({ curves }) => curves).filter(([, label]) => of(label).length);
      const own = of(panel.dataset.label || "");
      panel.classList.toggle("other", single !== null && own.length > 0 && !own.includes(single));
      panel.classList.toggle("single", single !== null && curves.some(([, label]) => of(label).includes(single)));
      for (const [id, label] of curves) {
        const line = document.getElementById(panel.id.replace(/^figure-/, "") + "-" + id);
        if (line) line.classList.toggle("other", single !== null && !of(label).includes(single));
      }
    }
    for (const box of document.querySelectorAll("#viewer .head")) {
      box.classList.toggle("other", single !== null && box.firstChild.textContent !== single);
    }
    for (const link of document.querySelectorAll("button.head")) {
      link.setAttribute("aria-pressed", String(link.textContent === single));
    }
  };
  const places = document.querySelectorAll("main li, main td, main figcaption .swatch, header p.finding");
  for (const place of places) {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      const found = [...text.data.matchAll(name)];
      if (!found.length) continue;
      const parts = document.createDocumentFragment();
      let from = 0;
      for (const match of found) {
        parts.append(text.data.slice(from, match.index));
        const link = document.createElement("button");
        link.type = "button";
        link.className = "head";
        link.textContent = match[0];
        link.setAttribute("aria-pressed", "false");
        link.addEventListener("click", () => {
          single = single === match[0] ? null : match[0];
          dim();
        });
        parts.append(link);
        from = match.index + match[0].length;
      }
      parts.append(text.data.slice(from));
      text.replaceWith(parts);
    }
  }
})();

(async function circuitsvis() {
  const library = document.getElementById("circuitsvis-library");
  if (!library) return;
  const code = document.createElement("script");
  code.textContent = await stagewise.unpacked(library.textContent);
  document.body.append(code);
  // Its canvases are pictures without a name until they have one here.
  const named = () => document.querySelectorAll(".circuitsvis canvas:not([aria-label])").forEach((canvas) =>
    canvas.setAttribute("aria-label", "attention of a head"));
  for (const place of document.querySelectorAll(".circuitsvis div[id]")) {
    new MutationObserver(named).observe(place, { childList: true, subtree: true });
    const view = JSON.parse(await stagewise.unpacked(document.getElementById(place.id + "-data").textContent));
    CircuitsVis.render(place.id, CircuitsVis.AttentionHeads, view);
  }
})();

(async function viewer() {
  const root = document.getElementById("viewer");
  if (!root) return;
  const data = JSON.parse(await stagewise.unpacked(document.getElementById("viewer-data").textContent));
  const [queries, keys] = data.size;
  const cells = queries * keys;
  const values = Uint8Array.from(atob(data.values), (c) => c.charCodeAt(0));
  const missing = data.colours.map((c) => [1, 3, 5].map((i) => 1 - parseInt(c.slice(i, i + 2), 16) / 255));
  let place = 0;
  let timer = null;
  let pointed = null;

  const element = stagewise.element;

  const controls = element(root, "div", { class: "controls" });
  const back = element(controls, "button", { type: "button", "aria-label": "previous checkpoint" }, "\u25C0");
  const play = element(controls, "button", { type: "button", class: "play" }, "play");
  const forth = element(controls, "button", { type: "button", "aria-label": "next checkpoint" }, "\u25B6");
  const slider = element(controls, "input", {
    type: "range", min: 0, max: data.steps.length - 1, step: 1, value: 0, "aria-label": "checkpoint",
  });
  const label = element(controls, "output", {});
  const layers = [...new Set(data.layers)];
  const choice = layers.length > 1 ? element(controls, "select", { "aria-label": "layer" }) : null;
  const says = element(root, "p", { class: "pointed" });
  const maps = [];
  const shown = [];
  for (const layer of layers) {
    const heads = data.heads.map((_, i) => i).filter((i) => data.layers[i] === layer);
    const row = element(root, "div", { class: "maps" });
    shown.push(row);
    if (choice) element(choice, "option", { value: shown.length - 1 }, `layer ${layer}`);
    addMap(row, heads, `layer ${layer}, all heads`, "combined");
    const each = element(row, "div", { class: "heads" });
    for (const head of heads) addMap(each, [head], data.heads[head], "head");
  }

  function addMap(parent, heads, name, kind) {
    const box = element(parent, "div", { class: kind });
    const title = element(box, "div", { class: "name" }, name);
    if (heads.length === 1) title.style.borderColor = data.colours[heads[0]];
    const canvas = element(box, "canvas", { width: keys, height: queries, role: "img", "aria-label": name });
    maps.push({ heads, canvas });
    canvas.addEventListener("mousemove", (event) => {
      const { left, top, width, height } = canvas.getBoundingClientRect();
      const at = (x, size, n) => Math.min(n - 1, Math.max(0, Math.floor((x / size) * n)));
      pointed = { heads, query: at(event.clientY - top, height, queries), key: at(event.clientX - left, width, keys) };
      say();
    });
    canvas.addEventListener("mouseleave", () => { pointed = null; say(); });
  }

  const showLayer = (chosen) => shown.forEach((row, i) => row.classList.toggle("hidden", i !== chosen));
  if (choice) choice.addEventListener("change", () => showLayer(Number(choice.value)));
  showLayer(0);

  const value = (head, cell) => values[(place * data.heads.length + head) * cells + cell] / 255;

  function draw({ heads, canvas }) {
    const context = canvas.getContext("2d");
    const image = context.createImageData(keys, queries);
    for (let cell = 0; cell < cells; cell++) {
      for (let channel = 0; channel < 3; channel++) {
        let light = 1;
        for (const head of heads) light *= 1 - value(head, cell) * missing[head][channel];
        image.data[4 * cell + channel] = Math.round(255 * light);
      }
      image.data[4 * cell + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }

  function say() {
    if (!pointed) {
      says.textContent = "Rows are queries, columns are keys. Point at a cell to read it; arrow keys change the checkpoint.";
      return;
    }
    const { heads, query, key } = pointed;
    const read = heads.map((head) => `${data.heads[head]} ${value(head, query * keys + key).toFixed(2)}`);
    const block = data.block;
    const range = (at) => (block > 1 ? `${at * block}-${at * block + block - 1}` : at);
    const back = block > 1 ? "" : ` (${query - key} back)`;
    says.textContent = `query ${range(query)}, key ${range(key)}${back}: ${read.join(", ")}`;
  }

  function show(next, remember, tell) {
    place = Math.min(data.steps.length - 1, Math.max(0, next));
    slider.value = place;
    const stage = data.stages[place] ? `, ${data.stages[place]}` : "";
    label.textContent = `${stagewise.names[stagewise.nearest(stagewise.steps, data.steps[place])]}${stage}`;
    maps.forEach(draw);
    say();
    if (remember) history.replaceState(null, "", `#step=${data.steps[place]}`);
    if (tell !== false) stagewise.show(data.steps[place], follow);
  }

  const follow = (step) => show(stagewise.nearest(data.steps, step), false, false);

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "play";
  }

  play.addEventListener("click", () => {
    if (timer) return stop();
    if (place === data.steps.length - 1) show(0);
    play.textContent = "pause";
    timer = setInterval(() => (place < data.steps.length - 1 ? show(place + 1) : stop()), 150);
  });
  back.addEventListener("click", () => show(place - 1, true));
  forth.addEventListener("click", () => show(place + 1, true));
  slider.addEventListener("input", () => show(Number(slider.value), true));
  root.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: data.steps.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key], true);
  });

  function fromAddress() {
    const match = /^#step=(\d+)$/.exec(location.hash);
    if (!match) return;
    const wanted = Number(match[1]);
    const distance = data.steps.map((step) => Math.abs(step - wanted));
    show(distance.indexOf(Math.min(...distance)));
    root.scrollIntoView();
  }

  window.addEventListener("hashchange", fromAddress);
  stagewise.listeners.push(follow);
  show(data.steps.length - 1);
  fromAddress();
})();

// The report's own script: the attention viewer, and saving an inline figure as a file.
"use strict";

(function () {
  for (const link of document.querySelectorAll("a[data-svg]")) {
    link.addEventListener("click", () => {
      const drawing = document.querySelector("#" + link.dataset.svg + " svg");
      link.href = URL.createObjectURL(new Blob([drawing.outerHTML], { type: "image/svg+xml" }));
    });
  }

  const root = document.getElementById("viewer");
  if (!root) return;
  const data = JSON.parse(document.getElementById("viewer-data").textContent);
  const [queries, keys] = data.size;
  const cells = queries * keys;
  const values = Uint8Array.from(atob(data.values), (c) => c.charCodeAt(0));
  const missing = data.colours.map((c) => [1, 3, 5].map((i) => 1 - parseInt(c.slice(i, i + 2), 16) / 255));
  let place = 0;
  let timer = null;
  let pointed = null;

  const element = (parent, tag, attributes, text) => {
    const made = parent.appendChild(document.createElement(tag));
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  };

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

  function show(next, remember) {
    place = Math.min(data.steps.length - 1, Math.max(0, next));
    slider.value = place;
    const stage = data.stages[place] ? `, ${data.stages[place]}` : "";
    label.textContent = `step ${data.steps[place]}${stage}`;
    maps.forEach(draw);
    say();
    if (remember) history.replaceState(null, "", `#step=${data.steps[place]}`);
  }

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
  show(data.steps.length - 1);
  fromAddress();
})();

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
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
};

// A curve without steps has those of the one before.
stagewise.axes = (panel) => {
  const axes = panel.dataset.axes ? JSON.parse(panel.dataset.axes) : [];
  let steps = null;
  for (const curve of axes.flatMap(({ curves }) => curves)) steps = curve[3] = curve[3] || steps;
  return axes;
};

(function rows() {
  for (const link of document.querySelectorAll("a[data-csv]")) {
    link.addEventListener("click", async (event) => {
      if (link.href.startsWith("blob:")) return;
      event.preventDefault();
      link.href = URL.createObjectURL(new Blob([await stagewise.unpacked(link.dataset.csv).text()], { type: "text/csv" }));
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
    const axes = stagewise.axes(panel);
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
  const play = stagewise.element(bar, "button", { type: "button" }, "play");
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
  const last = data.steps.length - 1;
  const go = (at) => {
    stagewise.show(data.steps[Math.min(last, Math.max(0, at))]);
    history.replaceState(null, "", `#step=${stagewise.step}`);
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "play";
  };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === last) go(0);
    play.textContent = "pause";
    timer = setInterval(() => (Number(slider.value) < last ? go(Number(slider.value) + 1) : stop()), 200);
  });
  const fromAddress = () => {
    const match = /^#step=(\d+)$/.exec(location.hash);
    if (match) stagewise.show(data.steps[stagewise.nearest(data.steps, Number(match[1]))]);
  };
  window.addEventListener("hashchange", fromAddress);
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.target.closest("#viewer")) return;
    const at = Number(slider.value);
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    go(moves[event.key]);
  });
  stagewise.show(data.steps[last]);
  fromAddress();
})();

(function heads() {
  const name = /L\d+H\d+/g;
  let single = null;
  const dim = () => {
    for (const panel of document.querySelectorAll(".panel")) {
      const axes = stagewise.axes(panel);
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
    for (const head of document.querySelectorAll("#viewer h4")) if (head.textContent === single) head.click();
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

(async function viewer() {
  const root = document.getElementById("viewer");
  if (!root) return;
  const code = document.createElement("script");
  const packed = (id) => stagewise.unpacked(document.getElementById(id).textContent);
  code.textContent = await packed("circuitsvis-library").text();
  document.body.append(code);
  const views = JSON.parse(await packed("viewer-data").text());
  const values = new Uint8Array(await packed("viewer-values").arrayBuffer());
  const controls = stagewise.element(root, "div", { class: "controls" });
  const choice = stagewise.element(controls, "select", { "aria-label": "whose attention" });
  for (const { name } of views) stagewise.element(choice, "option", {}, name);
  const label = stagewise.element(controls, "output", {});
  let place = stagewise.element(root, "div", { id: "circuitsvis" });
  let [shown, single, timer] = ["", 0, null];

  const maps = ({ heads, tokens, steps, start }, at) => {
    const n = tokens.length;
    const value = (head, query, key) => values[start + ((head * n + query) * n + key) * steps.length + at] / 255;
    return heads.map((_, head) => tokens.map((_, query) => tokens.map((_, key) => value(head, query, key))));
  };

  const show = (step) => {
    const view = views[choice.selectedIndex];
    const at = stagewise.nearest(view.steps, step);
    if (shown === `${choice.selectedIndex} ${at}`) return;
    shown = `${choice.selectedIndex} ${at}`;
    const known = stagewise.steps.indexOf(view.steps[at]);
    label.textContent = known < 0 ? `step ${view.steps[at]}` : stagewise.names[known];
    // A new place, as high as the last one, so that the page stays where it is.
    const next = document.createElement("div");
    next.style.minHeight = `${place.offsetHeight}px`;
    next.id = "circuitsvis";
    place.replaceWith(next);
    place = next;
    CircuitsVis.render(next.id, CircuitsVis.AttentionHeads, {
      attention: maps(view, at), attentionHeadNames: view.heads, tokens: view.tokens,
    });
  };

  const heads = () => [...place.querySelectorAll("h4")];
  root.addEventListener("click", ({ target }) => {
    const clicked = heads().findIndex((head) => head.parentElement.contains(target));
    if (clicked >= 0) single = clicked;
  });
  new MutationObserver(() => {
    // Its canvases are pictures without a name until they have one here.
    for (const canvas of root.querySelectorAll("canvas:not([aria-label])")) canvas.setAttribute("aria-label", "attention of a head");
    if (place.dataset.drawn || !heads().length) return;
    place.dataset.drawn = "yes";
    heads()[Math.min(single, heads().length - 1)].click();
  }).observe(root, { childList: true, subtree: true });
  choice.addEventListener("change", () => show(stagewise.step));
  stagewise.listeners.push((step) => {
    clearTimeout(timer);
    timer = setTimeout(() => show(step), 60);
  });
  show(stagewise.step);
})();

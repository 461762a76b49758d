"use strict";

// ── Texts and elements. Names come from files of other people: they are set as texts alone. ──

/** A text whose control characters and changes of direction are shown as escapes. */
const plain = (text) =>
  String(text ?? "").replace(
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    (c) => `\\u{${c.codePointAt(0).toString(16)}}`,
  );

const SVG = "http://www.w3.org/2000/svg";
const IN_SVG = new Set(["svg", "polygon", "polyline", "rect", "circle", "g"]);

/** Makes an element; children that are not elements become texts. */
function make(name, about = {}, ...children) {
  const node = IN_SVG.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(about)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(plain(child)))));
  return node;
}

/** A name that may be written in another direction than its surroundings. */
const named = (text) => make("bdi", {}, text);

const COUNT = new Intl.NumberFormat("en");
const count = (n) => COUNT.format(n);
const nouns = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
/** Nine digits tell any two numbers of 32 bits apart; whole numbers of 64 bits come as texts. */
const short = (n) => (typeof n === "string" || Number.isInteger(n) ? String(n) : String(Number(Number(n).toPrecision(9))));
function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["bytes", "KB", "MB", "GB", "TB", "PB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at += 1) bytes /= 1000;
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}

const main = document.getElementById("main");
const status = document.getElementById("status");
const say = (text) => { status.textContent = plain(text); };
const fault = (error) => make("p", { class: "fault", role: "alert" }, error.message ?? error);

// ── Requests. Each view has one signal: what a view that was left still waits for ends. ──

let leaving = new AbortController();

const address = (what, parameters) => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  return `api/${what}?${query}`;
};

/** The answers of a page in one file, which has no server. */
const saved = ((node) => node && JSON.parse(node.textContent))(document.getElementById("saved"));

function kept(what, { id, split, class: label, key = "" }) {
  if (what !== "samples") return id === undefined ? saved[what] : saved[what]?.[id];
  const is = (one) => (!split || one.split === split) && (!label || one.label === Number(label)) && one.key.toLowerCase().includes(key.toLowerCase());
  return { samples: saved.samples.filter(is), next: null, looked: saved.samples.length };
}

/** The address of a picture. */
const pictured = (what, parameters) => (saved ? saved.picture[parameters.id] ?? "data:," : address(what, parameters));

async function get(what, parameters, signal = leaving.signal) {
  if (saved) {
    const answer = kept(what, parameters ?? {});
    if (answer === undefined) throw new Error("this page was saved without it");
    return answer;
  }
  const answer = await fetch(address(what, parameters), { signal });
  const json = answer.headers.get("Content-Type") === "application/json" ? await answer.json() : null;
  if (!answer.ok) throw new Error(json?.error ?? `the server answered ${answer.status}`);
  return json;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const isEnd = (error) => error.name === "AbortError";

// ── State: the view and its choices are the part of the address behind `#`. ──

let bundle;
let lastList = { ids: [], hash: "#/samples" };

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, id] = path.split("/");
  return { view: view || bundle?.views[0], id, choices: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function hash(path, choices = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(choices)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

const VIEWS = { reading, samples, sample, training, pairs, runs, about, report };

async function show() {
  leaving.abort();
  leaving = new AbortController();
  say("");
  document.onkeydown = null;
  try {
    bundle ??= await get("bundle");
  } catch (error) {
    if (!isEnd(error)) main.replaceChildren(fault(error));
    return;
  }
  const { views } = bundle;
  const { view, id, choices } = route();
  const shown = view === "sample" ? "samples" : view;
  const draw = VIEWS[views.includes(shown) ? view : views[0]];
  document.querySelector("nav").hidden = views.length < 2;
  for (const link of document.querySelectorAll("nav a")) {
    link.hidden = !views.includes(link.dataset.view);
    if (link.dataset.view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    const name = bundle.about?.name ?? bundle.source;
    document.getElementById("name").textContent = plain(name);
    document.title = `${plain(name)} – gular`;
    await draw(choices, id);
  } catch (error) {
    if (!isEnd(error)) main.replaceChildren(fault(error));
  }
}

/** Puts a view's content on the page; its heading gets the focus, as with a new page. */
function fill(title, ...children) {
  const heading = make("h2", { tabindex: "-1" }, title instanceof Node ? title : plain(title));
  main.replaceChildren(heading, ...children.flat(Infinity).filter(Boolean));
  if (document.activeElement === document.body || !document.activeElement?.closest("nav, input, select")) {
    heading.focus({ preventScroll: true });
  }
  scrollTo(0, 0);
  return heading;
}

const className = (label) =>
  label === null || label === undefined ? null
    : label < 0 ? "unknown class" : bundle.classes[label] ?? `class ${label}`;

const option = (value, text, chosen) => make("option", { value, selected: String(value) === String(chosen ?? "") }, text);

// ── How a source was read, before it is packed ──

/** The most pictures that are shown of a class and split. */
const FIRST = 6;

async function reading() {
  const { words, questions, warnings, left_out: leftOut, n_left_out: nLeftOut } = bundle.reading;
  const text = make("pre", { tabindex: "0", "aria-label": "How the source was read", class: "reading" });
  text.textContent = words.split("\n").map(plain).join("\n");
  const first = make("div");
  const fields = make("div");
  fill("How it was read",
    make("p", {}, "This is what gular pack says of the source. Nothing was packed into the output folder."), text,
    questions.map((one) => make("section", { class: "question" }, make("p", {}, one.text),
      one.others.map(({ when, command, options }) => command ? codeBlock(`${when}:`, command, "Copy this command") : make("p", {}, `${when}: `, make("code", {}, plain(options)))))),
    warnings.map((one) => fault(`warning: ${one}`)),
    nLeftOut > 0 && make("h3", {}, `Left out, among the samples that are shown: ${nouns(nLeftOut, "input")}`),
    nLeftOut > 0 && make("ul", {}, leftOut.map((one) => make("li", {}, named(one))), nLeftOut > leftOut.length && make("li", {}, `… and ${count(nLeftOut - leftOut.length)} more`)),
    fields, first);
  const groups = new Map();
  let page = { next: "" };
  do {
    page = await get("samples", { from: page.next, n: 500 });
    for (const one of page.samples) {
      const label = one.label ?? "";
      const splits = groups.get(label) ?? groups.set(label, new Map()).get(label);
      const of = splits.get(one.split) ?? splits.set(one.split, []).get(one.split);
      if (of.length < FIRST) of.push(one);
    }
  } while (page.next !== null);
  const labels = [...groups.keys()].sort((a, b) => a - b);
  const one = [...groups.values()].flatMap((splits) => [...splits.values()])[0]?.[0];
  if (one) {
    const found = await get("sample", { id: one.id });
    fields.append(make("h3", {}, "The fields of a sample"), make("div", { class: "columns" },
      make("div", { class: "tile" }, whole(found)), make("div", {}, facts(found))));
  }
  const mask = bundle.fields.find((field) => field.is_picture && field.is_on_image && field.name !== "image");
  first.append(make("h3", {}, bundle.has_labels ? "The first pictures of each class" : "The first pictures"),
    ...labels.map((label) => make("section", {}, label !== "" && make("h4", {}, make("a", { href: hash("samples", { class: label }) }, named(className(label)))),
      [...groups.get(label)].map(([split, ones]) => [make("p", { class: "quiet" }, split),
        make("ul", { class: "grid", "aria-label": `${plain(className(label) ?? "pictures")}, ${split}` }, ones.map((sample) => tile(sample, mask)))]))));
}

/** A sample's picture, with its mask, boxes and points over it. */
function whole(found) {
  const pictures = found.fields.filter((field) => field.picture);
  const image = pictures.find((field) => field.name === "image") ?? pictures[0];
  if (!image) return make("span", { class: "name quiet" }, "no picture");
  const { width, height } = image.picture;
  const layers = make("span", { class: "layers" }, thumb(found.id, found.key, pictures.find((field) => field.legend), { size: 768 }),
    shapes(width, height, marksOf(found)));
  layers.style.display = "block";
  layers.style.aspectRatio = `${width} / ${height}`;
  return layers;
}

const marksOf = (found) => ({ boxes: found.fields.find((one) => one.boxes)?.boxes, labels: found.fields.find((one) => one.name === "box_labels")?.numbers, points: found.fields.flatMap((one) => one.points ?? []) });

// ── Samples ──

const picturedField = () => bundle.fields.find((field) => field.name === "image" && field.is_picture)
  ?? bundle.fields.find((field) => field.is_picture);

/** A small picture of a sample, with one of its masks over it. */
function thumb(id, key, mask, { size: longest = 192, why } = {}) {
  const field = picturedField();
  const box = make("span", { class: "thumb" });
  if (!field || why) {
    box.append(make("span", { class: "none" }, why ?? "no picture"));
    return box;
  }
  const image = make("img", {
    loading: "lazy", alt: "", width: "160", height: "160",
    src: pictured("picture", { id, field: field.name, size: longest, stretch: field.is_stretched ? 1 : "" }),
  });
  image.addEventListener("error", () => image.replaceWith(make("span", { class: "none" }, "cannot be shown")), { once: true });
  box.append(image);
  if (mask) box.append(make("img", { class: "over", loading: "lazy", alt: "", src: pictured("overlay", { id, field: mask.name }) }));
  return box;
}

function tile(sample, mask) {
  const label = className(sample.label);
  const to = !saved || saved.sample?.[sample.id] ? hash(`sample/${sample.id}`) : null;
  return make("li", {}, make("a", { class: "tile", href: to, title: plain(sample.key) },
    thumb(sample.id, sample.key, mask, { why: sample.fault }),
    make("span", { class: "name" }, make("span", {}, named(sample.key)),
      make("span", { class: "quiet" }, sample.split, label !== null && [" · ", named(label)]))));
}

async function samples(choices) {
  const wanted = (name) => choices[name] ?? "";
  const split = make("select", {}, option("", "All splits", wanted("split")),
    bundle.splits.map((s) => option(s.name, `${s.name} (${count(s.samples)})`, wanted("split"))));
  const classes = make("select", {}, option("", "All classes", wanted("class")),
    bundle.classes.map((name, at) => option(at, name, wanted("class"))), option(-1, "unknown class", wanted("class")));
  const key = make("input", { type: "search", value: wanted("key"), placeholder: "part of a key", autocomplete: "off", spellcheck: "false" });
  const where = make("input", {
    type: "search", value: wanted("where"), autocomplete: "off", spellcheck: "false", "aria-describedby": "where-help",
    placeholder: bundle.has_labels ? "class = cat and bytes > 5000" : "bytes > 5000",
  });
  const go = (event) => {
    event?.preventDefault();
    location.hash = hash("samples", { split: split.value, class: classes.value, key: key.value, where: where.value });
  };
  split.addEventListener("change", go);
  classes.addEventListener("change", go);
  const form = make("form", { class: "bar", role: "search", onsubmit: go },
    make("label", {}, "Split", split), bundle.has_labels && make("label", {}, "Class", classes),
    make("label", { class: "grow" }, "Key contains", key), !saved && make("label", { class: "grow" }, "Condition", where),
    make("button", { class: "main" }, "Search"));
  const list = make("ul", { class: "grid", "aria-label": "Samples" });
  const more = make("button", { class: "more", type: "button" }, "Load more");
  const problem = make("div");
  fill("Samples", form, make("p", { class: "quiet", id: "where-help" }, saved ? `This page has ${nouns(saved.samples.length, "sample")} of the bundle.`
    : "Conditions are those of gular derive --where: key, split, class, label, bytes, and fields of one number or text."),
  problem, list, more);

  const state = { next: "", looked: 0, shown: 0, busy: false };
  const ids = [];
  lastList = { ids, hash: location.hash || "#/samples" };
  const signal = leaving.signal;
  const total = bundle.splits.filter((s) => !choices.split || s.name === choices.split).reduce((n, s) => n + s.samples, 0);
  async function load() {
    if (state.busy || state.next === null) return;
    state.busy = true;
    more.disabled = true;
    try {
      // A page that took too long to fill is continued until something was found.
      const before = state.shown;
      while (state.next !== null && state.shown < before + 30 && !signal.aborted) {
        const page = await get("samples", { ...choices, from: state.next, n: 60 }, signal);
        state.next = page.next;
        state.looked += page.looked;
        state.shown += page.samples.length;
        ids.push(...page.samples.map((sample) => sample.id));
        list.append(...page.samples.map((sample) => tile(sample)));
        say(state.next === null ? `${nouns(state.shown, "sample")}.`
          : `${nouns(state.shown, "sample")} so far; ${count(state.looked)} of ${count(total)} looked at.`);
      }
      more.hidden = state.next === null;
    } catch (error) {
      if (!isEnd(error)) {
        problem.replaceChildren(fault(error));
        state.next = null;
        more.hidden = true;
      }
    } finally {
      state.busy = false;
      more.disabled = false;
      // An observer tells of changes alone, and the end of the list may still be in view.
      observer.unobserve(more);
      if (!more.hidden && !signal.aborted) observer.observe(more);
    }
  }
  more.addEventListener("click", load);
  const observer = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) load(); }, { rootMargin: "600px" });
  signal.addEventListener("abort", () => observer.disconnect());
  document.onkeydown = (event) => {
    if (event.key === "/" && !event.target.closest("input, select")) {
      event.preventDefault();
      key.focus();
    } else if (event.key.startsWith("Arrow") && event.target.closest(".tile")) {
      moveInGrid(list, event);
    }
  };
  await load();
}

/** Arrow keys go from picture to picture. */
function moveInGrid(list, event) {
  const tiles = [...list.querySelectorAll(".tile")];
  const columns = getComputedStyle(list).gridTemplateColumns.split(" ").length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  const to = tiles[tiles.indexOf(event.target.closest(".tile")) + step];
  if (to) {
    event.preventDefault();
    to.focus();
  }
}

// ── One sample ──

const rgb = (colour) => (colour ? `rgb(${colour.join(" ")})` : "transparent");

const COLOURS = ["#d1495b", "#2a9d8f", "#3f7fd0", "#c78a1e", "#a06cd5", "#3a8f4d", "#8d6e63", "#e07be0"];
const colourOf = (number) => COLOURS[Math.abs(number) % COLOURS.length];

/** The classes of boxes, in the colours of their boxes, with how many there are. */
function boxClasses(labels) {
  const counts = new Map();
  for (const label of labels ?? []) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => a - b).map(([label, n]) => {
    const swatch = make("span", { class: "key" });
    swatch.style.background = colourOf(label);
    return make("span", {}, swatch, named(className(label)), n > 1 ? ` ${count(n)}   ` : "   ");
  });
}

function shapes(width, height, { boxes = [], labels, points = [], crops = [] }) {
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [at, [left, top, right, bottom]] of boxes.entries()) {
    const rect = make("rect", { class: "box", x: left * width, y: top * height, width: Math.max(0, (right - left) * width), height: Math.max(0, (bottom - top) * height) });
    if (labels?.length === boxes.length) rect.style.stroke = colourOf(labels[at]);
    svg.append(rect);
  }
  const radius = Math.max(width, height) / 150;
  // Coordinates up to 1 are fractions of the picture, others pixels.
  const share = points.every(([x, y]) => Math.abs(x) <= 1 && Math.abs(y) <= 1);
  for (const [x, y] of points) {
    if (x !== null && y !== null) svg.append(make("circle", { class: "point", cx: share ? x * width : x, cy: share ? y * height : y, r: radius }));
  }
  for (const { corners, colour } of crops) {
    const polygon = make("polygon", { class: "crop", points: corners.map((point) => point.join(",")).join(" ") });
    polygon.style.stroke = colour;
    svg.append(polygon);
  }
  return svg;
}

async function sample(choices, id) {
  const found = await get("sample", { id });
  const pictures = found.fields.filter((field) => field.picture);
  const overlays = pictures.filter((field) => field.legend && !saved);
  const image = pictures.find((field) => field.name === "image") ?? pictures.find((field) => !field.legend) ?? pictures[0];
  const at = lastList.ids.indexOf(id);
  // Those beside it in the list that it was opened from, else in the bundle.
  const [previous, next] = at >= 0 ? [lastList.ids[at - 1], lastList.ids[at + 1]] : [found.previous, found.next];
  const to = (other) => other && hash(`sample/${other}`, choices);
  const link = (text, target, keys) => make("a", { href: target, "aria-disabled": target ? null : "true", "aria-keyshortcuts": keys }, text);
  const title = make("span", {}, named(found.key));
  const moves = make("p", { class: "bar" }, link("← Back to the list", lastList.hash, "Escape"),
    previous && link("Previous", to(previous), "ArrowLeft"), next && link("Next", to(next), "ArrowRight"),
    bundle.views.includes("training") && make("a", { href: hash("training", { id, split: found.split }) }, "What training sees of it"));
  const body = make("div", { class: "columns" });
  fill(title, moves, body);
  document.onkeydown = (event) => {
    if (event.target.closest("input, select") || event.ctrlKey || event.altKey || event.metaKey) return;
    const target = { ArrowLeft: to(previous), ArrowRight: to(next), Escape: lastList.hash }[event.key];
    if (target) location.hash = target;
  };

  const left = make("div");
  if (image) left.append(...stage(id, found, image, overlays, choices));
  else left.append(make("p", { class: "quiet" }, "This sample has no field that is a picture."));
  body.append(left, make("div", {}, facts(found)));
}

/** The picture with all that can be laid over it, and its controls. */
function stage(id, found, image, overlays, choices) {
  const { width, height, bands } = image.picture;
  const field = bundle.fields.find((one) => one.name === image.name);
  const bandNames = Array.from({ length: bands }, (_, band) =>
    field.bands[band] ? `${band} ${field.bands[band].name}` : bands === 3 && !field.bands.length ? ["red", "green", "blue"][band] : `band ${band}`);
  const base = make("img", { alt: `Picture of ${plain(found.key)}`, id: "picture" });
  const over = make("img", { alt: "", id: "overlay", hidden: true });
  const drawn = make("div", { hidden: true });
  const layers = make("div", { class: "layers" }, base, over);
  layers.style.aspectRatio = `${width} / ${height}`;
  const { boxes = [], labels, points } = marksOf(found);
  const marks = shapes(width, height, { boxes, labels, points });
  if (boxes.length || points.length) layers.append(marks);
  const problem = make("div");
  base.addEventListener("error", () => problem.replaceChildren(fault("This picture cannot be shown: it cannot be decoded, or its bytes did not arrive.")));

  const zoom = make("select", {}, option("fit", "Fit", choices.zoom), option("1", "100 %", choices.zoom), option("2", "200 %", choices.zoom), option("4", "400 %", choices.zoom));
  const stretch = make("input", { type: "checkbox", id: "stretch", checked: choices.stretch ? choices.stretch === "1" : field.is_stretched });
  const chosen = (choices.bands ?? "").split(",").filter(Boolean);
  const selects = bands >= 2 && !saved ? ["Red", "Green", "Blue"].map((colour, place) => ({
    colour,
    select: make("select", { "data-band": place }, option("", "as usual", chosen[place] ?? ""), bandNames.map((name, band) => option(band, name, chosen[place] ?? ""))),
  })) : [];
  const overlay = make("select", { id: "overlay-field" }, option("", "none", choices.overlay),
    overlays.map((one) => option(one.name, one.name, choices.overlay ?? overlays[0]?.name)));
  const opacity = make("input", { type: "range", id: "opacity", min: "0", max: "100", value: choices.opacity ?? "50" });
  const marked = make("input", { type: "checkbox", checked: choices.marks !== "0" });
  const legend = make("p", { class: "quiet" });

  // Choices are kept in the address, without a step in the browser's history for each.
  const keep = (name, value) => {
    const now = route();
    if (value === undefined || value === "") delete now.choices[name];
    else now.choices[name] = value;
    history.replaceState(null, "", hash(`sample/${id}`, now.choices));
  };
  const bandsChosen = () => {
    const all = selects.map(({ select }) => select.value);
    return all.every((value) => value === "") ? "" : all.map((value, place) => (value === "" ? Math.min(place, bands - 1) : value)).join(",");
  };
  const draw = () => {
    base.src = pictured("picture", { id, field: image.name, bands: bandsChosen(), stretch: stretch.checked ? 1 : "" });
    layers.style.width = zoom.value === "fit" ? "100%" : `${width * Number(zoom.value)}px`;
    layers.style.maxWidth = zoom.value === "fit" ? `min(100%, calc(78vh * ${width / height}))` : "none";
    layers.classList.toggle("sharp", Number(zoom.value) > 1 || width < 200);
    const mask = overlays.find((one) => one.name === overlay.value);
    over.hidden = !mask;
    if (mask) over.src = address("overlay", { id, field: mask.name });
    over.style.opacity = String(Number(opacity.value) / 100);
    marks.style.display = marked.checked ? "" : "none";
    legend.replaceChildren(...(mask ? mask.legend.map(({ value, pixels, colour }) => {
      const swatch = make("span", { class: "key" });
      swatch.style.background = rgb(colour);
      return make("span", {}, swatch, `${short(value)}${pixels ? ` (${(100 * pixels / (mask.picture.width * mask.picture.height)).toFixed(1)} %)` : ""}   `);
    }) : []));
  };
  zoom.addEventListener("change", () => { keep("zoom", zoom.value === "fit" ? "" : zoom.value); draw(); });
  stretch.addEventListener("change", () => { keep("stretch", stretch.checked ? "1" : "0"); draw(); });
  selects.forEach(({ select }) => select.addEventListener("change", () => { keep("bands", bandsChosen()); draw(); }));
  overlay.addEventListener("change", () => { keep("overlay", overlay.value || "none"); draw(); });
  opacity.addEventListener("input", () => { over.style.opacity = String(Number(opacity.value) / 100); });
  opacity.addEventListener("change", () => keep("opacity", opacity.value));
  marked.addEventListener("change", () => { keep("marks", marked.checked ? "" : "0"); draw(); });
  draw();

  const plot = make("div", {}, make("p", { class: "quiet" }, "Counting…"));
  get("histogram", { id, field: image.name }).then((found) => plot.replaceChildren(...histogram(found)),
    (error) => { if (!isEnd(error)) plot.replaceChildren(fault(error)); });
  return [
    make("div", { class: "stage", tabindex: "0", role: "region", "aria-label": "Picture" }, layers), problem, drawn,
    make("div", { class: "bar" }, make("label", {}, "Zoom", zoom),
      selects.map(({ colour, select }) => make("label", {}, colour, select)),
      !saved && make("label", { class: "row" }, stretch, "Stretch 2–98 %"),
      overlays.length > 0 && make("label", {}, "Over it", overlay),
      overlays.length > 0 && make("label", {}, "Opacity", opacity),
      (boxes.length > 0 || points.length > 0) && make("label", { class: "row" }, marked, [boxes.length && nouns(boxes.length, "box").replace("boxs", "boxes"), points.length && nouns(points.length, "point")].filter(Boolean).join(", "))),
    boxes.length > 0 && labels?.length > 0 && make("p", { class: "quiet", "aria-label": "Classes of the boxes" }, boxClasses(labels)),
    legend, make("h3", {}, "Histogram"), plot,
  ].filter(Boolean);
}

const LINES = ["#d1495b", "#3a8f4d", "#3f7fd0", "#a06cd5", "#c78a1e", "#2a9d8f", "#8d6e63", "#7a8793"];
const lineColour = (name, at) => ({ red: LINES[0], green: LINES[1], blue: LINES[2], grey: LINES[7] }[name] ?? LINES[at % LINES.length]);

function histogram(bands) {
  const most = Math.max(1, ...bands.flatMap((band) => band.counts));
  const least = Math.min(...bands.map((band) => band.least));
  const range = Math.max(...bands.map((band) => band.most)) - least || 1;
  const svg = make("svg", { class: "plot", viewBox: "0 0 100 50", preserveAspectRatio: "none", role: "img", "aria-label": "Histogram; the table below has its range" });
  bands.forEach((band, at) => {
    const x = (bar) => (100 * (band.least + (band.most - band.least) * (bar + 0.5) / band.counts.length - least)) / range;
    const line = make("polyline", { points: band.counts.map((n, bar) => `${x(bar).toFixed(2)},${(49 - 47 * n / most).toFixed(2)}`).join(" ") });
    line.style.stroke = lineColour(band.name, at);
    svg.append(line);
  });
  const rows = bands.map((band, at) => {
    const swatch = make("span", { class: "key" });
    swatch.style.background = lineColour(band.name, at);
    return make("tr", {}, make("th", { scope: "row" }, swatch, named(band.name)),
      [band.least, ...band.percentiles, band.most].map((n) => make("td", { class: "number" }, short(n))), make("td", { class: "number" }, count(band.without)));
  });
  const head = ["band", "least", "2 %", "98 %", "greatest", "without a value"].map((name, at) => make("th", { scope: "col", class: at ? "number" : null }, name));
  return [svg, make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)))];
}

const row = (name, ...value) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, ...value));

function facts(found) {
  const class_ = className(found.label);
  const general = make("table", {}, make("tbody", {},
    row("key", named(found.key)), class_ !== null && row("class", named(class_), ` (${found.label})`),
    row("split", `${found.split}, number ${count(found.number)}`), found.source && row("file's digest", found.source),
    row("shard", `${found.shard}, row ${count(found.row)}`)));
  const fields = found.fields.map((field) => {
    const value = field.fault ? fault(field.fault)
      : field.picture ? `${field.picture.width} × ${field.picture.height} pixels, ${nouns(field.picture.bands, "band")}`
        : field.boxes ? nouns(field.boxes.length, "row") : null;
    const numbers = field.numbers && `${field.numbers.slice(0, 48).map((n) => (n === null ? "–" : short(n))).join(", ")}${field.numbers.length > 48 ? ", …" : ""}`;
    return make("tr", {}, make("th", { scope: "row" }, named(field.name)),
      make("td", {}, make("div", {}, field.type), value && make("div", {}, value), numbers && make("div", {}, numbers),
        field.text !== undefined && make("div", {}, named(field.text), field.cut && " …"),
        field.digest && make("div", { class: "quiet" }, `${size(field.bytes)}${field.offset === null ? "" : ` at byte ${count(field.offset)}`}`),
        field.digest && make("div", { class: "quiet" }, field.digest)));
  });
  return [make("h3", {}, "Sample"), general, make("h3", {}, "Fields"), make("table", {}, make("tbody", {}, fields))];
}

// ── What training sees ──

const NUMBER = (name, text, about = {}) => ({ name, text, kind: "number", step: "any", ...about });
const TRANSFORMS = {
  "": { text: "as the loader chooses", fields: [] },
  random: { text: "Random crop", fields: [NUMBER("width", "Width", { value: 224, step: 1, min: 1 }), NUMBER("height", "Height", { value: 224, step: 1, min: 1 }), NUMBER("scale0", "Least area", { value: 0.08 }), NUMBER("scale1", "Most area", { value: 1 }), NUMBER("ratio0", "Least ratio", { value: 0.75 }), NUMBER("ratio1", "Most ratio", { value: 1.3333333333333333 }), NUMBER("flip", "Mirrored", { value: 0.5 })] },
  pad: { text: "Padded crop", fields: [NUMBER("width", "Width", { value: 32, step: 1, min: 1 }), NUMBER("height", "Height", { value: 32, step: 1, min: 1 }), NUMBER("padding", "Padding", { value: 4, step: 1, min: 0 }), NUMBER("flip", "Mirrored", { value: 0.5 })] },
  center: { text: "Centre crop", fields: [NUMBER("width", "Width", { value: 224, step: 1, min: 1 }), NUMBER("height", "Height", { value: 224, step: 1, min: 1 }), NUMBER("resize_short", "Short side", { value: 256, step: 1, min: 1 })] },
  resize: { text: "Resize", fields: [NUMBER("width", "Width", { value: 224, step: 1, min: 1 }), NUMBER("height", "Height", { value: 224, step: 1, min: 1 })] },
};
const P = (value) => NUMBER("p", "How often", { value, min: 0, max: 1 });
const CHANGES = {
  horizontal_flip: { text: "Mirror left to right", fields: [P(0.5)] },
  vertical_flip: { text: "Mirror top to bottom", fields: [P(0.5)] },
  quarter_turns: { text: "Quarter turns", fields: [P(1)] },
  shift: { text: "Shift", fields: [NUMBER("pixels", "Pixels", { value: 4, step: 1, min: 0 })] },
  color_jitter: { text: "Colours", fields: [NUMBER("brightness", "Brightness", { value: 0.4, min: 0 }), NUMBER("contrast", "Contrast", { value: 0.4, min: 0 }), NUMBER("saturation", "Saturation", { value: 0.4, min: 0 }), NUMBER("hue", "Hue", { value: 0.1, min: 0, max: 0.5 })] },
  grayscale: { text: "Grey", fields: [P(0.1)] },
  erasing: { text: "Erase a rectangle", fields: [P(0.5)], also: { scale: [0.02, 0.33], ratio: [0.3, 3.3], value: 0 } },
};
const CHOICES = {
  order: { text: "Order", values: { "": "elastic", torch: "torch", stored: "as stored", window: "window of 8 shards" } },
  numbers: { text: "Numbers", values: { stored: "as stored", "": "f32", f16: "f16", bf16: "bf16" } },
  normalise: { text: "Normalise", values: { "": "by kind of picture", imagenet: "ImageNet", bundle: "the bundle's own", scaled: "0 to 1" } },
  unknown_labels: { text: "Unknown classes", values: { "": "refuse", ignore: "ignore", drop: "leave out" } },
  on_bad_sample: { text: "Broken pictures", values: { "": "fail", skip: "skip", replace: "replace" } },
};
const ORDERS = { torch: { torch: { shuffle: true } }, stored: { torch: { shuffle: false } }, window: { window: { shards: 8 } } };

/** The form of a list of fields; `of` has their values. */
function inputs(fields, of = {}) {
  const made = fields.map((field) => ({
    field,
    input: make("input", { type: field.kind, step: field.step, min: field.min, max: field.max, value: of[field.name] ?? field.value ?? "" }),
  }));
  return {
    nodes: made.map(({ field, input }) => make("label", {}, field.text, input)),
    read: () => Object.fromEntries(made.filter(({ input }) => input.value !== "").map(({ field, input }) => [field.name, Number(input.value)])),
  };
}

const flat = (kind, of) => ({ ...of, scale0: of.scale?.[0], scale1: of.scale?.[1], ratio0: of.ratio?.[0], ratio1: of.ratio?.[1] });
const folded = (kind, { scale0, scale1, ratio0, ratio1, ...of }) =>
  kind === "random" ? { ...of, scale: [scale0, scale1], ratio: [ratio0, ratio1] } : of;

/** An example of bands that the bundle has. */
function bandsHint() {
  const n = bundle.fields.find((field) => field.name === "image")?.n_bands ?? 1;
  return n < 2 ? "all" : `all, or such as ${n < 3 ? "1" : "2,1,0"}`;
}

/** The form of the loader's settings: `read` returns them as the loader takes them. */
function settingsForm(given, changed) {
  const split = make("select", { id: "split" }, bundle.splits.map((s) => option(s.name, s.name, given.split ?? bundle.splits[0]?.name)));
  const plainFields = inputs([NUMBER("batch_size", "Batch size", { value: 16, step: 1, min: 1, max: 512 }), NUMBER("seed", "Seed", { value: 0, step: 1, min: 0 })], given);
  const mixing = inputs([NUMBER("mixup", "MixUp alpha", { min: 0 }), NUMBER("cutmix", "CutMix alpha", { min: 0 })], given);
  const [kindGiven, transformGiven] = Object.entries(given.transform ?? { "": {} })[0];
  const kind = make("select", { id: "transform" }, Object.entries(TRANSFORMS).map(([name, { text }]) => option(name, text, kindGiven)));
  const transformFields = make("div", { class: "bar" });
  let transform;
  const setTransform = (of) => {
    transform = inputs(TRANSFORMS[kind.value].fields, of);
    transformFields.replaceChildren(...transform.nodes);
  };
  setTransform(flat(kindGiven, transformGiven));
  const changes = Object.entries(CHANGES).map(([name, { text, fields, also }]) => {
    const of = (given.augment ?? []).find((change) => name in change)?.[name];
    const on = make("input", { type: "checkbox", checked: Boolean(of), id: `change-${name}` });
    const part = inputs(fields, of);
    const details = make("div", { class: "bar", hidden: !of }, part.nodes);
    on.addEventListener("change", () => { details.hidden = !on.checked; });
    return { name, on, also, part, nodes: [make("label", { class: "row" }, on, text), details] };
  });
  const choices = Object.entries(CHOICES).map(([name, { text, values }]) => {
    const now = name === "order" ? Object.keys(ORDERS).find((key) => JSON.stringify(ORDERS[key]) === JSON.stringify(given.order)) : given[name];
    return { name, text, select: make("select", { id: name }, Object.entries(values).map(([value, label]) => option(value, label, now))) };
  });
  const bands = make("input", { type: "text", value: (given.bands ?? []).join(","), placeholder: bandsHint(), pattern: "[0-9, ]*" });
  const node = make("form", { "aria-label": "Settings of the loader", onsubmit: (event) => { event.preventDefault(); changed(); } },
    make("fieldset", {}, make("legend", {}, "Batches"), make("label", {}, "Split", split), plainFields.nodes,
      choices.filter(({ name }) => name === "order").map(({ text, select }) => make("label", {}, text, select))),
    make("fieldset", {}, make("legend", {}, "Crop and size"), make("label", {}, "Transform", kind), transformFields),
    make("fieldset", {}, make("legend", {}, "Augmentations"), changes.map(({ nodes }) => nodes), mixing.nodes),
    make("fieldset", {}, make("legend", {}, "Numbers"), choices.filter(({ name }) => name !== "order").map(({ text, select }) => make("label", {}, text, select)), make("label", {}, "Bands, from 0", bands)),
    make("button", { class: "main" }, "Show"));
  kind.addEventListener("change", () => setTransform());
  node.addEventListener("change", () => changed());
  const read = () => {
    const settings = { split: split.value, ...plainFields.read(), ...mixing.read() };
    if (kind.value) settings.transform = { [kind.value]: folded(kind.value, transform.read()) };
    const augment = changes.filter(({ on }) => on.checked).map(({ name, part, also }) => ({ [name]: { ...part.read(), ...also } }));
    if (augment.length) settings.augment = augment;
    for (const { name, select } of choices) {
      if (select.value) settings[name] = name === "order" ? ORDERS[select.value] : select.value;
    }
    const list = bands.value.split(",").map((text) => text.trim()).filter(Boolean).map(Number);
    if (list.length) settings.bands = list;
    return settings;
  };
  return { node, read };
}

function delivered(sampleRow, title, colour) {
  const box = make("span", { class: "thumb" });
  if (sampleRow.image) box.append(make("img", { src: sampleRow.image, alt: "" }));
  for (const overlay of sampleRow.overlays ?? []) {
    const image = make("img", { src: overlay.image, alt: "", class: "moved" });
    image.style.opacity = "0.45";
    box.append(image);
  }
  const { width, height, boxes, box_labels: labels } = sampleRow;
  if (boxes?.length) {
    const svg = shapes(width, height, { boxes, labels });
    svg.setAttribute("preserveAspectRatio", "xMidYMid meet");
    box.append(svg);
  }
  const blended = sampleRow.blended && sampleRow.blended.weight < 1 && `${Math.round(100 * sampleRow.blended.weight)} % + ${sampleRow.blended.class ?? sampleRow.blended.label}`;
  const swatch = colour && make("span", { class: "key" });
  if (swatch) swatch.style.background = colour;
  const inner = [box, make("span", { class: "name" }, make("span", {}, swatch, named(title)),
    make("span", { class: "quiet" }, [sampleRow.class ?? (sampleRow.label === -100 ? "unknown class" : sampleRow.label), blended].filter((text) => text !== undefined && text !== null && text !== false).join(" · ")))];
  return inner;
}

function codeBlock(name, code, text = `Copy for ${name}`) {
  const copy = make("button", { type: "button" }, text);
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code);
      say("Copied.");
    } catch {
      getSelection().selectAllChildren(block);
      say("The browser does not permit copying: the text is selected.");
    }
  });
  const block = make("pre", { tabindex: "0", "aria-label": `Code for ${name}` });
  block.textContent = plain(code).replaceAll("\\u{a}", "\n");
  return make("div", { class: "code" }, make("h3", {}, name), block, copy);
}

async function training(choices) {
  let given = {};
  try {
    given = choices.settings ? JSON.parse(choices.settings) : { split: choices.split, numbers: "stored" };
  } catch {
    given = {};
  }
  const epoch = make("input", { type: "number", id: "epoch", min: "0", step: "1", value: choices.epoch ?? "0" });
  const step = make("input", { type: "number", id: "step", min: "0", step: "1", value: choices.step ?? "0" });
  const result = make("div", { id: "batch", "aria-live": "polite" });
  const id = choices.id;
  let running = new AbortController();
  const form = settingsForm(given, () => draw(true));
  const masks = make("input", { type: "checkbox", checked: true });
  masks.addEventListener("change", () => result.querySelectorAll(".moved").forEach((image) => { image.hidden = !masks.checked; }));
  const jump = (input, by) => () => {
    input.value = String(Math.max(0, Number(input.value) + by));
    draw(true);
  };
  const stepper = (text, input) => make("div", { class: "bar" }, make("label", {}, text, input),
    make("button", { type: "button", onclick: jump(input, -1), "aria-label": `${text} before` }, "−"),
    make("button", { type: "button", onclick: jump(input, 1), "aria-label": `${text} after` }, "+"));
  epoch.addEventListener("change", () => draw(true));
  step.addEventListener("change", () => draw(true));
  const bar = make("div", { class: "bar" }, stepper(id ? "First epoch" : "Epoch", epoch), !id && stepper("Batch", step),
    bundle.fields.some((field) => field.is_on_image && field.name !== "image") && make("label", { class: "row" }, masks, "Masks"), id && make("a", { href: hash("training", { settings: choices.settings }) }, "Whole batches"));
  fill(id ? "What training sees of one sample" : "What training sees",
    make("p", { class: "quiet" }, "Made by the loader itself: the same settings, seed and epoch give a training run the same numbers."),
    make("div", { class: "training" }, form.node, make("div", {}, bar, result)));

  async function draw(keep) {
    const settings = JSON.stringify(form.read());
    if (keep) history.replaceState(null, "", hash("training", { settings, epoch: epoch.value, step: step.value, id }));
    running.abort();
    running = new AbortController();
    leaving.signal.addEventListener("abort", () => running.abort());
    say("Loading…");
    try {
      if (id) await drawEpochs(settings);
      else await drawBatch(settings);
      result.querySelectorAll(".moved").forEach((image) => { image.hidden = !masks.checked; });
    } catch (error) {
      if (isEnd(error)) return;
      result.replaceChildren(fault(error));
      say("");
    }
  }

  const code = (found) => [bundle.reading && make("p", { class: "quiet" }, "BUNDLE is the folder that gular pack will write."), codeBlock("Python", found.code.python), codeBlock("Rust", found.code.rust)];

  async function drawBatch(settings) {
    const found = await get("batch", { settings, epoch: epoch.value, step: step.value }, running.signal);
    const { about } = found;
    const rows = found.samples ?? [];
    step.value = found.step;
    const lines = [
      about && `image: ${about.type} [${about.shape}], mean ${short(about.mean)}, standard deviation ${short(about.std)}, ${short(about.least ?? 0)} to ${short(about.most ?? 0)}`,
      found.fitted, found.left_behind.length && `not moved with the picture: ${found.left_behind.join(", ")}`,
      about && about.type !== "u8" && "Numbers are shown from the batch's 2nd to its 98th percentile.",
    ].filter(Boolean);
    const list = make("ul", { class: "grid", "aria-label": "The batch" }, rows.map((one) => make("li", {},
      make("a", { class: "tile", title: plain(one.key), href: hash("training", { settings, epoch: epoch.value, id: one.id }) }, delivered(one, one.key)))));
    result.replaceChildren(...lines.map((line) => make("p", { class: "quiet" }, line)), ...found.skipped.map((text) => fault(`skipped: ${text}`)), list, ...code(found).filter(Boolean));
    say(`Epoch ${found.epoch}, batch ${found.step} of ${count(found.steps)}: ${nouns(rows.length, "sample")}.`);
  }

  async function drawEpochs(settings) {
    const [found, whole] = await Promise.all([get("epochs", { settings, id, epoch: epoch.value, n: 8 }, running.signal), get("sample", { id }, running.signal)]);
    const image = whole.fields.find((field) => field.name === "image" && field.picture);
    const { width, height } = image?.picture ?? { width: 1, height: 1 };
    const crops = found.epochs.map((one, at) => ({ corners: one.crop, colour: colourOf(at) })).filter(({ corners }) => corners);
    const layers = make("div", { class: width < 200 ? "layers sharp" : "layers" }, make("img", { alt: `Picture of ${plain(whole.key)}`, src: address("picture", { id, field: "image", stretch: bundle.fields.find((f) => f.name === "image")?.is_stretched ? 1 : "" }) }), shapes(width, height, { crops }));
    layers.style.aspectRatio = `${width} / ${height}`;
    layers.style.maxWidth = `min(100%, calc(60vh * ${width / height}))`;
    const list = make("ul", { class: "grid", "aria-label": "Epochs" }, found.epochs.map((one, at) => make("li", {}, make("div", { class: "tile" }, delivered(one, `epoch ${one.epoch}`, colourOf(at))))));
    result.replaceChildren(make("p", {}, make("a", { href: hash(`sample/${id}`) }, named(whole.key))), make("div", { class: "stage" }, layers),
      make("p", { class: "quiet" }, "Each outline is what one epoch takes of the picture. MixUp and CutMix need a whole batch and are not shown here."), list, ...code(found).filter(Boolean));
    say(`${nouns(found.epochs.length, "epoch")} from ${epoch.value} on.`);
  }
  await draw(false);
}

// ── Duplicates ──

async function pairs(choices) {
  const kind = saved ? "alike" : choices.kind ?? "equal";
  const kinds = saved ? {} : { equal: "The same bytes", alike: "Looks alike" };
  const result = make("div");
  fill("Duplicates",
    make("p", { class: "bar" }, Object.entries(kinds).map(([name, text]) => make("a", { href: hash("pairs", { kind: name }), "aria-current": name === kind ? "true" : null }, text))),
    make("p", { class: "quiet" }, kind === "equal" ? "Found by the digests in the indexes; no picture is read."
      : "Every picture is decoded: equal pixels, and difference hashes (dHash) of which at most 3 of 64 bits differ."), result);
  if (kind === "alike" && choices.start !== "1" && !saved) {
    result.append(make("a", { href: hash("pairs", { kind, start: "1" }) }, "Decode all pictures and compare them"));
    return;
  }
  const bar = make("progress", { max: "1", "aria-label": "Compared" });
  result.replaceChildren(bar);
  let found;
  while (!(found = await get("pairs", { kind })).result) {
    if (kind === "alike") bar.value = found.of ? found.done / found.of : 0;
    say(`${count(found.done)} of ${count(found.of)} compared.`);
    await pause(400);
  }
  const { result: seen } = found;
  if (seen.fault) throw new Error(seen.fault);
  say(`${nouns(seen.compared, "picture")} compared: ${nouns(seen.n, "group")}${seen.n > seen.groups.length ? `, of which ${count(seen.groups.length)} are shown` : ""}${seen.undecodable ? `; ${nouns(seen.undecodable, "picture")} cannot be decoded and ${seen.undecodable === 1 ? "was" : "were"} not compared` : ""}${seen.away ? `; ${nouns(seen.away, "sample")} in shards that are not on this machine ${seen.away === 1 ? "was" : "were"} not compared` : ""}.`);
  result.replaceChildren(make("ul", { class: "pairs", "aria-label": "Groups" }, seen.groups.map((group) => make("li", {},
    make("p", { class: "quiet" }, [`${group.how}; ${nouns(group.n, "sample")}`, group.splits.length > 1 && `in several splits: ${group.splits.join(", ")}`, group.labels_differ && "of several classes",
      group.samples.length < group.n && `${count(group.samples.length)} of ${count(group.n)} shown`].filter(Boolean).join("; ")),
    make("ul", { class: "grid" }, group.samples.map((one) => tile(one)))))));
}

// ── Training runs ──

/** One chart per metric, with a line per run. */
function chart(metric, lines) {
  // A value that is not finite is a gap.
  const points = lines.flatMap(({ points }) => points).filter(([, y]) => y !== null);
  if (!points.length) return make("section", {}, make("h3", {}, named(metric)), make("p", { class: "quiet" }, "no finite value"));
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const span = (values) => values.reduce(([least, most], n) => [Math.min(least, n), Math.max(most, n)], [Infinity, -Infinity]);
  const [[left, right], [low, high]] = [span(xs), span(ys)];
  const at = ([x, y]) => `${((100 * (x - left)) / (right - left || 1)).toFixed(2)},${(49 - (48 * (y - low)) / (high - low || 1)).toFixed(2)}`;
  const parts = (points) => points.reduce((parts, point) => {
    if (point[1] === null) parts.push([]);
    else parts.at(-1).push(point);
    return parts;
  }, [[]]).filter((part) => part.length);
  const last = lines.map(({ name, points }) => `${name}: ${points.at(-1)[1] === null ? "not finite" : short(points.at(-1)[1])}`).join("; ");
  const svg = make("svg", { class: "plot", viewBox: "0 0 100 50", preserveAspectRatio: "none", role: "img", "aria-label": `${metric}, last values: ${last}` },
    lines.flatMap(({ points, colour }) => parts(points).map((part) => {
      // A single point between gaps is a short line.
      const line = make("polyline", { points: (part.length > 1 ? part : [part[0], part[0]]).map(at).join(" ") });
      line.style.stroke = colour;
      return line;
    })));
  return make("section", {}, make("h3", {}, named(metric)), svg,
    make("p", { class: "quiet" }, `steps ${count(left)} to ${count(right)}, values ${short(low)} to ${short(high)}`));
}

function predicted(one) {
  const scores = [one.score !== null && `${short(one.score)} ${one.predicted}`, one.score_of_class !== null && `${short(one.score_of_class)} ${one.class}`].filter(Boolean).join(", ");
  const words = make("span", { class: "name" }, make("span", {}, named(one.key)), make("span", {}, named(`${one.predicted}, is ${one.class}`)), make("span", { class: "quiet" }, named(scores)));
  if (one.id === null) return make("li", {}, make("div", { class: "tile" }, thumb(null, one.key, null, { why: bundle.views.includes("samples") ? "not in this bundle" : "the picture is in the bundle" }), words));
  return make("li", {}, make("a", { class: "tile", href: hash(`sample/${one.id}`), title: plain(one.key) }, thumb(one.id, one.key), words));
}

/** How to see the pictures of predictions, where only their table was given. */
function withoutBundle() {
  return make("p", { class: "quiet" }, "The pictures are in the bundle that was trained on. To see them, give it first: gular view BUNDLE ", named(bundle.source));
}

function matrix(found) {
  const most = Math.max(1, ...found.confusion.flatMap((row, at) => row.filter((_, other) => other !== at)));
  const cell = (n, wrong) => {
    const td = make("td", { class: "number" }, n ? count(n) : "·");
    if (wrong && n) td.style.boxShadow = `inset 0 0 0 9rem rgb(209 73 91 / ${(0.35 * n / most).toFixed(3)})`;
    else if (n) td.style.fontWeight = "600";
    return td;
  };
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Confusion matrix" }, make("table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class \\ predicted"), found.classes.map((name) => make("th", { scope: "col", class: "number" }, named(name))))),
    make("tbody", {}, found.confusion.map((row, at) => make("tr", {}, make("th", { scope: "row" }, named(found.classes[at])), row.map((n, other) => cell(n, at !== other)))))));
}

async function runs() {
  const { runs: all, predictions } = await get("runs");
  const colours = all.map((_, at) => LINES[at % LINES.length]);
  const metrics = [...new Set(all.flatMap((run) => run.curves.map(({ name }) => name)))];
  const legend = all.map((run, at) => {
    const swatch = make("span", { class: "key" });
    swatch.style.background = colours[at];
    return make("span", {}, swatch, named(run.name));
  });
  const charts = metrics.map((metric) => chart(metric, all.flatMap((run, at) => {
    const curve = run.curves.find(({ name }) => name === metric);
    return curve ? [{ name: run.name, points: curve.points, colour: colours[at] }] : [];
  })));
  const faults = all.flatMap((run) => [
    run.fault && fault(run.fault),
    run.skipped > 0 && fault(`${plain(run.name)}: ${nouns(run.skipped, "line")} left out; ${run.first_skipped}`),
    run.not_finite > 0 && make("p", { class: "quiet" }, named(run.name), `: ${nouns(run.not_finite, "value")} not finite, shown as gaps`),
  ].filter(Boolean));
  const tables = predictions.map((name) => make("section", {}, make("h3", {}, named(name)), make("p", { class: "quiet" }, "Reading…")));
  fill("Training runs", all.length > 0 && make("p", { class: "bar" }, legend), faults, make("div", { class: "charts" }, charts), tables);
  const ids = [];
  lastList = { ids, hash: location.hash };
  for (const [at, section] of tables.entries()) {
    let found;
    while (!(found = (await get("predictions", { table: at })).result)) await pause(300);
    if (found.fault) {
      section.replaceChildren(section.firstChild, fault(found.fault));
      continue;
    }
    const known = found.n - found.unknown;
    const list = (title, ones) => [make("h3", {}, title), make("ul", { class: "grid", "aria-label": title }, ones.map(predicted))];
    ids.push(...found.surest.map(({ id }) => id).filter(Boolean));
    section.replaceChildren(...[section.firstChild,
      make("p", {}, `${nouns(found.n, "prediction")}, ${known ? `${(100 * found.right / known).toFixed(2)} % of ${count(known)} with a label are right` : "none with a label"}.${found.labels_of_bundle ? ` ${found.labels_of_bundle < found.n ? nouns(found.labels_of_bundle, "row") : "All rows"} without a label: those of the bundle count${found.labels_of_bundle > found.most_labels_of_bundle ? `, for the first ${count(found.most_labels_of_bundle)}` : ""}.` : ""}${found.elsewhere ? ` ${count(found.elsewhere)} of them name a class that this bundle does not have, and are not in the matrix.` : ""}`),
      ...doubts(found),
      ...(found.confusion.length ? [matrix(found)] : []),
      !bundle.views.includes("samples") && found.surest.length > 0 && withoutBundle(),
      ...(found.surest.length ? list(found.is_ranked ? "Wrong, and surest of it" : "Wrong", found.surest) : []),
      ...(found.worst.length ? list("Their own class least expected", found.worst) : []),
      found.surest.length > 0 && !found.worst.length && make("p", { class: "quiet" }, "The table does not say how probable each sample's own class was.")].filter(Boolean));
  }
}

/** Where a table of predictions does not fit the bundle. */
function doubts({ joined, unread_scores: unread }) {
  const of = joined && `of ${nouns(joined.rows, "row")}`;
  const such = (key) => make("span", {}, ", such as ", named(key));
  const say = (n, text, key) => n > 0 && make("p", { class: "fault", role: "alert" }, `${count(n)} ${text}`, such(key), ".");
  return [
    joined && say(joined.missing.n, `${of} have keys that this bundle does not have`, joined.missing.key),
    joined && say(joined.twice.n, `${of} have keys that came before: such samples count more than once`, joined.twice.key),
    joined && say(joined.other_label.n, `${of} have other labels than this bundle`, joined.other_label.key),
    say(unread.n, "scores cannot be read as numbers or probabilities, and are left out", unread.cell),
  ].filter(Boolean);
}

// ── About ──

async function about() {
  const { about: texts, made } = bundle;
  const table = (rows) => make("table", {}, make("tbody", {}, rows));
  const classes = make("div");
  fill("About this bundle",
    table([row("opened from", named(bundle.source)), row("digest", bundle.digest), row("stored as", `${bundle.envelope}, payload ${bundle.payload}`),
      ...Object.entries(texts ?? {}).filter(([, value]) => value).map(([name, value]) => row(name, named(value)))]),
    make("h3", {}, "Splits"),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["split", "samples", "bytes", "shards"].map((name, at) => make("th", { scope: "col", class: at ? "number" : null }, name)))),
      make("tbody", {}, bundle.splits.map((s) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: hash("samples", { split: s.name }) }, s.name)),
        make("td", { class: "number" }, count(s.samples)), make("td", { class: "number" }, size(s.bytes)), make("td", { class: "number" }, count(s.shards))))))),
    make("h3", {}, "Fields"), table(bundle.fields.map((field) => row(named(field.name), field.type,
      field.bands.length > 0 && make("div", { class: "quiet" }, field.bands.map((band, at) => `${at} ${band.name}${band.wavelength_nm ? ` (${band.wavelength_nm} nm)` : ""}`).join(", "))))),
    bundle.has_labels && make("h3", {}, "Classes"), bundle.has_labels && classes,
    make("h3", {}, "How it was made"), table(Object.entries(made).map(([name, value]) => row(named(name), named(typeof value === "object" ? JSON.stringify(value) : value)))));
  if (!bundle.has_labels) return;
  const signal = leaving.signal;
  let counts;
  do {
    counts = await get("counts", {}, signal);
    drawCounts(classes, counts);
    if (counts.read < counts.of) await pause(300);
  } while (counts.read < counts.of && !signal.aborted);
}

function drawCounts(to, counts) {
  const splits = bundle.splits.map((split) => split.name).filter((name) => counts.splits[name]);
  const most = Math.max(1, ...splits.flatMap((split) => counts.splits[split]));
  const of = (split, at) => counts.splits[split][at] ?? 0;
  const shown = bundle.classes.slice(0, 1000);
  const rows = shown.map((name, at) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: hash("samples", { class: at }) }, named(name))),
    splits.map((split) => {
      const share = make("div", { class: "share" });
      share.style.width = `${(100 * of(split, at)) / most}%`;
      return [make("td", { class: "number" }, count(of(split, at))), make("td", { class: "share-cell", "aria-hidden": "true" }, of(split, at) > 0 && share)];
    })));
  const unknown = splits.some((split) => counts.unknown[split] > 0) && make("tr", {}, make("th", { scope: "row" }, make("a", { href: hash("samples", { class: -1 }) }, "unknown class")),
    splits.map((split) => [make("td", { class: "number" }, count(counts.unknown[split])), make("td", {})]));
  const table = make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class"),
    splits.map((split) => [make("th", { scope: "col", class: "number" }, split), make("td", {})]))), make("tbody", {}, rows, unknown)));
  const more = bundle.classes.length > shown.length && make("p", { class: "quiet" }, `… and ${count(bundle.classes.length - shown.length)} more classes`);
  to.replaceChildren(...[table, counts.fault && fault(counts.fault), more].filter(Boolean));
  say(counts.read < counts.of ? `${count(counts.read)} of ${count(counts.of)} indexes counted.` : "");
}

// ── Reports of measurements ──

function bars({ title, bars: all }) {
  const most = Math.max(1e-9, ...all.map(({ value, range }) => Math.max(value, range[1])));
  const share = (n) => `${((100 * n) / most).toFixed(2)}%`;
  const rows = all.map(({ name, value, range: [least, greatest], baseline, picked, text }) => {
    const length = make("div", { class: baseline ? "share base" : "share" });
    length.style.width = share(value);
    const spread = make("div", { class: "spread" });
    spread.style.left = share(least);
    spread.style.width = share(greatest - least);
    return make("tr", { class: picked ? "picked" : null }, make("th", { scope: "row" }, named(name)),
      make("td", { class: "share-cell", "aria-hidden": "true" }, make("div", { class: "scale" }, length, spread)), make("td", { class: "number" }, text));
  });
  return make("section", {}, make("h4", {}, title), make("table", { class: "bars" }, make("tbody", {}, rows)));
}

const numbers = ({ caption, head, rows }) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", {}, make("caption", {}, caption),
  make("thead", {}, make("tr", {}, head.map((name, at) => make("th", { scope: "col", class: at ? "number" : null }, name)))),
  make("tbody", {}, rows.map((row) => make("tr", {}, row.map((cell, at) => (at ? make("td", { class: "number" }, cell) : make("th", { scope: "row" }, named(cell)))))))));

const PARTS = {
  heading: (text) => make("h3", {}, text),
  text: (text) => make("p", { class: "quiet" }, text),
  advice: ({ texts, command }) => make("section", { class: "question" }, texts.map((text) => make("p", {}, text)), command && codeBlock("Next", command, "Copy this command")),
  list: (texts) => make("ul", {}, texts.map((text) => make("li", {}, text))),
  bars,
  table: numbers,
};

async function report() {
  fill(bundle.source, (await get("report")).flatMap((part) => Object.entries(part).map(([name, of]) => PARTS[name](of))));
}

addEventListener("hashchange", show);
show();

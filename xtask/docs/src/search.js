// The search box of every page. The index is a script, because a page that is read from a disk may
// load scripts and nothing else; it is loaded when somebody begins to search.
"use strict";

const root = document.documentElement.dataset.root;
const box = document.querySelector(".search");
const query = document.getElementById("query");
const found = document.getElementById("found");
let sections = null;

function gularSearch(index) {
  sections = index.map(([page, heading, at, text]) => ({
    page, heading, at, text, words: (page + " " + heading + " " + text).toLowerCase(),
  }));
  show();
}

function load() {
  if (sections !== null || document.getElementById("index")) return;
  const script = document.createElement("script");
  script.id = "index";
  script.src = root + "site/search-index.js";
  document.head.append(script);
}

// How well a section fits: words of its heading count most, then those of its page's title.
function score(section, words) {
  let sum = 0;
  for (const word of words) {
    if (!section.words.includes(word)) return 0;
    if (section.heading.toLowerCase().includes(word)) sum += 20;
    if (section.page.toLowerCase().includes(word)) sum += 10;
    sum += Math.min(5, section.text.toLowerCase().split(word).length - 1);
  }
  return sum;
}

// The text around the first word that was searched for.
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
  const begin = Math.max(0, Math.min(...places, text.length) - 40);
  const start = begin === 0 ? 0 : text.indexOf(" ", begin) + 1;
  return (start > 0 ? "… " : "") + text.slice(start, start + 140) + (text.length > start + 140 ? " …" : "");
}

// `text` with the words marked, as nodes: nothing of a page is read as HTML.
function marked(text, words) {
  const nodes = [];
  const lower = text.toLowerCase();
  let done = 0;
  while (done < text.length) {
    let at = text.length, length = 0;
    for (const word of words) {
      const next = lower.indexOf(word, done);
      if (next >= 0 && next < at) [at, length] = [next, word.length];
    }
    nodes.push(document.createTextNode(text.slice(done, at)));
    if (length === 0) break;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(at, at + length);
    nodes.push(mark);
    done = at + length;
  }
  return nodes;
}

function show() {
  const words = query.value.toLowerCase().split(/\s+/).filter((word) => word.length > 0);
  found.hidden = words.length === 0 || sections === null;
  if (found.hidden) return;
  const best = sections
    .map((section) => ({ section, score: score(section, words) }))
    .filter((entry) => entry.score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, 20);
  found.replaceChildren(...best.map(({ section }) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = root + section.at;
    const where = document.createElement("strong");
    const same = section.heading === section.page;
    where.append(...marked(same ? section.page : section.page + " › " + section.heading, words));
    const text = document.createElement("span");
    text.append(...marked(excerpt(section.text, words), words));
    link.append(where, text);
    item.append(link);
    return item;
  }));
  if (best.length === 0) {
    const item = document.createElement("li");
    item.textContent = "Nothing found.";
    found.replaceChildren(item);
  }
}

// Up and down go through what was found, Escape closes it.
function step(event, by) {
  const links = [...found.querySelectorAll("a")];
  if (found.hidden || links.length === 0) return;
  event.preventDefault();
  const at = links.indexOf(document.activeElement) + by;
  (at < 0 ? query : links[Math.min(at, links.length - 1)]).focus();
}

function close() {
  found.hidden = true;
}

// The menu shows where its reader is.
const current = document.querySelector("nav [aria-current]");
if (current) {
  const menu = current.closest("nav");
  menu.scrollTop = current.offsetTop - menu.clientHeight / 3;
}

box.hidden = false;
query.addEventListener("focus", () => { load(); show(); });
query.addEventListener("input", () => { load(); show(); });
box.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") step(event, 1);
  if (event.key === "ArrowUp") step(event, -1);
  if (event.key === "Escape") { close(); query.focus(); close(); }
  if (event.key === "Enter" && event.target === query) {
    const first = found.querySelector("a");
    if (first && !found.hidden) first.click();
  }
});
found.addEventListener("click", close);
document.addEventListener("click", (event) => { if (!box.contains(event.target)) close(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(event.target.tagName)) {
    event.preventDefault();
    query.focus();
  }
});

// Search, and dark or light. No libraries; search.js has the texts.
"use strict";

const up = document.body.dataset.up;
const query = document.getElementById("query");
const results = document.getElementById("results");
const MOST = 12;
let selected = -1;

function words(text) {
  return text.toLowerCase().split(/[^\w.]+/).filter(Boolean);
}

// How well a section answers: all words must occur; in titles they count more, in code less.
function score(section, wanted) {
  const title = `${section.title} ${section.page}`.toLowerCase();
  const text = section.text.toLowerCase();
  const code = section.code.toLowerCase();
  let sum = 0;
  for (const word of wanted) {
    if (section.title.toLowerCase().startsWith(word)) sum += 12;
    else if (title.includes(word)) sum += 8;
    else if (text.includes(word)) sum += 2;
    else if (code.includes(word)) sum += 1;
    else return 0;
  }
  return section.url.startsWith("reasons/") ? 2 * sum : sum;
}

function snippet(section, wanted) {
  const text = `${section.text} ${section.code}`;
  const at = text.toLowerCase().indexOf(wanted[0]);
  const from = Math.max(0, at - 40);
  return (from ? "… " : "") + text.slice(from, from + 130);
}

// Only text nodes: nothing from the index is taken as HTML.
function marked(parent, text, wanted) {
  const escaped = wanted.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  for (const part of text.split(new RegExp(`(${escaped.join("|")})`, "i"))) {
    const hit = wanted.includes(part.toLowerCase());
    parent.append(hit ? Object.assign(document.createElement("mark"), { textContent: part }) : part);
  }
}

function show(found, wanted) {
  results.replaceChildren();
  selected = -1;
  for (const section of found) {
    const item = document.createElement("li");
    item.setAttribute("role", "option");
    const link = document.createElement("a");
    link.href = up + section.url;
    marked(link, section.title || section.page, wanted);
    const small = document.createElement("small");
    if (section.title !== section.page) small.append(`${section.page} · `);
    marked(small, snippet(section, wanted), wanted);
    link.append(small);
    item.append(link);
    results.append(item);
  }
  if (!found.length) {
    const nothing = document.createElement("p");
    nothing.textContent = "Nothing found.";
    results.append(nothing);
  }
  results.hidden = false;
  query.setAttribute("aria-expanded", "true");
}

function close() {
  results.hidden = true;
  query.setAttribute("aria-expanded", "false");
}

function search() {
  const wanted = words(query.value);
  if (!wanted.length) return close();
  const found = window.SECTIONS.map((section) => [score(section, wanted), section])
    .filter(([points]) => points)
    .sort((a, b) => b[0] - a[0])
    .slice(0, MOST)
    .map(([, section]) => section);
  show(found, wanted);
}

function select(step) {
  const items = [...results.querySelectorAll("li")];
  if (!items.length) return;
  selected = (selected + step + items.length) % items.length;
  items.forEach((item, index) => item.setAttribute("aria-selected", String(index === selected)));
  items[selected].scrollIntoView({ block: "nearest" });
}

query.addEventListener("input", search);
query.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    select(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter") {
    const items = results.querySelectorAll("li a");
    items[Math.max(selected, 0)]?.click();
  } else if (event.key === "Escape") {
    close();
    query.blur();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) close();
});

function toggle() {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // Not allowed for files in some browsers: then it is for this page only.
  }
}

// A search can be linked to: index.html?q=item
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
  query.value = asked;
  search();
}

document.getElementById("theme").addEventListener("click", toggle);
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    query.focus();
  } else if (event.key === "t") toggle();
});

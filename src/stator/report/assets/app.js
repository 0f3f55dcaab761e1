// App: the frame around the views, addresses, search, keys, dark and light.

const top_ = document.getElementById("top");
const side = document.getElementById("side");
const main = document.getElementById("main");
const help = document.getElementById("help");

const KEYS = [
  ["/", "search"],
  ["j  k  or  ↓  ↑", "next, previous function"],
  ["←  →", "previous, next compile of the function"],
  ["o", "overview"],
  ["t", "dark or light"],
  ["?", "this list"],
  ["Esc", "leave search or list"],
];

// ---------------------------------------------------------------- dark and light

function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("stator-theme", name);
  } catch {
    // Files may not keep anything: it holds for this page.
  }
}

try {
  const kept = localStorage.getItem("stator-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch {
  // As the system is.
}

const toggleTheme = () => setTheme(theme() === "dark" ? "light" : "dark");

// ---------------------------------------------------------------- the frame

const search = h("input", { type: "search", id: "search", placeholder: "Search functions", "aria-label": "Search functions", autocomplete: "off", spellcheck: "false" });
const list = h("ul", { class: "units" });
const items = UNITS.map((unit) => {
  const marks = [];
  if (unit.breaks.length) marks.push(h("span", { class: "badge red", title: many(unit.breaks.length, "break") }, unit.breaks.length, h("span", { class: "spoken" }, " breaks")));
  if (unit.recompiles.length) marks.push(h("span", { class: "badge amber", title: many(unit.recompiles.length, "recompile") }, unit.recompiles.length, h("span", { class: "spoken" }, " recompiles")));
  const about = `${where(unit).split("/").pop()} · ${many(unit.graphs, "graph")}`;
  const link = h("a", { href: `#/f/${unit.index}`, title: `${unit.name} ${where(unit)}` }, h("span", { class: "unit-name" }, unit.name), h("span", { class: "marks" }, marks), h("span", { class: "soft about" }, about));
  return { unit, link, row: h("li", {}, link), words: `${unit.name} ${where(unit)} ${unit.parts.map(partName).join(" ")} ${unit.breaks.map((each) => `${each.id} ${each.reason}`).join(" ")}`.toLowerCase() };
});
const none = h("li", { class: "soft none", hidden: true }, "None is called so.");
list.append(...items.map((each) => each.row), none);

const home = h("a", { class: "brand", href: "#/" }, h("span", { class: "mark", "aria-hidden": "true" }), "stator");
top_.append(home, h("span", { class: "grow" }), h("button", { type: "button", class: "quiet", title: "Keys (?)", on: { click: () => showHelp() } }, "Keys"), h("button", { type: "button", class: "quiet", title: "Dark or light (t)", on: { click: toggleTheme } }, "Dark / light"));
const overviewLink = h("a", { href: "#/", class: "overview-link" }, "Overview");
side.append(overviewLink, search, list);

search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  let left = 0;
  for (const each of items) {
    each.row.hidden = !each.words.includes(wanted);
    left += !each.row.hidden;
  }
  none.hidden = left > 0;
});

help.append(h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, words]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)])), h("button", { type: "button", on: { click: () => help.close() } }, "Close"));
const showHelp = () => (help.open ? help.close() : help.showModal());

// ---------------------------------------------------------------- addresses

let current = null;
let opened = null;
let shown = null;

function show() {
  if (location.hash === shown) return;
  shown = location.hash;
  const found = /^#\/f\/(\d+)(?:\/c\/(\d+))?/.exec(location.hash);
  const unit = found && UNITS[Number(found[1])];
  const compile = found && found[2] !== undefined ? Number(found[2]) : null;
  if (unit && unit === current && compile !== null) {
    open(compile);
    return;
  }
  current = unit || null;
  opened = compile;
  main.replaceChildren(unit ? unitView(unit, compile) : overview());
  for (const each of items) {
    if (each.unit === unit) each.link.setAttribute("aria-current", "page");
    else each.link.removeAttribute("aria-current");
  }
  if (unit) overviewLink.removeAttribute("aria-current");
  else overviewLink.setAttribute("aria-current", "page");
  if (unit) items[unit.index].link.scrollIntoView({ block: "nearest" });
  if (compile === null) scrollTo(0, 0);
  else document.getElementById(`c${compile}`)?.scrollIntoView({ block: "start" });
}

function open(number) {
  opened = number;
  const card = document.getElementById(`c${number}`);
  if (!card) return;
  card.open = true;
  card.scrollIntoView({ block: "start" });
}

// The browser tells of a new address a little later, and the next key may come before.
function go(hash) {
  location.hash = hash;
  show();
}

function step(by) {
  const visible = items.filter((each) => !each.row.hidden);
  if (!visible.length) return;
  const at = visible.findIndex((each) => each.unit === current);
  const next = at < 0 ? (by > 0 ? 0 : visible.length - 1) : Math.min(Math.max(at + by, 0), visible.length - 1);
  go(`#/f/${visible[next].unit.index}`);
}

function stepCompile(by) {
  if (!current || !current.compiles.length) return;
  const at = current.compiles.findIndex((each) => each.index === opened);
  const next = at < 0 ? (by > 0 ? 0 : current.compiles.length - 1) : Math.min(Math.max(at + by, 0), current.compiles.length - 1);
  go(`#/f/${current.index}/c/${current.compiles[next].index}`);
}

// ---------------------------------------------------------------- keys

const ACTIONS = {
  "/": () => search.focus(),
  j: () => step(1),
  k: () => step(-1),
  ArrowRight: () => stepCompile(1),
  ArrowLeft: () => stepCompile(-1),
  o: () => go("#/"),
  t: toggleTheme,
  "?": showHelp,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (typing) {
    if (event.key === "Escape") {
      search.value = "";
      search.dispatchEvent(new Event("input"));
      event.target.blur();
    } else if (event.target === search && (event.key === "ArrowDown" || event.key === "Enter")) {
      step(1);
      event.preventDefault();
    } else if (event.target === search && event.key === "ArrowUp") {
      step(-1);
      event.preventDefault();
    }
    return;
  }
  // In the list the arrows move through it; elsewhere they scroll.
  const inList = side.contains(event.target);
  const action = ACTIONS[event.key] || (inList && { ArrowDown: () => step(1), ArrowUp: () => step(-1) }[event.key]);
  const scrolls = event.target.closest?.(".code, .source, .tablebox, .picturebox, .diff, [role=tablist]");
  if (!action || (scrolls && event.key.startsWith("Arrow"))) return;
  action();
  event.preventDefault();
});

addEventListener("hashchange", show);
show();
document.documentElement.dataset.ready = "yes";

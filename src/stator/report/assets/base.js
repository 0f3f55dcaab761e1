// Base: the data, elements, words for numbers, and what is derived from the data once.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

// Elements. Children are texts or elements, never markup.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Words.
function many(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

function time(seconds) {
  if (seconds >= 100) return `${Math.round(seconds)} s`;
  if (seconds >= 1) return `${seconds.toFixed(seconds >= 10 ? 1 : 2)} s`;
  if (seconds >= 0.01) return `${Math.round(seconds * 1000)} ms`;
  return `${(seconds * 1000).toFixed(1)} ms`;
}

function percent(part, whole) {
  if (!whole) return "–";
  const found = (100 * part) / whole;
  return found > 99.9 && found < 100 ? "> 99.9 %" : `${+found.toFixed(1)} %`;
}

function text(number) {
  return DATA.texts[number];
}

// The end of a path is what tells files apart.
// A place in a file: a link that opens it in an editor, if the page is to have such links.
function inEditor(file, line, shown) {
  if (!DATA.editor || !(file || "").startsWith("/")) return shown;
  const href = DATA.editor.replace("{file}", () => encodeURI(file).replaceAll("#", "%23").replaceAll("?", "%3F")).replace("{line}", () => line);
  return h("a", { class: "editor", href, title: `Open ${file}:${line}` }, shown);
}

function shortFile(file, library) {
  if (library) return library;
  const parts = (file || "").split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : file || "";
}

function colour(index) {
  return `g${index % 8}`;
}

const sum = (numbers) => numbers.reduce((all, each) => all + each, 0);

// A unit is a function that the program calls, with its parts: itself, and what is behind breaks.
function rootOf(index) {
  const seen = new Set();
  while (DATA.functions[index].parent !== null && !seen.has(index)) {
    seen.add(index);
    index = DATA.functions[index].parent;
  }
  return index;
}

function makeUnits() {
  const units = new Map();
  const of = (index) => {
    const root = rootOf(index);
    if (!units.has(root)) {
      units.set(root, { root, name: DATA.functions[root].name, parts: [], compiles: [], recompiles: [], told: [] });
    }
    return units.get(root);
  };
  DATA.compiles.forEach((compile, index) => {
    compile.index = index;
    compile.seconds = sum(compile.times);
    const unit = of(compile.function);
    let part = unit.parts.find((each) => each.function === compile.function);
    if (!part) {
      part = { function: compile.function, index: unit.parts.length, compiles: [] };
      unit.parts.push(part);
    }
    compile.part = part;
    compile.variant = part.compiles.length;
    part.compiles.push(compile);
    unit.compiles.push(compile);
  });
  DATA.recompiles.forEach((each) => of(each.function).recompiles.push(each));
  for (const each of DATA.told) if (each.function !== undefined) of(each.function).told.push(each);
  const found = [...units.values()];
  found.forEach((unit, index) => finish(unit, index));
  return found;
}

function finish(unit, index) {
  unit.index = index;
  unit.parts.filter(hasGraph).forEach((part, number) => (part.graph = number));
  unit.graphs = unit.compiles.filter((each) => each.graph !== null).length;
  unit.ops = sum(unit.compiles.map((each) => each.ops || 0));
  unit.seconds = sum(unit.compiles.map((each) => each.seconds));
  const root = DATA.functions[unit.root];
  unit.hits = root.hits; // of calls of the function itself
  unit.declined = root.declined;
  const compiled = unit.compiles.filter((each) => each.function === unit.root).length;
  unit.calls = root.calls ?? (unit.hits || 0) + unit.declined + compiled;
  unit.eager = root.eager ?? (unit.declined ? { "a limit of recompiles was reached": unit.declined } : {}); // calls, by reason
  unit.breaks = breaksOf(unit);
  unit.compiles.forEach((compile) => (compile.unit = unit));
}

// Each place once, however often the program passes it.
function breaksOf(unit) {
  const found = new Map();
  const failures = unit.told.filter((each) => each.broken);
  for (const each of [...unit.compiles, ...failures]) {
    if (!each.broken || each.broken.of_a_split) continue; // which another one has led to
    const last = each.broken.stack[each.broken.stack.length - 1];
    const key = `${each.broken.reason} ${last ? `${last.file}:${last.line}` : ""}`;
    if (!found.has(key)) found.set(key, { ...each.broken, compile: each.kind ? null : each, eager: Boolean(each.eager), times: 0 });
    found.get(key).times += 1;
  }
  return [...found.values()];
}

const hasGraph = (part) => part.compiles.some((each) => each.graph !== null);
const UNITS = makeUnits();

function partName(part) {
  const name = DATA.functions[part.function].name;
  const line = DATA.functions[part.function].line;
  return part.index === 0 && !name.includes(", resumed") ? name : `${name.replace(/^.*, resumed in /, "resumed in ")}, line ${line}`;
}

function compileName(compile) {
  const word = compile.eager !== null ? "As it is" : compile.graph === null ? "No graph" : `Graph ${compile.part.graph + 1}`;
  return compile.variant ? `${word}, variant ${compile.variant + 1}` : word;
}

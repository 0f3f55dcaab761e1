// Views: the overview of the run, and one function with its source.

function chip(value, noun, kind, title) {
  return h("div", { class: `tile ${value ? kind || "" : "zero"}`, title }, h("b", {}, value.toLocaleString ? value.toLocaleString("en") : value), h("span", {}, noun));
}

function plural(number, noun) {
  return number === 1 ? noun : `${noun}s`;
}

function tiles() {
  const graphs = sum(UNITS.map((unit) => unit.graphs));
  const breaks = sum(UNITS.map((unit) => unit.breaks.length));
  const again = DATA.recompiles.length;
  const seconds = sum(DATA.compiles.map((each) => each.seconds));
  const ops = sum(UNITS.map((unit) => unit.ops));
  const known = UNITS.filter((unit) => unit.hits !== null);
  const hits = sum(known.map((unit) => unit.hits));
  const eager = sum(known.map((unit) => sum(Object.values(unit.eager))));
  const calls = sum(known.map((unit) => unit.calls));
  return h(
    "div",
    { class: "tiles" },
    chip(UNITS.length, plural(UNITS.length, "function")),
    chip(graphs, plural(graphs, "graph")),
    chip(ops, plural(ops, "operator")),
    chip(breaks, plural(breaks, "graph break"), "red"),
    chip(again, plural(again, "recompile"), "amber"),
    chip(time(seconds), "compiling"),
    known.length > 0 && chip(percent(hits, calls), "calls served", "", `${hits} of ${many(calls, "call")} ran what was compiled before`),
    eager > 0 && chip(eager, eager === 1 ? "call ran eagerly" : "calls ran eagerly", "amber", "as they are, without what was compiled"),
  );
}

// ---------------------------------------------------------------- overview

function overview() {
  const run = DATA.runs[0];
  const command = run && run.argv ? run.argv.join(" ") : "";
  const times = [0, 1, 2].map((stage) => sum(DATA.compiles.map((each) => each.times[stage])));
  const versions = run ? [`stator ${run.stator}`, `torch ${run.torch}`, `Python ${run.python}`].join(" · ") : "";
  const when = run && run.time ? new Date(run.time * 1000).toLocaleString() : "";
  const others = DATA.runs.length > 1 ? ` · ${many(DATA.runs.length, "process")}`.replace("processs", "processes") : "";
  const view = h("div", { class: "view" }, h("h1", {}, command || "What was compiled"), h("p", { class: "soft meta" }, [versions, when].filter(Boolean).join(" · ") + others), tiles());
  if (!DATA.compiles.length) {
    view.append(h("p", { class: "empty" }, DATA.told.length ? "Nothing was compiled to the end." : "Nothing was compiled."));
  } else {
    view.append(h("section", {}, h("h2", {}, "Timeline"), timeline(UNITS)), h("section", {}, h("h2", {}, "Where the time went"), timesBar(times)));
  }
  const advice = attention();
  if (advice.length) view.append(h("section", {}, h("h2", {}, "Worth a look"), h("ul", { class: "advice" }, advice)));
  if (UNITS.length > 1) view.append(h("section", {}, h("h2", {}, "Functions"), unitTable()));
  return view;
}

function attention() {
  const found = [];
  const reasons = new Map();
  for (const unit of UNITS) {
    for (const each of unit.breaks) {
      const key = each.id || each.reason;
      if (!reasons.has(key)) reasons.set(key, { title: each.title || each.reason, id: each.id, hint: each.hint, where: [] });
      reasons.get(key).where.push({ unit, each });
    }
  }
  for (const reason of [...reasons.values()].sort((a, b) => b.where.length - a.where.length)) {
    const links = reason.where.slice(0, 4).map(({ unit, each }) => h("a", { href: `#/f/${unit.index}` }, breakPlace(each) || unit.name));
    const rest = reason.where.length > 4 ? ` and ${reason.where.length - 4} more` : "";
    found.push(
      h("li", { class: "red" }, h("div", {}, h("b", {}, sentence(reason.title)), reason.id && h("span", { class: "id" }, reason.id)), h("div", { class: "soft" }, many(reason.where.length, "break"), ": ", links.flatMap((each, i) => (i ? [", ", each] : [each])), rest), reason.hint && h("div", { class: "fix" }, h("b", {}, "Fix "), reason.hint)),
    );
  }
  for (const unit of [...UNITS].sort((a, b) => b.recompiles.length - a.recompiles.length).slice(0, 5)) {
    if (!unit.recompiles.length) continue;
    const last = unit.recompiles[unit.recompiles.length - 1];
    found.push(h("li", { class: "amber" }, h("div", {}, h("b", {}, `${unit.name} was compiled again ${unit.recompiles.length === 1 ? "once" : many(unit.recompiles.length, "time")}`)), h("div", { class: "soft" }, h("a", { href: `#/f/${unit.index}` }, "see why"), last.failures.length ? ", the last time: " : ""), h("ul", { class: "failures" }, last.failures.slice(0, 2).map(failureView)), last.remedy && h("div", { class: "fix" }, h("b", {}, "Fix "), last.remedy)));
  }
  for (const each of DATA.told) {
    if (each.kind === "reset" || (each.kind === "failure" && each.broken)) continue;
    const name = each.function === undefined ? "" : DATA.functions[each.function].name;
    const word = { warning: "Warning", limit: "Limit of recompiles", failure: each.error }[each.kind];
    const [first, ...more] = (each.text || "").split("\n");
    found.push(h("li", { class: each.kind === "failure" ? "red" : "amber" }, h("div", {}, h("b", {}, word), ` ${name && !first.includes(name) ? `${name}: ` : ""}${first}`), more.length > 0 && h("details", {}, h("summary", { class: "soft" }, "More"), h("pre", { class: "plain" }, more.join("\n")))));
  }
  return found;
}

function sentence(words) {
  return words ? words[0].toUpperCase() + words.slice(1) : words;
}

function breakPlace(each) {
  const last = [...each.stack].reverse().find((place) => !(place.library || "").startsWith("torch/")) || each.stack[each.stack.length - 1];
  return last ? `${shortFile(last.file, last.library).split("/").pop()}:${last.line}` : "";
}

function unitTable() {
  const head = ["function", "graphs", "breaks", "recompiles", "operators", "compiling", "served"].map((name, i) => h("th", { scope: "col", class: i ? "number" : "" }, name));
  const rows = UNITS.map((unit) => {
    const share = unit.hits === null ? "" : percent(unit.hits, unit.calls);
    const numbers = [unit.graphs, unit.breaks.length, unit.recompiles.length, unit.ops, time(unit.seconds), share];
    const kinds = ["", "red", "amber", "", "", ""];
    return h("tr", {}, h("td", {}, h("a", { href: `#/f/${unit.index}` }, unit.name), h("span", { class: "soft file" }, " ", where(unit))), numbers.map((each, i) => h("td", { class: `number ${each && kinds[i]} ${each === 0 ? "soft" : ""}` }, each)));
  });
  return h("div", { class: "tablebox", tabindex: "0", role: "group", "aria-label": "Functions" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

function where(unit) {
  const root = DATA.functions[unit.root];
  return root.file ? inEditor(root.file, root.line, `${shortFile(root.file, root.library)}:${root.line}`) : "";
}

// ---------------------------------------------------------------- one function

function unitView(unit, opened) {
  const root = DATA.functions[unit.root];
  const facts = [many(unit.graphs, "graph"), many(unit.ops, "operator"), `${time(unit.seconds)} compiling`];
  if (unit.hits !== null) facts.push(`${many(unit.hits, "call")} served`);
  for (const [why, count] of Object.entries(unit.eager)) facts.push(`${many(count, "call")} ran eagerly: ${why}`);
  const view = h(
    "div",
    { class: "view" },
    h("h1", {}, unit.name, unit.breaks.length > 0 && h("span", { class: "badge red" }, many(unit.breaks.length, "break")), unit.recompiles.length > 0 && h("span", { class: "badge amber" }, many(unit.recompiles.length, "recompile"))),
    h("p", { class: "soft meta" }, root.file ? h("code", { title: root.file }, `${root.library || root.file}:${root.line}`) : "", root.file ? " · " : "", facts.join(" · ")),
  );
  const failures = unit.told.filter((each) => each.kind !== "failure" || !each.broken);
  if (failures.length) view.append(h("ul", { class: "advice" }, failures.map((each) => h("li", { class: each.kind === "failure" ? "red" : "amber" }, h("pre", { class: "plain" }, each.text || "")))));
  view.append(sourceSection(unit));
  const effects = effectsSection(unit);
  if (effects) view.append(effects);
  if (unit.compiles.length) {
    const cards = unit.compiles.map((compile, index) => compileCard(compile, opened === null ? index === 0 : compile.index === opened));
    view.append(h("section", {}, h("h2", {}, "Compiles"), h("div", { class: "cards" }, cards)));
  }
  return view;
}

// What happens to objects of the program, by part: that of its last variant.
function effectsSection(unit) {
  const last = unit.parts.map((part) => part.compiles[part.compiles.length - 1]);
  const changing = last.filter((compile) => compile.effects && compile.effects.length);
  if (!changing.length) return null;
  const items = changing.map((compile) => h("li", {}, h("span", { class: `swatch ${compile.graph === null ? "none" : colour(compile.part.graph)}` }), h("span", {}, h("span", { class: "soft" }, `After ${compileName(compile).toLowerCase()}: `), compile.effects.map(effectWords).join("; "))));
  return h("section", {}, h("h2", {}, "Side effects"), h("ul", { class: "effect-parts" }, items));
}

// What is known of each line: which parts have operators from it, and the breaks there.
function lineFacts(unit) {
  const facts = new Map();
  const at = (file, line) => {
    const key = `${file}:${line}`;
    if (!facts.has(key)) facts.set(key, { parts: new Map(), breaks: [], inside: [] });
    return facts.get(key);
  };
  for (const part of unit.parts) {
    const compile = [...part.compiles].reverse().find((each) => each.graph !== null);
    if (!compile) continue;
    const known = compile.places.map(([file, line]) => [text(file), line]);
    for (const [name, op, target, , , , , stack] of compile.nodes) {
      if (!stack.length) continue;
      const own = [...stack].reverse().findIndex((number) => !known[number][0].includes("/torch/"));
      new Set(stack).forEach((number) => {
        const found = at(...known[number]).parts;
        if (!found.has(part.graph)) found.set(part.graph, { direct: [], through: 0 });
        if (number === stack[stack.length - 1 - own]) found.get(part.graph).direct.push(op === "get_attr" ? name : target);
        else found.get(part.graph).through += 1;
      });
    }
  }
  for (const each of unit.breaks) {
    const own = each.stack.filter((place) => !(place.library || "").startsWith("torch/"));
    own.forEach((place, index) => at(place.file, place.line)[index === own.length - 1 ? "breaks" : "inside"].push(each));
  }
  return facts;
}

function sourceSection(unit) {
  const facts = lineFacts(unit);
  const root = DATA.functions[unit.root].source;
  const touched = (source) => source.lines.some((_, index) => facts.has(`${source.file}:${source.first + index}`));
  const first = root && DATA.sources.find((each) => each.file === root[0] && each.first === root[1]);
  const others = DATA.sources.filter((each) => each !== first && touched(each));
  const broken = (source) => source.lines.some((_, index) => facts.get(`${source.file}:${source.first + index}`)?.breaks.length);
  const shown = others.filter((each) => !each.library || broken(each));
  const libraries = others.filter((each) => each.library && !broken(each));
  const section = h("section", {}, h("h2", {}, "Source"), legend(unit));
  if (first) section.append(sourceBlock(first, facts, false));
  section.append(...shown.map((each) => sourceBlock(each, facts, true)));
  if (libraries.length) {
    const box = h("details", { class: "more" }, h("summary", {}, `${many(libraries.length, "function")} of libraries`));
    const fillIn = () => {
      if (box.childElementCount === 1) box.append(...libraries.map((each) => sourceBlock(each, facts, true)));
    };
    box.addEventListener("toggle", () => box.open && fillIn());
    box.unfold = fillIn;
    section.append(box);
  }
  const lost = unit.breaks.filter((each) => !DATA.sources.some((source) => each.stack.some((place) => place.file === source.file && place.line >= source.first && place.line < source.first + source.lines.length)));
  if (lost.length) section.append(...lost.map((each) => breakNote(each)));
  if (!first && !others.length && !lost.length) section.append(h("p", { class: "soft" }, "The source is not known."));
  return section;
}

function legend(unit) {
  const items = unit.parts
    .filter(hasGraph)
    .map((part) => h("li", {}, h("span", { class: `swatch ${colour(part.graph)}` }), `Graph ${part.graph + 1}`, h("span", { class: "soft" }, ` ${partName(part)}`)));
  return items.length > 1 ? h("ul", { class: "legend" }, items) : null;
}

function sourceBlock(source, facts, titled) {
  const lines = pythonLines(dedented(source.lines));
  const width = String(source.first + lines.length).length;
  const box = h("div", { class: "source", tabindex: "0", role: "group", "aria-label": `Source of ${source.name}` });
  if (titled) box.append(h("div", { class: "source-title" }, h("b", {}, source.name || "module"), h("span", { class: "soft" }, " ", inEditor(source.file, source.first, `${shortFile(source.file, source.library)}:${source.first}`))));
  const fact = (index) => facts.get(`${source.file}:${source.first + index}`);
  const draw = (index) => sourceLine(lines[index], source.first + index, width, fact(index), `L${source.file}:${source.first + index}`);
  for (const [from, to] of runs(lines.length, (index) => Boolean(fact(index)))) {
    const [start, end] = to - from > FOLDED ? [from + (from ? AROUND : HEAD), to - (to < lines.length ? AROUND : 0)] : [to, to];
    for (let index = from; index < start; index += 1) box.append(...draw(index));
    if (end - start > 1) box.append(fold(start, end, width, draw));
    for (let index = end - start > 1 ? end : start; index < to; index += 1) box.append(...draw(index));
  }
  return box;
}

const FOLDED = 14; // lines of which nothing is to be said, in a row
const AROUND = 3;
const HEAD = 5;

// Runs of lines with something to say of each, or nothing, as [from, to).
function runs(length, told) {
  const found = [];
  let from = 0;
  for (let index = 1; index <= length; index += 1) {
    if (index === length || told(index) !== told(from)) {
      found.push([from, index]);
      from = index;
    }
  }
  return found;
}

// Lines that are shown on demand.
function fold(start, end, width, draw) {
  const button = h("button", { type: "button", class: "fold" }, h("span", { class: "number" }, " ".repeat(width)), `${many(end - start, "line")} more`);
  button.addEventListener("click", () => {
    const lines = [];
    for (let index = start; index < end; index += 1) lines.push(...draw(index));
    button.replaceWith(...lines);
  });
  return button;
}

function dedented(lines) {
  const indents = lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length);
  const common = Math.min(...indents, 80);
  return lines.map((line) => line.slice(common));
}

function sourceLine(line, number, width, fact, id) {
  const parts = fact ? [...fact.parts.keys()].sort((a, b) => a - b) : [];
  const bars = h("span", { class: "bars", "aria-hidden": "true" }, parts.slice(0, 4).map((part) => h("i", { class: colour(part) })));
  const broken = fact && fact.breaks.length ? "broken" : fact && fact.inside.length ? "broken-inside" : "";
  const kind = `line ${parts.length ? `in ${colour(parts[0])}` : ""} ${broken}`;
  const spoken = parts.length ? h("span", { class: "spoken" }, ` in graph ${parts.map((part) => part + 1).join(" and ")}`) : null;
  const row = h("div", { class: kind, id }, h("span", { class: "number" }, String(number).padStart(width)), bars, h("code", {}, line), spoken, fact ? operatorNote(fact, parts) : null);
  return [row, ...(fact ? fact.breaks.map((each) => breakNote(each)) : [])];
}

function operatorNote(fact, parts) {
  const direct = parts.flatMap((part) => fact.parts.get(part).direct);
  const through = sum(parts.map((part) => fact.parts.get(part).through));
  const names = [...new Set(direct)];
  const listed = names.length > 4 ? many(direct.length, "operator") : names.join(" · ");
  const called = through ? `${many(through, "operator")} inside` : "";
  const words = [listed, called].filter(Boolean).join(", ");
  return words ? h("span", { class: "ops", title: direct.join(", ") || words }, words) : null;
}

// Where it is, for an editor; on the page the note stands below the line.
function breakLink(each) {
  const last = [...each.stack].reverse().find((place) => !place.library) || each.stack[each.stack.length - 1];
  return DATA.editor && last ? h("div", { class: "soft" }, inEditor(last.file, last.line, `${shortFile(last.file, last.library)}:${last.line}`)) : null;
}

function breakNote(each) {
  const more = [];
  if (each.what) more.push(h("p", {}, each.what));
  if (each.why) more.push(h("p", {}, h("b", {}, "Why "), each.why));
  if (each.fix) more.push(h("p", {}, h("b", {}, "What to do "), each.fix));
  if (each.stack.length > 1) more.push(h("p", {}, h("b", {}, "Called through "), h("span", { class: "stack" }, each.stack.slice(0, -1).reverse().map((place) => h("code", {}, inEditor(place.file, place.line, `${shortFile(place.file, place.library)}:${place.line}`), ` in ${place.function}`)))));
  return h(
    "div",
    { class: "note" },
    h("div", {}, h("b", {}, each.eager ? "Not captured " : "Graph break "), each.reason, each.id && h("span", { class: "id" }, each.id)),
    breakLink(each),
    each.source && h("div", { class: "soft" }, "the object is ", h("code", {}, each.source)),
    each.hint && h("div", { class: "fix" }, h("b", {}, "Fix "), each.hint),
    more.length > 0 && h("details", {}, h("summary", { class: "soft" }, "More"), more),
  );
}

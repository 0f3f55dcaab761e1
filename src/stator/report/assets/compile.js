// One compile: a card that shows, when it is opened, what was made and from what.

const FIRST_NODES = 300;

function compileCard(compile, open) {
  const chips = [];
  if (compile.graph !== null) chips.push(many(compile.ops || 0, "operator"));
  chips.push(many(compile.guards.length, "guard"));
  if (compile.effects && compile.effects.length) chips.push(many(compile.effects.length, "side effect"));
  if (compile.hits !== null) chips.push(`used ${compile.hits ? many(compile.hits + 1, "time") : "once"}`);
  const summary = h(
    "summary",
    {},
    h("span", { class: `swatch ${compile.graph === null ? "none" : colour(compile.part.graph)}` }),
    h("span", { class: "title" }, compileName(compile)),
    h("span", { class: "soft part" }, partName(compile.part)),
    compile.recompile !== null && h("span", { class: "badge amber" }, "recompile"),
    compile.eager !== null && h("span", { class: "badge red" }, "eager"),
    compile.broken && compile.eager === null && h("span", { class: "badge red" }, "break behind it"),
    h("span", { class: "facts soft" }, h("span", {}, chips.join(" · ")), timesBar(compile.times, { legend: false }), h("span", { class: "took" }, time(compile.seconds))),
  );
  const card = h("details", { class: "card compile", id: `c${compile.index}` }, summary);
  const fillIn = () => {
    if (card.childElementCount === 1) card.append(compileBody(compile));
  };
  card.addEventListener("toggle", () => card.open && fillIn());
  if (open) {
    card.open = true;
    fillIn();
  }
  return card;
}

function compileBody(compile) {
  const body = h("div", { class: "body" });
  const again = recompileView(compile);
  if (again) body.append(again);
  if (compile.eager !== null) body.append(h("p", { class: "eager-note" }, h("b", {}, "Runs as it is"), `: ${compile.eager}`));
  const tabs = [];
  if (compile.graph !== null) {
    tabs.push(["Graph", () => readableGraph(compile)]);
    if (compile.nodes.length <= MOST_NODES) tabs.push(["Picture", () => pictureView(compile)]);
    tabs.push(["Nodes", () => nodesTable(compile)]);
  }
  tabs.push(["Guards", () => guardsView(compile)]);
  if (compile.effects && compile.effects.length) tabs.push(["Side effects", () => effectsView(compile)]);
  if (compile.residual) tabs.push(["Runs", () => codeBlock(compile.residual, { label: "What runs in place of the function" })]);
  if (compile.bytecode) tabs.push(["Bytecode", () => codeBlock(compile.bytecode, { python: false, label: "Bytecode" })]);
  tabs.push(["Times", () => timesBar(compile.times)]);
  body.append(tabbed(tabs, `compile ${compile.number}`));
  return body;
}

// Tabs after the usual pattern: arrows move, one is in the order of focus.
function tabbed(tabs, label) {
  const panel = h("div", { role: "tabpanel", class: "panel" });
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": label });
  const buttons = tabs.map(([name, make], index) => {
    const button = h("button", { role: "tab", type: "button", "aria-selected": "false", tabindex: "-1" }, name);
    button.addEventListener("click", () => pick(index));
    button.make = make;
    return button;
  });
  const pick = (index) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", i === index);
      button.tabIndex = i === index ? 0 : -1;
    });
    panel.setAttribute("aria-label", tabs[index][0]);
    buttons[index].made ||= buttons[index].make();
    panel.replaceChildren(buttons[index].made);
  };
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    pick(next);
    buttons[next].focus();
    event.preventDefault();
    event.stopPropagation();
  });
  list.append(...buttons);
  pick(0);
  return h("div", {}, list, panel);
}

function pictureView(compile) {
  const note = h("p", { class: "soft picked", "aria-live": "polite" }, "Click a node to see where it comes from.");
  const pick = (node) => {
    const place = innermost(compile, node.stack);
    note.replaceChildren(h("code", {}, `${node.name} = ${node.title}(${node.args})`), place ? [" from ", placeLink(compile, place)] : "");
  };
  return h("div", {}, picture(compile, pick), note);
}

// The innermost place that is not in torch: the one that the user knows.
function innermost(compile, stack) {
  for (const number of [...stack].reverse()) {
    const [file, line, name] = compile.places[number];
    if (!text(file).includes("/torch/")) return { file: text(file), line, function: text(name) };
  }
  return null;
}

function placeLink(compile, place) {
  const target = `L${place.file}:${place.line}`;
  const shown = `${shortFile(place.file, "")}:${place.line}`;
  const link = h("a", { href: `#/f/${compile.unit.index}`, title: `${place.file}:${place.line} in ${place.function}` }, shown);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    if (!document.getElementById(target)) document.querySelectorAll(".more").forEach((each) => each.unfold());
    const line = document.getElementById(target);
    if (!line) return;
    for (let outer = line.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
    line.scrollIntoView({ block: "center" });
    line.classList.add("flash");
    setTimeout(() => line.classList.remove("flash"), 1600);
  });
  return link;
}

function nodesTable(compile) {
  const body = h("tbody", {});
  const show = (from, to) => {
    for (const [name, op, target, args, shape, dtype, , stack] of compile.nodes.slice(from, to)) {
      const place = innermost(compile, stack);
      const called = op === "placeholder" ? h("span", { class: "soft" }, "input") : op === "output" ? h("span", { class: "soft" }, "output") : h("code", {}, target);
      body.append(h("tr", {}, h("td", {}, h("code", {}, name)), h("td", {}, called), h("td", { class: "args" }, h("code", {}, args)), h("td", {}, shape || ""), h("td", {}, dtype || ""), h("td", {}, place ? placeLink(compile, place) : "")));
    }
  };
  show(0, FIRST_NODES);
  const head = ["name", "calls", "with", "shape", "dtype", "from"].map((name) => h("th", { scope: "col" }, name));
  const box = h("div", { class: "tablebox", tabindex: "0", role: "group", "aria-label": "Nodes" }, h("table", {}, h("thead", {}, h("tr", {}, head)), body));
  if (compile.nodes.length > FIRST_NODES) {
    const more = h("button", { type: "button", class: "quiet" }, `Show ${many(compile.nodes.length - FIRST_NODES, "more node")}`);
    more.addEventListener("click", () => {
      more.remove();
      show(FIRST_NODES);
    });
    box.append(more);
  }
  return box;
}

// A line of a graph without the names that it gives up.
function cleaned(line) {
  return line.replace(/;\s+[\w =]+= None\s*$/, "").trimEnd();
}

// The graph's code with each input on a line, shapes at the end of lines, and the lines it is from.
function readableGraph(compile) {
  const nodes = new Map(compile.nodes.map((node) => [node[0], node]));
  const value = (name) => {
    const found = nodes.get(name);
    return found && (found[4] || found[5]) ? `  # ${[found[4], found[5]].filter(Boolean).join(" ")}` : "";
  };
  const out = [];
  let last = "";
  for (const raw of compile.graph.trim().split("\n")) {
    const line = cleaned(raw);
    const inputs = /^def forward\(self(?:, )?(.*)\):$/.exec(line);
    if (inputs) {
      const names = inputs[1] ? inputs[1].split(", ").map((each) => each.split(" : ")[0].trim()) : [];
      out.push("def graph(", ...names.map((name) => `    ${name},${value(name)}`), "):");
      continue;
    }
    const name = /^    (\w+) = /.exec(line)?.[1];
    const place = nodes.has(name) ? innermost(compile, nodes.get(name)[7]) : null;
    const where = place ? `${place.file.split("/").pop()}:${place.line}` : last;
    if (place && where !== last) out.push(...(last ? [""] : []), `    # ${where} in ${place.function}`);
    last = where;
    out.push(`${line}${value(name)}`);
  }
  return codeBlock(out.join("\n"), { label: "The graph as Python code" });
}

// "the attribute n of self is set (AttrSet self: n, 1)": the words alone.
function effectWords(effect) {
  return /^(.*?) \([A-Z].*\)$/s.exec(effect)?.[1] ?? effect;
}

function effectsView(compile) {
  const items = compile.effects.map((effect) => {
    const words = effectWords(effect);
    return h("li", {}, words, words !== effect && [" ", h("code", { class: "soft" }, effect.slice(words.length + 2, -1))]);
  });
  return h("div", {}, h("p", { class: "soft" }, "After the graph, in this order:"), h("ol", { class: "effects" }, items));
}

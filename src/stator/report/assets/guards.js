// Guards: what an entry assumes, by what it protects; why something was compiled again.

const GROUPS = [
  ["arguments", "what the function is called with"],
  ["shapes", "relations between sizes"],
  ["attributes", "what the arguments contain"],
  ["parameters and buffers", "tensors of modules"],
  ["closure variables", "what the function closes over"],
  ["globals", "names of modules"],
  ["classes", "methods and other attributes of classes"],
  ["functions", "code and defaults"],
  ["identity", "which objects are the same"],
  ["torch state", "modes and defaults of torch"],
];
const FIRST_GUARDS = 150;

function guardGroups(compile) {
  const found = new Map(GROUPS.map(([name]) => [name, []]));
  for (const [group, words, where] of compile.guards) {
    const name = text(group) || "others";
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ words: guardText(words), where: text(where) });
  }
  return [...found].filter(([, guards]) => guards.length);
}

function guardsView(compile) {
  if (!compile.guards.length) return h("p", { class: "soft" }, "Nothing is assumed.");
  const groups = guardGroups(compile);
  const why = new Map(GROUPS);
  const list = h("div", { class: "guards" });
  const draw = (wanted) => {
    list.replaceChildren();
    for (const [name, guards] of groups) {
      const kept = wanted ? guards.filter((each) => `${each.words} ${each.where}`.toLowerCase().includes(wanted)) : guards;
      if (!kept.length) continue;
      const items = h("ul", {});
      const show = (from, to) => items.append(...kept.slice(from, to).map((each) => h("li", {}, guardWords(each.words), each.where && h("span", { class: "soft where", title: `Read at ${each.where}` }, each.where.split("/").pop()))));
      const body = h("div", {}, items);
      const fillIn = () => {
        if (items.childElementCount) return;
        show(0, FIRST_GUARDS);
        if (kept.length > FIRST_GUARDS) {
          const more = h("button", { type: "button", class: "quiet" }, `Show ${many(kept.length - FIRST_GUARDS, "more guard")}`);
          more.addEventListener("click", () => {
            more.remove();
            show(FIRST_GUARDS);
          });
          body.append(more);
        }
      };
      const open = Boolean(wanted) || kept.length <= 12;
      const box = h("details", { open }, h("summary", {}, h("b", {}, name), h("span", { class: "soft" }, ` ${why.get(name) || ""}`), h("span", { class: "count" }, kept.length)), body);
      if (open) fillIn();
      box.addEventListener("toggle", () => box.open && fillIn());
      list.append(box);
    }
    if (!list.childElementCount) list.append(h("p", { class: "soft" }, "No guard contains that."));
  };
  const search = h("input", { type: "search", placeholder: `Search in ${many(compile.guards.length, "guard")}`, "aria-label": "Search in the guards" });
  search.addEventListener("input", () => draw(search.value.trim().toLowerCase()));
  draw("");
  return h("div", {}, compile.guards.length > 12 && search, list);
}

// Files of libraries are known by what follows the folder of all libraries.
function guardText(number) {
  return text(number).replace(/\S*\/(?:site|dist)-packages\//g, "");
}

// "x has length 3": what it is about, and what must hold.
function guardWords(words) {
  const found = /^(.*?) (is of|has|is|and others:) (.*)$/s.exec(words);
  if (!found) return h("code", {}, words);
  return [h("code", {}, found[1]), h("span", { class: "soft" }, ` ${found[2]} `), found[3]];
}

// ---------------------------------------------------------------- recompiles

function failureView(failure) {
  const parts = [];
  if (failure.source !== undefined && failure.expected !== undefined) {
    parts.push(
      h("code", { class: "path" }, failure.source || "a relation"),
      h("span", { class: "was" }, h("span", { class: "soft" }, "expected "), h("code", {}, failure.expected)),
      h("span", { class: "is" }, h("span", { class: "soft" }, "got "), h("code", {}, failure.actual)),
    );
  } else {
    const found = /^(.*?): expected (.*), got (.*)$/s.exec(failure.text || "");
    if (found) return failureView({ ...failure, source: found[1], expected: found[2], actual: found[3] });
    parts.push(h("span", {}, failure.text || "the guards failed"));
  }
  const notes = [];
  if (failure.compile !== null && failure.compile !== undefined) notes.push(h("a", { href: `#/f/${DATA.compiles[failure.compile].unit.index}/c/${failure.compile}` }, compileName(DATA.compiles[failure.compile])));
  if (failure.where) notes.push(h("span", { title: failure.where }, `read at ${failure.where.split("/").pop()}`));
  if (failure.failing > 1) notes.push(`${failure.failing} of ${failure.guards} guards fail`);
  return h("li", { class: "failure" }, parts, notes.length ? h("span", { class: "soft notes" }, notes.flatMap((each, i) => (i ? [" · ", each] : [each]))) : null);
}

function recompileView(compile) {
  if (compile.recompile === null) return null;
  const why = DATA.recompiles[compile.recompile];
  const before = compile.part.compiles[compile.variant - 1];
  const box = h("div", { class: "again-box" }, h("p", {}, h("b", {}, "Compiled again"), why.failures.length ? ", since nothing that was compiled before fits this call:" : "."), h("ul", { class: "failures" }, why.failures.map(failureView)), why.remedy && h("div", { class: "fix" }, h("b", {}, "Fix "), why.remedy));
  if (before) box.append(differences(before, compile));
  return box;
}

function differences(before, after) {
  const details = h("details", { class: "differences" }, h("summary", {}, `What differs from ${compileName(before).toLowerCase()}`));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const changed = changedGuards(before, after);
    details.append(h("h5", {}, "Guards"), changed.length ? differenceBlock(changed) : h("p", { class: "soft" }, "They are the same."));
    if (before.graph !== null && after.graph !== null) {
      const lines = (compile) => compile.graph.trim().split("\n").map(cleaned);
      const code = difference(lines(before), lines(after));
      const alike = code.every(([mark]) => mark === "=");
      details.append(h("h5", {}, "Graph"), alike ? h("p", { class: "soft" }, "The code is the same; sizes differ.") : differenceBlock(code));
    }
  });
  return details;
}

// Guards that only one of the two has; what says something else of the same value comes together.
function changedGuards(before, after) {
  const words = (compile) => new Set(compile.guards.map(([, each]) => guardText(each)));
  const [old, now] = [words(before), words(after)];
  const added = [...now].filter((each) => !old.has(each));
  const about = (each) => /^(.*?) (?:is of|has|is|and others:) /s.exec(each)?.[1] ?? each;
  const rows = [];
  for (const each of old) {
    if (now.has(each)) continue;
    rows.push(["-", each]);
    const same = added.findIndex((other) => about(other) === about(each));
    if (same >= 0) rows.push(["+", ...added.splice(same, 1)]);
  }
  return [...rows, ...added.map((each) => ["+", each])];
}

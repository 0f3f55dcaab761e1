// Timeline: when what was compiled. Times in which nothing was compiled are cut short.

const MOST_LANES = 12;
const STAGES = ["trace", "backend", "the rest"];

// Where a moment is, between 0 and 1: gaps are as wide as a small share of the work at most.
function scale(compiles) {
  const sorted = [...compiles].sort((a, b) => a.began - b.began);
  const busy = sum(sorted.map((each) => each.ended - each.began)) || 1e-6;
  const gap = busy * 0.025;
  const steps = [];
  const starts = [];
  let at = 0;
  let until = null;
  for (const each of sorted) {
    const idle = until === null ? 0 : Math.max(0, each.began - until);
    if (until === null || idle > gap) starts.push({ time: each.began, at: at + Math.min(idle, gap), cut: idle > gap });
    if (idle) steps.push({ from: until, to: each.began, at, wide: Math.min(idle, gap) });
    at += Math.min(idle, gap);
    const from = until === null ? each.began : Math.max(each.began, until);
    if (each.ended > from) {
      steps.push({ from, to: each.ended, at, wide: each.ended - from });
      at += each.ended - from;
    }
    until = Math.max(until ?? each.ended, each.ended);
  }
  const whole = at || 1;
  const position = (moment) => {
    for (const step of steps) {
      if (moment <= step.to) return (step.at + (Math.max(0, moment - step.from) / (step.to - step.from || 1)) * step.wide) / whole;
    }
    return 1;
  };
  return { position, starts: starts.map((each) => ({ ...each, at: each.at / whole })) };
}

function timeline(units) {
  const compiles = units.flatMap((unit) => unit.compiles);
  if (!compiles.length) return null;
  const { position, starts } = scale(compiles);
  const byTime = [...units].sort((a, b) => b.seconds - a.seconds);
  const shown = new Set(byTime.slice(0, units.length > MOST_LANES ? MOST_LANES - 1 : MOST_LANES));
  const rest = units.filter((unit) => !shown.has(unit) && unit.compiles.length);
  const lanes = units.filter((unit) => shown.has(unit) && unit.compiles.length).map((unit) => lane(unit.name, unit.compiles, position, unit));
  if (rest.length) lanes.push(lane(`${many(rest.length, "other function")}`, rest.flatMap((unit) => unit.compiles), position, null));
  const axis = h("div", { class: "axis", "aria-hidden": "true" });
  let last = -1;
  for (const start of starts) {
    if (start.at - last < 0.09 || start.at > 0.85) continue;
    last = start.at;
    axis.append(h("span", { class: start.cut ? "cut" : "", style: { left: `${100 * start.at}%` } }, time(start.time)));
  }
  axis.append(h("span", { class: "end" }, time(Math.max(...compiles.map((each) => each.ended)))));
  return h(
    "div",
    { class: "timeline", role: "list", "aria-label": "Compiles, in the order of time" },
    lanes,
    h("div", { class: "lane last" }, h("span", { class: "lane-name" }, "since the start"), axis),
  );
}

function lane(name, compiles, position, unit) {
  const track = h("div", { class: "track" });
  for (const compile of compiles) {
    const left = position(compile.began);
    const width = Math.max(0, position(compile.ended) - left);
    const [trace, backend] = compile.times.map((each) => (100 * each) / (compile.seconds || 1));
    const label = `${compile.unit.name}: ${compileName(compile)}, ${time(compile.seconds)}`;
    track.append(
      h("a", {
        class: `bar ${compile.eager !== null ? "is-eager" : ""} ${compile.recompile !== null ? "again" : ""}`,
        href: `#/f/${compile.unit.index}/c/${compile.index}`,
        title: `${label}\ntrace ${time(compile.times[0])}, backend ${time(compile.times[1])}, the rest ${time(compile.times[2])}`,
        "aria-label": label,
        style: { left: `${100 * left}%`, width: `${100 * width}%`, "--a": `${trace}%`, "--b": `${trace + backend}%` },
      }),
    );
  }
  const label = unit ? h("a", { class: "lane-name", href: `#/f/${unit.index}`, title: name }, name) : h("span", { class: "lane-name" }, name);
  return h("div", { class: "lane", role: "listitem" }, label, track);
}

// Where the time went, as one bar and its legend.
function timesBar(times, { legend = true } = {}) {
  const whole = sum(times) || 1;
  const bar = h("div", { class: "times", role: "img", "aria-label": times.map((each, i) => `${STAGES[i]} ${time(each)}`).join(", ") });
  times.forEach((each, index) => bar.append(h("span", { class: `stage-${index}`, style: { width: `${(100 * each) / whole}%` }, title: `${STAGES[index]} ${time(each)}` })));
  if (!legend) return bar;
  const items = times.map((each, index) => h("li", {}, h("span", { class: `dot stage-${index}` }), STAGES[index], " ", h("b", {}, time(each)), h("span", { class: "soft" }, ` ${percent(each, whole)}`)));
  return h("div", {}, bar, h("ul", { class: "legend" }, items));
}

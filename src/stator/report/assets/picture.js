// Picture: a graph drawn in layers, each node below all that it needs.

const MOST_NODES = 60;
const ROW = 64;
const GAP = 18;
const HEIGHT = 38;

function picture(compile, onPick) {
  const nodes = compile.nodes.map(([name, op, target, args, shape, dtype, inputs, stack], index) => {
    const title = op === "placeholder" || op === "output" || op === "get_attr" ? name : target;
    const below = [shape, dtype].filter(Boolean).join(" ");
    const width = Math.max(56, 7.4 * Math.min(title.length, 28) + 22, 5.9 * below.length + 22);
    return { name, op, title, below, inputs, index, width, stack, args, above: [], under: [], rank: 0, x: 0 };
  });
  const byName = new Map(nodes.map((node) => [node.name, node]));
  for (const node of nodes) {
    for (const name of new Set(node.inputs)) {
      const input = byName.get(name);
      if (input) {
        node.above.push(input);
        input.under.push(node);
      }
    }
  }
  rank(nodes);
  const rows = ordered(nodes);
  place(rows);
  return drawn(nodes, rows, onPick);
}

function rank(nodes) {
  for (const node of nodes) node.rank = Math.max(0, ...node.above.map((each) => each.rank + 1)); // nodes come in order
  // An input stands right above the first that needs it, so lines are short.
  for (const node of nodes) {
    if (!node.above.length && node.under.length) node.rank = Math.max(0, Math.min(...node.under.map((each) => each.rank)) - 1);
  }
}

// Rows of nodes; within each, near what they are connected with.
function ordered(nodes) {
  const rows = [];
  for (const node of nodes) (rows[node.rank] ||= []).push(node);
  const filled = rows.filter(Boolean);
  filled.forEach((row, number) => row.forEach((node, index) => {
    node.rank = number;
    node.order = index;
  }));
  for (let sweep = 0; sweep < 8; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const row of down ? filled : [...filled].reverse()) {
      for (const node of row) {
        const near = down ? node.above : node.under;
        node.wish = near.length ? sum(near.map((each) => each.order / Math.max(1, filled[each.rank].length - 1))) / near.length : node.order / Math.max(1, row.length - 1);
      }
      row.sort((a, b) => a.wish - b.wish || a.index - b.index);
      row.forEach((node, index) => (node.order = index));
    }
  }
  return filled;
}

function place(rows) {
  for (const row of rows) {
    let x = -sum(row.map((node) => node.width + GAP)) / 2;
    for (const node of row) {
      node.x = x + node.width / 2;
      x += node.width + GAP;
    }
  }
  for (let sweep = 0; sweep < 10; sweep += 1) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      for (const node of row) {
        const near = [...node.above, ...node.under];
        node.wish = near.length ? sum(near.map((each) => each.x)) / near.length : node.x;
      }
      settle(row);
    }
  }
}

// As near to the wishes as the widths allow: groups that would overlap move as one.
function settle(row) {
  const groups = [];
  for (const node of row) {
    let group = { nodes: [node], width: node.width, centre: node.wish };
    while (groups.length) {
      const last = groups[groups.length - 1];
      if (last.centre + last.width / 2 + GAP <= group.centre - group.width / 2) break;
      groups.pop();
      const width = last.width + GAP + group.width;
      const count = last.nodes.length + group.nodes.length;
      const left = last.centre + (width - last.width) / 2;
      const right = group.centre - (width - group.width) / 2;
      group = { nodes: [...last.nodes, ...group.nodes], width, centre: (left * last.nodes.length + right * group.nodes.length) / count };
    }
    groups.push(group);
  }
  for (const group of groups) {
    let x = group.centre - group.width / 2;
    for (const node of group.nodes) {
      node.x = x + node.width / 2;
      x += node.width + GAP;
    }
  }
}

function drawn(nodes, rows, onPick) {
  const left = Math.min(...nodes.map((node) => node.x - node.width / 2)) - 12;
  const right = Math.max(...nodes.map((node) => node.x + node.width / 2)) + 12;
  const height = rows.length * ROW + 4;
  const y = (node) => node.rank * ROW + 12;
  const edges = s("g", { class: "edges" });
  const boxes = s("g", {});
  for (const node of nodes) {
    for (const input of node.above) {
      const from = [input.x, y(input) + HEIGHT];
      const to = [node.x, y(node)];
      const bend = Math.max(14, (to[1] - from[1]) / 2.2);
      const path = `M${from[0]},${from[1]} C${from[0]},${from[1] + bend} ${to[0]},${to[1] - bend} ${to[0]},${to[1]}`;
      edges.append(s("path", { d: path, "data-from": input.index, "data-to": node.index }));
    }
    boxes.append(box(node, y(node), onPick, edges));
  }
  const label = `A graph of ${nodes.length} nodes`;
  const view = `${left} 0 ${right - left} ${height}`;
  const svg = s("svg", { class: "picture", viewBox: view, width: right - left, height, role: "img", "aria-label": label, style: { "min-width": `${0.6 * (right - left)}px` } }, edges, boxes);
  return h("div", { class: "picturebox", tabindex: "0", role: "group", "aria-label": label }, svg);
}

function box(node, y, onPick, edges) {
  const kind = node.op === "placeholder" || node.op === "get_attr" ? "input" : node.op === "output" ? "output" : "call";
  const title = node.title.length > 28 ? `${node.title.slice(0, 27)}…` : node.title;
  const group = s(
    "g",
    { class: `node ${kind}`, transform: `translate(${node.x - node.width / 2},${y})` },
    s("title", {}, `${node.name} = ${node.title}(${node.args})${node.below ? `\n${node.below}` : ""}`),
    s("rect", { width: node.width, height: HEIGHT, rx: kind === "call" ? 7 : HEIGHT / 2 }),
    s("text", { x: node.width / 2, y: node.below ? 16 : 23, class: "name" }, title),
    node.below && s("text", { x: node.width / 2, y: 30, class: "below" }, node.below),
  );
  const light = (on) => () => {
    for (const each of edges.querySelectorAll(`[data-from="${node.index}"],[data-to="${node.index}"]`)) each.classList.toggle("lit", on);
  };
  group.addEventListener("mouseenter", light(true));
  group.addEventListener("mouseleave", light(false));
  group.addEventListener("click", () => onPick(node));
  return group;
}

// Code: Python and other text, shown with its words told apart; differences between two texts.

const KEYWORDS = new Set(
  ("False None True and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda match nonlocal not or pass raise return self try while with yield").split(" "),
);
const TOKEN = /(#.*)|([rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|(\b\d[\w.]*)|([A-Za-z_]\w*)(?=(\s*\()?)|(@\w+)/g;

// Lines of Python as lists of texts and elements. Strings of several lines are followed.
function pythonLines(lines) {
  let inside = null;
  return lines.map((line) => {
    const out = [];
    let at = 0;
    if (inside) {
      const end = line.indexOf(inside);
      if (end < 0) return [h("i", { class: "k-str" }, line)];
      out.push(h("i", { class: "k-str" }, line.slice(0, end + 3)));
      at = end + 3;
      inside = null;
    }
    const open = /(?:"""|''')/g;
    open.lastIndex = at;
    const found = open.exec(line);
    if (found && line.indexOf("#", at) !== -1 && line.indexOf("#", at) < found.index) return [...out, ...tokens(line.slice(at))];
    if (found) {
      const end = line.indexOf(found[0], found.index + 3);
      out.push(...tokens(line.slice(at, found.index)));
      out.push(h("i", { class: "k-str" }, end < 0 ? line.slice(found.index) : line.slice(found.index, end + 3)));
      if (end < 0) inside = found[0];
      else out.push(...tokens(line.slice(end + 3)));
      return out;
    }
    return [...out, ...tokens(line.slice(at))];
  });
}

function tokens(line) {
  const out = [];
  let last = 0;
  for (const found of line.matchAll(TOKEN)) {
    const kind = found[1] ? "k-com" : found[2] ? "k-str" : found[3] ? "k-num" : found[6] ? "k-dec" : null;
    const named = found[4] && (KEYWORDS.has(found[4]) ? "k-key" : found[5] !== undefined ? "k-call" : null);
    if (!kind && !named) continue;
    out.push(line.slice(last, found.index), h("i", { class: kind || named }, found[0]));
    last = found.index + found[0].length;
  }
  out.push(line.slice(last));
  return out;
}

// A text in a frame, with a button that copies it.
function codeBlock(content, { python = true, label = "Code" } = {}) {
  const lines = content.replace(/^\n+|\s+$/g, "").split("\n");
  const shown = python && lines.length < 3000 ? pythonLines(lines) : lines.map((line) => [line]);
  const pre = h("pre", { class: "code", tabindex: "0", "aria-label": label });
  shown.forEach((line, index) => pre.append(...line, index < shown.length - 1 ? "\n" : ""));
  return h("div", { class: "codebox" }, copyButton(() => lines.join("\n")), pre);
}

function copyButton(content) {
  const button = h("button", { class: "copy", type: "button", title: "Copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(content());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed here";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

// What differs between two lists of lines: ["=" | "-" | "+", line], by the longest common part.
function difference(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const a = before.slice(start, before.length - end);
  const b = after.slice(start, after.length - end);
  const same = (line) => ["=", line];
  return [...before.slice(0, start).map(same), ...middle(a, b), ...before.slice(before.length - end).map(same)];
}

const LARGEST = 1500000;

function middle(a, b) {
  if (a.length * b.length > LARGEST) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const out = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push(["=", a[i]]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      out.push(["-", a[i]]);
      i += 1;
    } else {
      out.push(["+", b[j]]);
      j += 1;
    }
  }
  return out;
}

// A difference as lines; what is the same is left out, but for a few lines around.
function differenceBlock(rows, around = 2) {
  const near = new Set();
  rows.forEach(([mark], index) => {
    if (mark !== "=") for (let i = index - around; i <= index + around; i += 1) near.add(i);
  });
  const box = h("div", { class: "diff", tabindex: "0", role: "group", "aria-label": "What differs" });
  let hidden = 0;
  const flush = () => {
    if (hidden) box.append(h("div", { class: "same-many" }, `${many(hidden, "line")} alike`));
    hidden = 0;
  };
  rows.forEach(([mark, line], index) => {
    if (!near.has(index)) {
      hidden += 1;
      return;
    }
    flush();
    const kind = { "=": "same", "-": "gone", "+": "new" }[mark];
    const spoken = { "=": "", "-": "before: ", "+": "now: " }[mark];
    box.append(h("div", { class: kind }, h("b", { "aria-hidden": "true" }, mark === "=" ? " " : mark === "-" ? "−" : "+"), spoken && h("span", { class: "spoken" }, spoken), line));
  });
  flush();
  return box;
}

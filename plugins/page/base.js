"use strict";
const $ = id => document.getElementById(id);

// text only ever enters the page as text nodes
function el(tag, text, kind) {
  const e = document.createElement(tag);
  if (text != null) e.textContent = text;
  if (kind) e.className = kind;
  return e;
}

// columns: [name, kind]; a cell is text, an element, or [either, kind]
function table(columns, rows, empty) {
  if (!rows.length) return el("div", empty, "empty");
  const t = el("table"), head = t.createTHead().insertRow(), body = t.createTBody(), whole = el("div", null, "scroll");
  columns.forEach(([name, kind]) => {
    const th = el("th", name, kind);
    th.scope = "col";
    head.append(th);
  });
  rows.forEach(cells => {
    const tr = body.insertRow();
    cells.forEach((cell, i) => {
      const [inner, kind] = Array.isArray(cell) ? cell : [cell];
      const td = el("td", inner?.append ? null : inner, [columns[i][1], kind].filter(Boolean).join(" "));
      if (inner?.append) td.append(inner);
      tr.append(td);
    });
  });
  whole.append(t);
  return whole;
}

const num = n => n == null ? "–" : n.toLocaleString("en");
const ms = n => n == null ? "–" : n < 10000 ? `${Math.round(n)} ms` : n < 600000 ? `${Math.round(n / 1000)} s` : `${Math.round(n / 60000)} min`;
const fine = n => n < 10 ? `${n.toFixed(1)} ms` : ms(n);
const span = s => s < 90 ? `${Math.round(s)} s` : s < 5400 ? `${Math.round(s / 60)} min` : `${(s / 3600).toFixed(1)} h`;
const ago = s => `${span(s)} ago`;
const size = n => n == null ? "–" : n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)} kB` : n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(1)} GB`;
const instant = us => us == null ? "the first event" : new Date(us / 1000).toISOString().replace("T", " ").replace(/(:00)?\.000Z$/, "").replace(/Z$/, "");
const words = r => Object.entries(r).map(([k, v]) => `${k} ${k.includes("bytes") && typeof v === "number" ? size(v) : v}`).join(", ");
const why = error => error ? [error.what, error.where && `(${error.where})`, error.expected && `Expected: ${error.expected}.`, error.next_step].filter(Boolean).join(". ").replace(/\. \(/g, " (") : "";

// Raises an Error in words; the document that says the error is in `document`.
async function read(address, options) {
  const answer = await fetch(address, { cache: "no-store", ...options });
  let document;
  try { document = await answer.json(); } catch { document = {}; }
  if (answer.ok) return document;
  const refused = answer.status === 401 || answer.status === 403;
  const text = why(document.error) || (refused ? "Airflow gives you no right to this" : typeof document.detail === "string" ? document.detail : `status ${answer.status}`);
  throw Object.assign(new Error(text), { document });
}

// A link into Airflow's own pages. They are around this one, in whose frame they would be shown else.
function outside(address, text) {
  const a = el("a", text);
  a.href = address;
  a.addEventListener("click", event => {
    if (window.parent === window) return;
    event.preventDefault();
    const around = window.parent.document.createElement("a");
    around.href = a.href;
    around.click();
  });
  return a;
}

// A link leads to where docs/ are shown; what is none stays text.
function link(address) {
  if (!/^https?:\/\//.test(address)) return el("code", address);
  const a = el("a", "runbook");
  a.href = address;
  return a;
}

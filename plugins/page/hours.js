"use strict";
// in the order in which they go before each other; a sign stands beside each colour
const STATES = { running: "▶", failed: "✕", dirty: "◆", open: "○", compacted: "■", none: "·" };
const DAG = "compact_slices", AIRFLOW = "../api/v2/dags/" + DAG;
let calendar = null, runs = {}, mayCompact = false, current = null;

const key = hour => `${hour}:00:00`;
const later = (hour, n) => new Date(Date.parse(`${hour}:00:00Z`) + n * 3600e3).toISOString().slice(0, 13);

// The state of an hour, of one view or of all. A run of Airflow's tells what the store cannot: that one is under way, or that the last one failed.
function stateOf(hour) {
  const views = calendar.views.filter(v => !$("of").value || v.view === $("of").value);
  const states = views.map(v => v.hours[hour]).filter(Boolean), run = runs[key(hour)];
  if (run && run !== "failed") return "running";
  if (run === "failed" && states.some(s => s !== "compacted")) return "failed";
  return Object.keys(STATES).find(state => states.includes(state)) || "none";
}

const called = state => state === "none" ? "no events" : state === "failed" ? "failed: its last compaction" : state === "running" ? "being compacted" : state;

function cell(hour) {
  const state = stateOf(hour), button = el("button", STATES[state], `cell ${state}`);
  button.setAttribute("type", "button");
  button.setAttribute("aria-label", `${hour.replace("T", " ")}:00 UTC, ${called(state)}`);
  button.setAttribute("aria-pressed", String(hour === current));
  button.setAttribute("data-hour", hour);
  button.setAttribute("tabindex", "-1");
  button.title = `${hour.replace("T", " ")}:00, ${called(state)}`;
  button.addEventListener("click", () => choose(hour));
  return button;
}

function choose(hour) {
  current = hour;
  showHours();
  $("hour").replaceChildren(form(hour));
  $("hour").scrollIntoView?.({ block: "nearest" });
}

function showHours() {
  const focused = document.activeElement?.getAttribute?.("data-hour");
  const t = el("table", null, "days"), head = t.createTHead().insertRow(), body = t.createTBody(), whole = el("div", null, "scroll");
  head.append(el("td"), ...Array.from({ length: 24 }, (_, n) => Object.assign(el("th", String(n).padStart(2, "0")), { scope: "col" })));
  const last = new Date(calendar.now_us / 1000).toISOString().slice(0, 13), cells = [];
  for (let day = 0; day < calendar.days; day++) {
    const row = body.insertRow(), first = later(calendar.first, day * 24);
    row.append(Object.assign(el("th", first.slice(0, 10)), { scope: "row" }));
    for (let n = 0; n < 24; n++) {
      const hour = later(first, n), td = el("td");
      if (hour <= last) { const button = cell(hour); cells.push(button); td.append(button); }
      row.append(td);
    }
  }
  t.setAttribute("aria-label", "Hours by day, in UTC");
  whole.append(t);
  $("hours").replaceChildren(whole);
  // one stop of the tabulator; the arrows go on from there
  const stop = cells.find(c => c.getAttribute("data-hour") === (focused || current)) || cells.at(-1);
  stop?.setAttribute("tabindex", "0");
  if (focused) stop?.focus();
}

function move(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -24, ArrowDown: 24 }[event.key], from = event.target?.getAttribute?.("data-hour");
  if (!step || !from) return;
  const to = document.querySelector(`[data-hour="${later(from, step)}"]`);
  event.preventDefault();
  if (!to) return;
  event.target.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}

function form(hour) {
  const panel = el("div", null, "panel"), by = {}, run = runs[key(hour)];
  calendar.views.forEach(v => (by[v.hours[hour] || "none"] ||= []).push(v.view));
  panel.append(
    el("h3", `${hour.replace("T", " ")}:00 UTC`),
    el("p", Object.entries(by).map(([state, views]) => `${called(state)}: ${views.join(", ")}`).join("; ") || "Nothing is deployed."));
  if (run) panel.append(el("p", run === "failed" ? "The last run for this hour failed." : `A run for this hour is ${run}.`, run === "failed" ? "bad" : "wait"));
  if (!mayCompact) panel.append(el("p", "Airflow gives you no right to start a run of compact_slices.", "soft"));
  else panel.append(trigger(hour));
  const more = el("p");
  more.append("Runs, logs, and a backfill over several hours: ", outside("../dags/" + DAG, "compact_slices in Airflow"));
  panel.append(more);
  return panel;
}

function box(text, ticked) {
  const label = el("label"), input = el("input");
  input.type = "checkbox";
  input.checked = ticked;
  label.append(input, ` ${text}`);
  return [label, input];
}

// Airflow itself starts the run, as the person who is signed in.
function trigger(hour) {
  const f = el("form"), [only, isOnly] = box("this hour alone", true), [raw, isRaw] = box("from raw events", false), button = el("button", "Compact this hour"), answer = el("span");
  answer.setAttribute("role", "status");
  f.append(el("span", `partition key ${key(hour)}`), only, raw, button, answer);
  f.addEventListener("submit", async event => {
    event.preventDefault();
    button.disabled = true;
    const body = { logical_date: null, partition_key: key(hour), conf: { only: isOnly.checked, from_raw: isRaw.checked } };
    try {
      const run = await read(`${AIRFLOW}/dagRuns`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      answer.replaceChildren(outside(`../dags/${DAG}/runs/${encodeURIComponent(run.dag_run_id)}`, `run ${run.dag_run_id} is ${run.state}`));
      await lookAtRuns();
    } catch (error) {
      button.disabled = false;
      answer.replaceChildren(el("span", `The run was not started: ${error.message}`, "bad"));
    }
  });
  return f;
}

async function lookAtRuns() {
  try {
    // of each hour the newest run: one that was well says that an older one that failed is over
    const pages = await Promise.all([0, 100].map(offset => read(`${AIRFLOW}/dagRuns?limit=100&offset=${offset}&order_by=-id`)));
    const newest = {};
    pages.flatMap(page => page.dag_runs).forEach(run => { if (run.partition_key) newest[run.partition_key] ??= run.state; });
    runs = Object.fromEntries(Object.entries(newest).filter(([, state]) => state !== "success"));
  } catch { runs = {}; }  // who may not see runs sees what the store says
  if (calendar) showHours();
}

async function lookAtHours() {
  let found;
  try {
    found = await read("hours.json");
  } catch (error) {
    $("hours").replaceChildren(el("div", error.message, "empty bad"));
    return;
  }
  if (!found.views.length) {
    $("hours").replaceChildren(el("div", "No view that is stored by hours is deployed.", "empty"));
    return;
  }
  calendar = found;
  lake = Object.fromEntries(found.views.map(v => [v.view, v.bytes]));
  const before = $("of").value, option = (text, value) => Object.assign(el("option", text), { value });
  $("of").replaceChildren(option("all views", ""), ...found.views.map(v => option(v.view, v.view)));
  $("of").value = found.views.some(v => v.view === before) ? before : "";
  $("legend").replaceChildren(...Object.entries(STATES).map(([state, sign]) => el("span", `${sign} ${called(state)}`)));
  if (status_) showViews(status_);
  await lookAtRuns();
}

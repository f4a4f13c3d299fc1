"use strict";
const RESULTS = { red: "red: values differ", not_made: "could not be made" };
const SEVERITIES = { critical: "bad", warning: "wait", info: "soft" };
// of other documents, for the table of views: view -> its keys and bytes online; view -> bytes in the lake
let online = {}, lake = {}, status_ = null;

function inbox(incidents, now) {
  const rows = incidents.map(i => {
    const open = !i.over_us, says = el("div"), what = el("div");
    says.append(el("div", i.error));
    if (i.attempts) says.append(el("div", `Tried: ${i.attempts}`, "soft"));
    if (i.undelivered && open) says.append(el("div", `Nobody was paged: ${i.undelivered}`, "bad"));
    if (i.next_step && open) says.append(el("div", `Next: ${i.next_step}`));
    what.append(el("div", i.event), el("div", i.task ? `${i.dag}.${i.task}` : i.dag, "soft"));
    const state = open ? `open for ${span((now - i.opened_us) / 1e6)}` : `over after ${span((i.over_us - i.opened_us) / 1e6)}`;
    return [[open ? i.severity : "over", open ? SEVERITIES[i.severity] : "good"], what, says, `${state}, ${ago((now - i.opened_us) / 1e6)}`, num(i.times), num(i.pages), i.owner, link(i.runbook)];
  });
  return table([["severity"], ["alert"], ["says"], ["since"], ["met", "n"], ["paged", "n"], ["owner"], ["what to do"]], rows, "No alert in the last seven days.");
}

function headline(s) {
  const h = s.health, ill = (s.findings || []).filter(f => f.now);
  if (s.findings && !ill.length && h.well && !h.stopped) return [el("strong", "All is well.", "good")];
  const [text, kind] = h.stopped ? ["The stream is stopped on purpose.", "wait"] : h.well ? ["The stream is well.", "good"]
    : h.reasons.length ? ["The stream is not well: " + h.reasons.join("; "), "bad"] : ["The stream is starting.", "wait"];
  return [
    el("strong", text, kind),
    h.starting?.length || h.warming?.length ? el("p", "Starting: " + [...(h.starting || []), ...(h.warming || [])].join("; "), "wait") : "",
    h.aging?.length ? el("p", "Answers are right, and older than they might be: " + h.aging.join("; "), "wait") : ""
  ];
}

function showViews(s) {
  const bytes = v => v.view in online ? `about ${size(online[v.view].bytes)}` : "–";
  $("views").replaceChildren(table(
    [["view"], ["stored as"], ["state"], ["hours compacted", "n"], ["newest hour", "t"], ["online", "n"], ["lake", "n"]],
    s.views.map(v => [v.view, v.units.join(", "), v.ready ? ["ready", "good"] : [`building, ${Math.floor(v.built * 100)} %${v.waits ? `: ${v.waits}` : ""}`, "wait"],
      num(v.hours), v.newest_hour || "–", bytes(v), size(lake[v.view])]),
    "Nothing is deployed. Run slicewise apply in your project."));
}

function show(s) {
  status_ = s;
  $("alerts").replaceChildren(inbox(s.incidents || [], s.now_us));
  $("said").replaceChildren(...headline(s));
  const found = s.findings || [];
  const list = (title, some, kind) => !some.length ? [] : [el("h2", title), table([["what"], ["says"], ["where to look"]], some.map(f => [[f.part, kind], f.text, f.look]), "")];
  $("found").replaceChildren(...list("Not well now", found.filter(f => f.now), "bad"), ...list("Of the last day, accepted, or starting", found.filter(f => !f.now), "wait"));
  $("streams").replaceChildren(table([["source"], ["state"], ["lag", "n"], ["events/s", "n"], ["freshness p50", "n"], ["p99", "n"], ["heartbeat", "n"]],
    [...s.streams, ...(s.tails || []).map(x => ({ ...x, source: x.source + ", real-time" }))].map(x => [x.source, [x.state, x.state === "running" ? "good" : x.state === "stopped" ? "wait" : "bad"],
      num(x.lag_events), num(Math.round(x.events_per_s)), ms(x.freshness_p50_ms), ms(x.freshness_p99_ms), ago(x.heartbeat_age_s)]),
    "No driver has written a status yet. Unpause the DAG ingest_stream to start one."));
  const p = s.probes;
  $("probes").textContent = !p ? "" : p.minute_p50_ms == null ? `Probes: none was in an answer for a minute, ${num(p.lost)} lost.`
    : `Probes, from the log to an answer, in the last minute: p50 ${fine(p.minute_p50_ms)}, p99 ${fine(p.minute_p99_ms)}; ${num(p.lost)} lost in five minutes.`;
  showViews(s);
  $("jobs").replaceChildren(table([["job"], ["result"], ["when", "t"], ["report"]],
    s.jobs.map(j => [j.job, j.ok ? ["well", "good"] : [RESULTS[j.report.result] || "failed", j.report.result === "not_made" ? "wait" : "bad"],
      `${ago(j.age_s)}, ${instant(Math.floor(s.now_us / 1e6 - j.age_s) * 1e6)}`, words(j.report)]),
    "No job has run yet. Compaction runs every hour; its history can be run from its DAG's Backfill button."));
  $("foot").textContent = `deployment version ${s.epoch ?? "–"}, store id ${s.generation ?? "–"}; as of ${new Date(s.now_us / 1000).toISOString()} by the store's clock; predictions at ${s.serving_url}`;
}

async function look() {
  try {
    show(await read("status.json"));
  } catch (error) {
    if (error.document?.incidents) $("alerts").replaceChildren(inbox(error.document.incidents, error.document.now_us));
    $("said").replaceChildren(el("strong", `The status cannot be read: ${error.message}`, "bad"));
  }
}

async function lookAtSizes() {
  try {
    const found = await read("sizes.json");
    online = found.views;
    $("nodes").textContent = found.nodes.map((n, i) => n == null ? `Store node ${i + 1} is away.`
      : `Store node ${i + 1}: ${size(n.used_bytes)}${n.limit_bytes ? ` of ${size(n.limit_bytes)}` : ""}, ${num(n.keys)} keys, ${num(n.evicted_keys)} evicted.`).join(" ")
      + (found.swept_us ? ` Views are as large as the sweep of ${ago((found.now_us - found.swept_us) / 1e6)} estimated.` : " The next sweep estimates how large views are.");
    if (status_) showViews(status_);
  } catch (error) { $("nodes").textContent = `The store's sizes cannot be read: ${error.message}`; }
}

"use strict";
const SEEN = { lifetime_total: "lifetime total", five_day_total: "five-day total", day_total: "day total", hour: "compacted hour", minutes: "minutes of a compacted hour",
  slices: "slices of a compacted hour", live: "live slices", pending: "pending events", events: "event list" };
let names = { views: [], feature_sets: [] }, inputs = {};

function chosen() {
  const [kind, name] = $("what").value.split(":");
  return (kind === "set" ? names.feature_sets : names.views).find(one => one.name === name);
}

// columns of the entity, and those whose values it may have had: a feature that is asked by one answers whether it had
function askFor(entity, further = {}) {
  inputs = {};
  const columns = [...Object.entries(entity), ...Object.entries(further).map(([column, of]) => [column, of.kind])];
  $("columns").replaceChildren(...columns.map(([column, kind]) => {
    const label = el("label", column in further ? `has it had this ${column}? ` : `${column} `), input = el("input");
    input.setAttribute("autocomplete", "off");
    input.name = column;
    if (kind !== "string" || column in further) input.setAttribute("placeholder", column in further ? `${kind}, or nothing` : kind);
    inputs[column] = input;
    label.append(input);
    return label;
  }));
}

async function offer() {
  try {
    names = await read("features.json");
  } catch (error) {
    $("asked").replaceChildren(el("span", error.message, "bad"));
    return;
  }
  const option = kind => one => Object.assign(el("option", kind === "set" ? `${one.name} (feature set)` : one.name), { value: `${kind}:${one.name}` });
  $("what").replaceChildren(...names.views.map(option("view")), ...names.feature_sets.map(option("set")));
  const pick = () => { if (chosen()) askFor(chosen().entity, chosen().further); };
  $("what").addEventListener("change", pick);
  pick();
}

const offsets = by => Object.entries(by).flatMap(([topic, of]) => Object.entries(of).map(([p, at]) => `${topic.slice(0, 8)}/${p}: ${Array.isArray(at) ? at.join("–") : at}`)).join(", ") || "none";
const counted = (n, word) => `${num(n)} ${word}${n === 1 ? "" : "s"}`;

function summary(view, window) {
  const parts = window.segments.filter(s => s.state !== "empty"), late = parts.filter(s => s.late);
  const pending = parts.filter(s => s.where === "pending").reduce((sum, s) => sum + s.events, 0);
  const left = Object.values(window.left_out).reduce((sum, n) => sum + n, 0);
  return [
    `Made of ${counted(parts.length, "part")} that the store has something in.`,
    late.length ? `${counted(late.length, "part")} came late, after the hour was compacted.` : "Nothing came late.",
    pending ? `${counted(pending, "event")} of the real-time lane ${pending === 1 ? "is" : "are"} not applied yet.` : "No pending events.",
    left ? `${counted(left, "further part")} left out: ${words(window.left_out)}.` : ""
  ].filter(Boolean).join(" ");
}

function explanation(view, feature) {
  const window = view.windows[feature.window], parts = window.segments.filter(s => s.state !== "empty"), panel = el("div", null, "panel");
  const versions = Object.entries(view.archive_versions).filter(([v]) => parts.some(s => s.archive_versions.includes(Number(v))));
  panel.append(
    el("h3", `${feature.feature} = ${feature.value}`),
    el("p", `Window ${instant(window.start_us)} to ${instant(window.end_us)} UTC, cut to ${window.resolution}. Source ${view.source}, ${view.stored === "slices" ? `slices of ${view.slice}` : "an event list"}.`),
    el("p", summary(view, window)),
    table([["from", "t"], ["to", "t"], ["where"], ["state"], ["rows", "n"], ["archive version"], ["offsets"]],
      parts.map(s => [instant(s.start_us), instant(s.end_us), SEEN[s.where] || s.where, [s.late ? "late" : s.state, s.late ? "wait" : s.state === "counted" ? "good" : "soft"],
        num(s.events ?? s.slices), s.archive_versions.length > 3 ? `${s.archive_versions[0]}–${s.archive_versions.at(-1)}` : s.archive_versions.join(", "), Object.keys(s.offsets).length ? offsets(s.offsets) : ""]),
      "The store has nothing in this window."),
    el("h3", "Offsets"),
    table([["what"], ["topic/partition: first offset that is not in it"]],
      [["contained in the answer", offsets(view.contained)], ["committed by the stream", offsets(view.committed)], ["applied to this entity", offsets(view.applied)], ["start of the view", offsets(view.start)],
        ...versions.map(([v, content]) => [`archive version ${v}`, offsets(content.offsets)])], ""));
  const token = el("p", "Token ");
  token.append(el("code", view.token));
  panel.append(token);
  return panel;
}

function showValues(found) {
  const rows = found.views.flatMap(view => view.features.map(feature => {
    const button = el("button", feature.feature, "plain"), window = view.windows[feature.window];
    button.setAttribute("type", "button");
    button.setAttribute("aria-label", `explain ${feature.feature}`);
    button.addEventListener("click", () => {
      $("why").replaceChildren(explanation(view, feature));
      $("why").focus();
      $("why").scrollIntoView?.({ block: "nearest" });
    });
    return [button, feature.value, [instant(window.start_us), "t"], [instant(window.end_us), "t"]];
  }));
  const notes = [found.flags.length ? `flags: ${found.flags.join(", ")}` : "", found.no_data.length ? `nothing of this entity in ${found.no_data.join(", ")}` : ""].filter(Boolean).join("; ");
  $("asked").replaceChildren(el("span", `${instant(found.t_us)} UTC${notes ? `; ${notes}` : ""}. A name explains its value.`, "soft"));
  $("values").replaceChildren(table([["feature"], ["value"], ["from"], ["to"]], rows, "No feature can be read this way."));
}

async function ask() {
  const what = chosen(), [kind] = $("what").value.split(":");
  if (!what) return;
  $("why").replaceChildren();
  $("asked").replaceChildren(el("span", "Reading…", "soft"));
  // a further column that is left empty is not asked by
  const further = Object.entries(what.further || {}).filter(([column]) => inputs[column].value !== ""), used = further.map(([column]) => column);
  const entity = Object.entries(inputs).filter(([column]) => column in what.entity || used.includes(column)).map(([column, input]) => [column, input.value]);
  const kinds = { ...what.entity, ...Object.fromEntries(further.map(([column, of]) => [column, of.kind])) };
  const body = { entity: Object.fromEntries(entity), kinds, at: $("at").value.trim(),
    ...(kind === "set" ? { feature_set: what.name } : { features: [...what.features, ...further.flatMap(([, of]) => of.features)] }) };
  try {
    showValues(await read("explain.json", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
  } catch (error) {
    $("values").replaceChildren();
    $("asked").replaceChildren(el("span", error.message, "bad"));
  }
}

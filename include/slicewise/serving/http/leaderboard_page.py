"""The page of a leaderboard shows its rows as they stand, asked anew every period; nothing comes
from elsewhere."""

from __future__ import annotations

import json
from html import escape

from slicewise.features.plan.deployment import PlannedLeaderboard
from slicewise.windows.durations import format_duration

SOONEST_MS, LATEST_MS = 250, 5_000
_STYLE = (
    "body{font:18px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:44rem;padding:0 "
    "1rem;color:#222}"
    "h1{font-size:1.6rem;margin-bottom:.2rem}table{border-collapse:collapse;width:100%;margin-top:1rem}"
    "td,th{text-align:left;padding:.35rem .8rem .35rem 0;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{width:2.5rem;color:#666}td.value,th.value{text-align:right;width:7rem;"
    "font-variant-numeric:tabular-nums}td.bar{width:35%}td.bar "
    "div{height:.8rem;background:#2f6f9f;border-radius:2px}"
    ".quiet{color:#666;font-size:.9rem}.flag{color:#a33}"
)
# Values stand in the page as text nodes only: a song's name is no markup.
_SCRIPT = """
const leaderboard = LEADERBOARD, rows = document.querySelector('tbody'), said = document.querySelector('#said')
const cell = (text, kind) => { const td = document.createElement('td'); td.textContent = text
  if (kind) td.className = kind; return td }
function show (answer) {
  const most = Math.max(...answer.rows.map(row => Math.abs(row.value)), 0)
  rows.replaceChildren(...answer.rows.map(row => {
    const tr = document.createElement('tr'), bar = cell('', 'bar'), fill = document.createElement('div')
    fill.style.width = (most > 0 ? 100 * Math.abs(row.value) / most : 0) + '%'
    bar.append(fill)
    tr.append(cell(row.rank), cell(Object.values(row.entity).join(' \\u00b7 ')), bar, cell(row.value, 'value'))
    return tr
  }))
  const names = answer.rows.length ? Object.keys(answer.rows[0].entity) : []
  if (names.length) document.querySelector('#who').textContent = names.join(' \\u00b7 ')
  const age = answer.end === null ? null : (Date.parse(answer.now) - Date.parse(answer.end)) / 1000
  said.textContent = age === null ? 'no leaderboard yet' : `window until ${answer.end}, ${age.toFixed(1)} s ago`
  said.classList.toggle('flag', answer.flags.length > 0)
  if (answer.flags.length) said.textContent += ` (${answer.flags.join(', ')})`
}
async function ask () {
  try {
    const reply = await fetch(leaderboard.url, { headers: { accept: 'application/json' } })
    if (!reply.ok) throw new Error(`status ${reply.status}`)
    show(await reply.json())
  } catch (error) {
    said.textContent = `the platform does not answer: ${error.message}`
    said.classList.add('flag')
  }
  setTimeout(ask, leaderboard.every)
}
ask()
"""


def html(leaderboard: PlannedLeaderboard) -> bytes:
    """The page."""
    name, every = escape(leaderboard.name), format_duration(leaderboard.every_us)
    wait = max(SOONEST_MS, min(LATEST_MS, leaderboard.every_us // 1_000))
    parameters = json.dumps({"url": f"/v1/leaderboards/{leaderboard.name}", "every": wait})
    return (
        "<!doctype html><html lang=en><meta "
        f"charset=utf-8><title>{name}</title><style>{_STYLE}</style>"
        f"<h1>{name}</h1><p class=quiet>the {leaderboard.k} with the highest "
        f"<code>{escape(leaderboard.ref)}</code>, "
        f"every {every} · <span id=said>…</span></p>"
        "<table><thead><tr><th>#<th id=who><th><th class=value>"
        f"{escape(leaderboard.column)}</thead><tbody></tbody></table>"
        f'<p class=quiet><a href="/v1/leaderboards/{name}">JSON</a> · <a href="/">features</a></p>'
        f"<script>{_SCRIPT.replace('LEADERBOARD', parameters, 1)}</script></html>"
    ).encode()

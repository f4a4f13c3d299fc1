"use strict";
// hidden where none is deployed, and where they cannot be read: the headline says why
async function lookAtLeaderboards() {
  let found;
  try { found = (await read("leaderboards.json")).leaderboards; } catch { found = []; }
  $("ranks").hidden = !found.length;
  $("leaderboards").replaceChildren(...found.flatMap(board => {
    const most = Math.max(...board.rows.map(row => Math.abs(Number(row.value))), 0);
    const rows = board.rows.map(row => {
      const bar = el("div");
      bar.style.width = `${most > 0 ? 100 * Math.abs(Number(row.value)) / most : 0}%`;
      return [num(row.rank), row.entity.join(" · "), [bar, "rank"], row.value];
    });
    const age = board.age_us == null ? "" : `, its window ended ${span(board.age_us / 1e6)} ago`, flags = board.flags.length ? ` (${board.flags.join(", ")})` : "";
    return [el("p", `${board.name}: the first ${num(rows.length)} by ${board.feature}${age}${flags}`), table([["#", "n"], ["who"], [""], ["value", "n"]], rows, "No rows yet.")];
  }));
}

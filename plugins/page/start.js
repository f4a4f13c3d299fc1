"use strict";
async function start() {
  let rights = { read: false, compact: false };
  try { rights = await read("rights.json"); } catch { }  // then the page offers nothing
  mayCompact = rights.compact;
  $("explain").hidden = !rights.read;
  $("ask").addEventListener("submit", event => { event.preventDefault(); ask(); });
  $("of").addEventListener("change", () => { if (calendar) showHours(); });
  $("hours").addEventListener("keydown", move);
  if (rights.read) offer();
  lookAtHours();
  lookAtSizes();
  setInterval(lookAtHours, 60000);
  setInterval(lookAtSizes, 60000);
  setInterval(lookAtRuns, 15000);
  if (rights.read) { lookAtLeaderboards(); setInterval(lookAtLeaderboards, 5000); }
}
look();
setInterval(look, 5000);
start();

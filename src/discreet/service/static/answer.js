// Shows an answer when it is there. Without this script the link "Look again" does the same.
"use strict";
const again = document.getElementById("again");
async function look() {
  try {
    const said = await fetch(again.dataset.twin, { credentials: "same-origin" });
    const { state } = (await said.json()).result;
    if (state !== "running" && state !== "waiting") again.click();
  } catch (error) {
    // the line is down: it looks again later
  }
}
if (again) setInterval(look, 1000 * again.dataset.seconds);

// Checks a policy while it is typed. Without this script the button "Check" does the same.
"use strict";
const form = document.getElementById("check");
const verdict = document.getElementById("checked");
let waiting = 0;
let latest = 0;
async function check() {
  const mine = ++latest;
  const body = new URLSearchParams(new FormData(form));
  try {
    const answer = await fetch("/owner/checked", { method: "POST", body, credentials: "same-origin" });
    const text = await answer.text();
    if (mine === latest && answer.ok) verdict.innerHTML = text;
  } catch (error) {
    // the line is down: the last verdict stays
  }
}
if (form && verdict) {
  form.querySelector("textarea").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(check, 400);
  });
}

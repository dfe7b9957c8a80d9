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

// Fills in columns from a file with a name and a type on each line, as CREATE TABLE has them.
// A file with anything else in it may hold values: nothing of it is taken.
const upload = document.getElementById("schema");
if (upload) {
  upload.parentElement.hidden = false;
  upload.addEventListener("change", async () => {
    const file = upload.files[0];
    if (!file) return;
    const text = await file.slice(0, 65536).text();
    const around = /^(create\s+table\b.*\(?|\(|\);?)$/i;
    const lines = text.split(/\r?\n/).map((line) => line.trim().replace(/,$/, ""));
    const columns = lines.filter((line) => line && !around.test(line));
    const plain = columns.length && columns.every((line) => /^[A-Za-z_]\w*\s+[A-Za-z][\w(), ]*$/.test(line));
    upload.setCustomValidity(plain ? "" : "This file has more in it than names and types.");
    upload.reportValidity();
    if (!plain) return;
    document.getElementById("columns").value = columns.join("\n");
    const name = document.getElementById("name");
    if (!name.value) name.value = file.name.replace(/\.[^.]*$/, "");
  });
}

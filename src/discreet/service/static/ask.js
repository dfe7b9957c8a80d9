// Prices while typing. Without this script the button "Price" does the same.
"use strict";
const form = document.getElementById("ask");
const price = document.getElementById("price");
let waiting = 0;
let latest = 0;
async function show() {
  const mine = ++latest;
  const body = new URLSearchParams(new FormData(form));
  body.set("action", "price");
  try {
    const answer = await fetch("/ask/price", { method: "POST", body, credentials: "same-origin" });
    const text = await answer.text();
    if (mine === latest && answer.ok) price.innerHTML = text;
  } catch (error) {
    // the line is down: the last price stays
  }
}
if (form && price) {
  for (const name of ["sql", "epsilon", "delta", "column", "margin", "pay"]) {
    for (const field of form.querySelectorAll(`[name=${name}]`)) {
      field.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(show, 300);
      });
    }
  }
  const table = form.querySelector("[name=table]");
  const columns = JSON.parse(form.querySelector("[name=of]").dataset.columns);
  table.addEventListener("change", () => {
    // the first choice of each stays: rows, or all together
    for (const name of ["of", "by"]) {
      const choices = form.querySelector(`[name=${name}]`);
      choices.length = 1;
      for (const column of columns[table.value]) choices.add(new Option(column));
    }
  });
  const statistic = form.querySelector("[name=statistic]");
  const rows = form.querySelector("[name=of] option[value='']");
  const offer = () => {
    // only a count is of rows
    rows.disabled = statistic.value !== "count";
  };
  statistic.addEventListener("change", offer);
  offer();
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) form.querySelector("button.main").click();
  });
}

"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const start = $("page").dataset;
  const removed = start.relation === "add-remove";

  // Ceilings are shown rounded up and floors rounded down: never a stronger promise than proved.
  const round = (x, places, side) => {
    const scale = 10 ** places;
    const exact = Number((x * scale).toPrecision(12));
    const whole = { up: Math.ceil, down: Math.floor, near: Math.round }[side](exact);
    return String(Number((whole / scale).toPrecision(12)));
  };
  const digits = (x, side = "near") => {
    if (!Number.isFinite(x)) return "∞";
    if (x >= 1e6) return x.toExponential(2);
    return round(x, 2 - Math.floor(Math.log10(x)), side);
  };
  const percent = (p, side = "near") => {
    if (p >= 1) return "100\u00a0%";
    const distance = p < 0.99 ? 100 * p : 100 * (1 - p);
    return round(100 * p, (p < 0.99 ? 2 : 1) - Math.floor(Math.log10(distance)), side) + "\u00a0%";
  };
  const odds = (x, side = "near") => {
    if (Math.abs(x - 1) < 1e-9) return "even";
    const other = { up: "down", down: "up", near: "near" }[side];
    return x > 1 ? digits(x, side) + " to 1" : "1 to " + digits(1 / x, other);
  };

  const shift = (p, factor) => (p * factor) / (1 - p + p * factor);
  // best true-positive rate of any attack at a false-positive rate, for a pure ε
  const best = (rate, e) => Math.min(Math.exp(e) * rate, 1 - Math.exp(-e) * (1 - rate), 1);

  const draw = (prior, factor) => {
    const left = 56, top = 14, width = 560, height = 330;
    const x = (p) => (left + p * width).toFixed(2);
    const y = (p) => (top + (1 - p) * height).toFixed(2);
    const steps = Array.from({ length: 201 }, (_, i) => i / 200);
    const path = (f, points = steps) => points.map((p) => `${x(p)},${y(f(p))}`).join(" ");
    const up = path((p) => shift(p, factor));
    const down = path((p) => shift(p, 1 / factor));
    const back = path((p) => shift(p, 1 / factor), [...steps].reverse());
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((t) =>
      `<text x="${x(t)}" y="${top + height + 20}" text-anchor="middle">${100 * t} %</text>` +
      `<text x="${left - 8}" y="${Number(y(t)) + 4}" text-anchor="end">${100 * t} %</text>` +
      `<path class="axis" d="M${x(t)} ${top}V${top + height}M${left} ${y(t)}H${left + width}"/>`);
    $("chart").innerHTML =
      ticks.join("") +
      `<polygon class="shade" points="${up} ${back}"/>` +
      `<polyline class="diagonal" points="${x(0)},${y(0)} ${x(1)},${y(1)}"/>` +
      `<polyline class="edge" points="${up}"/><polyline class="edge" points="${down}"/>` +
      `<path class="span" d="M${x(prior)} ${y(shift(prior, 1 / factor))}V${y(shift(prior, factor))}"/>` +
      `<circle class="dot" cx="${x(prior)}" cy="${y(prior)}" r="5"/>` +
      `<text x="${left + width / 2}" y="${top + height + 42}" text-anchor="middle">belief without the data</text>`;
  };

  const show = (epsilon, prior, group) => {
    const e = epsilon * group;
    const factor = Math.exp(2 * e);
    const o = prior / (1 - prior);
    const whose = group === 1 ? "this person’s" : `these ${group} people’s`;
    const world = removed ? `had ${whose} data not been used` : `had ${whose} data been replaced by fixed others`;
    $("epsilon-text").textContent = digits(epsilon);
    $("prior-text").textContent = `${odds(o)} (${percent(prior)})`;
    $("group-text").textContent = group;
    $("sentence").textContent =
      `The odds of anything about them change by at most a factor ${digits(factor, "up")}. ` +
      `Suppose that, ${world}, someone who sees the release would give some fact about them odds of ` +
      `${odds(o)} (${percent(prior)}). With the data used, the same reader cannot come to more than ` +
      `${odds(o * factor, "up")} (${percent(shift(prior, factor), "up")}), nor to less than ` +
      `${odds(o / factor, "down")} (${percent(shift(prior, 1 / factor), "down")}).`;
    const rates = [(1 + Math.tanh(e / 2)) / 2, best(0.01, e), best(0.05, e), best(0.01, e), best(1 / 1024, e)];
    document.querySelectorAll("#attacks .number").forEach((cell, i) => {
      cell.textContent = percent(rates[i], "up");
    });
    draw(prior, factor);
  };

  const controls = ["epsilon", "prior", "group"].map($);
  const update = () => {
    const [epsilon, prior, group] = controls.map((input) => Number(input.value));
    show(10 ** epsilon, 1 / (1 + Math.exp(-prior)), group);
  };
  const given = [Number(start.epsilon), Number(start.prior), Number(start.group)];
  controls[0].value = Math.log10(given[0]);
  controls[1].value = Math.log(given[1] / (1 - given[1]));
  controls[2].value = given[2];
  controls.forEach((input) => input.addEventListener("input", update));
  $("controls").hidden = false;
  $("figure").hidden = false;
  show(...given);  // the exact numbers given, not the nearest slider steps
})();

// Rules that a page must keep for keyboards and screen readers; gives what breaks them.
() => {
  const found = [];
  const say = (rule, element) => found.push(`${rule}: ${element.outerHTML.slice(0, 90)}`);
  const text = (element) => (element ? element.textContent.trim() : "");
  const named = (e) =>
    e.getAttribute("aria-label") || (e.getAttribute("aria-labelledby") || "").split(" ")
      .map((id) => text(document.getElementById(id))).join("") ||
    (e.labels && [...e.labels].map(text).join("")) || (e.matches("button, a, summary") && text(e));
  if (!document.documentElement.lang) found.push("no language");
  if (!document.title.trim()) found.push("no title");
  if (document.querySelectorAll("main").length !== 1) found.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (!document.querySelector('a.skip[href="#main"]')) found.push("no way past the header");
  if (!/width=device-width/.test(document.querySelector("meta[name=viewport]")?.content)) found.push("zoom");
  if (document.querySelector("meta[http-equiv=refresh]")) found.push("it loads itself anew");
  const navs = [...document.querySelectorAll("nav")];
  if (navs.length > 1) navs.filter((n) => !named(n)).forEach((n) => say("nav without a name", n));
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) say("a heading skips a level", heading);
    if (!text(heading)) say("an empty heading", heading);
    level = own;
  }
  const controls = "input:not([type=hidden]), select, textarea, button, a[href], summary";
  for (const e of document.querySelectorAll(controls)) {
    if (!named(e)) say("no name", e);
    if (e.tabIndex > 0) say("an order of its own", e);
    const box = e.getBoundingClientRect();
    if (e.matches("button") && box.width && box.height < 24) say("too small to hit", e);
  }
  for (const e of document.querySelectorAll("svg[role=img], img"))
    if (!named(e) && !e.alt) say("a picture without words", e);
  for (const e of document.querySelectorAll("[role=region]")) if (!named(e)) say("no name", e);
  for (const e of document.querySelectorAll("th")) if (!e.scope) say("a header of nothing", e);
  for (const e of document.querySelectorAll("table"))
    if (!e.querySelector("th")) say("a table without headers", e);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => found.push(`id twice: ${id}`));
  for (const e of document.querySelectorAll("[aria-describedby]"))
    if (!document.getElementById(e.getAttribute("aria-describedby"))) say("described by nothing", e);
  for (const e of document.querySelectorAll("*")) {
    const scrolls = /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth;
    if (scrolls && e.tabIndex < 0) say("scrolls, but not by keyboard", e);
  }
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour.slice(0, 3);
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    const e = node.parentElement;
    if (!node.data.trim() || !e.getClientRects().length || e.matches("script, style, option")) continue;
    const style = getComputedStyle(e);
    const ink = numbers(e.closest("svg") ? style.fill : style.color).slice(0, 3);
    const [a, b] = [light(ink), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) say(`contrast ${contrast.toFixed(2)}`, e);
  }
  return found;
}

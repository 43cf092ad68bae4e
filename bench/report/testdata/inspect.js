// inspect returns what is wrong with the page, in words.
function inspect(width, scheme, media) {
  const wrong = [];
  const say = (what, element) => wrong.push(what + (element ? ": " + name(element) : ""));
  const name = (e) => (e.id || e.getAttribute("class") || e.tagName) + " " + (e.textContent || "").trim().slice(0, 60);

  if (media === "screen") document.querySelectorAll("details").forEach((d) => { d.open = true; });

  const root = document.scrollingElement;
  if (root.clientWidth !== width) say("the page is " + root.clientWidth + " px wide");
  if (root.scrollWidth > root.clientWidth) say("it overflows: " + root.scrollWidth + " px in " + root.clientWidth);

  for (const svg of document.querySelectorAll("svg[role=img]")) {
    if (!svg.querySelector(":scope > title")?.textContent || !svg.querySelector(":scope > desc")) say("an image without a title", svg);
    if (!svg.closest("figure")?.querySelector("table")) say("an image without a table", svg);
    overlaps(svg).forEach((pair) => say("texts overlap: " + pair));
  }
  for (const e of document.querySelectorAll("svg:not([role=img])")) if (!e.closest("svg[role=img]")) say("an image without a role", e);
  for (const th of document.querySelectorAll("th")) if (!th.scope) say("a head without a scope", th);
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption) say("a table without a caption", table);
    if (media === "print" && !table.checkVisibility() && !table.closest("figure:not(.wide)")) say("not printed", table);
  }
  for (const e of document.querySelectorAll(".scroll")) {
    if (e.tabIndex !== 0 || !e.getAttribute("aria-label")) say("a part that scrolls and cannot be focused", e);
  }
  for (const e of document.querySelectorAll("#verdict .scroll, pre")) if (e.scrollWidth > e.clientWidth) say("cut off", e);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) say("an id is used twice");
  for (const a of document.querySelectorAll('a[href^="#"]')) if (!document.getElementById(a.hash.slice(1))) say("a link to nowhere", a);

  const paper = luminance(background(document.body));
  if (media === "screen" && scheme === "dark" && paper > 0.1) say("not dark");
  if ((media === "print" || scheme === "light") && paper < 0.9) say("not light");
  for (const e of document.querySelectorAll("h1, h2, h3, p, li, a, th, td, td span, strong, span, figcaption, summary, dt, dd, caption, code, svg text")) {
    if (e.closest(".spoken, .skip") || !e.textContent.trim()) continue;
    const ink = e instanceof SVGElement ? getComputedStyle(e).fill : getComputedStyle(e).color;
    const ratio = contrast(luminance(parse(ink)), luminance(background(e)));
    if (ratio < 4.5) say("a contrast of " + ratio.toFixed(1), e);
  }
  return wrong;
}

// overlaps names the texts of an image that are written over each other.
function overlaps(svg) {
  const boxes = [...svg.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
  const out = [];
  boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
    const slack = 3; // a line's box is higher than its letters
    if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - slack && q.top < p.bottom - slack) out.push(a + " and " + b);
  }));
  return out;
}

// background is the colour that an element stands on.
function background(element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = parse(getComputedStyle(e).backgroundColor);
    if (colour[3] > 0) return colour;
  }
  return [255, 255, 255, 1];
}

function parse(colour) {
  const parts = (colour.match(/[\d.]+/g) || []).map(Number);
  return [parts[0] || 0, parts[1] || 0, parts[2] || 0, parts.length > 3 ? parts[3] : colour === "transparent" ? 0 : 1];
}

// luminance and contrast are those of WCAG 2.
function luminance([r, g, b]) {
  const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
}

function contrast(a, b) { return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }

// Replaces the figures by newer ones. The page works without.
"use strict";
const patience = 15000;
let timer;

// next looks again when the page says, if it does.
function next() {
  clearTimeout(timer);
  const after = document.body.dataset.next;
  if (after) timer = setTimeout(refresh, Number(after));
}

async function refresh() {
  const old = document.getElementById("live");
  if (document.hidden || old.contains(document.activeElement)) return next(); // nobody looks, or somebody is at it
  let answer;
  try {
    answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(patience) });
  } catch {
    old.classList.add("old");
    return next();
  }
  if (answer.type === "opaqueredirect") return location.reload(); // the session has ended
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  if (!fresh && answer.ok) return location.reload(); // another page is here now
  if (!fresh) return next();
  const open = [...old.querySelectorAll("details")].map((d) => d.open);
  fresh.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
  localise(page);
  old.replaceWith(fresh);
  document.querySelector("footer").replaceWith(page.querySelector("footer"));
  if (page.body.dataset.next) document.body.dataset.next = page.body.dataset.next;
  else delete document.body.dataset.next;
  next();
}

next();
document.addEventListener("visibilitychange", () => { if (document.body.dataset.next) refresh(); });

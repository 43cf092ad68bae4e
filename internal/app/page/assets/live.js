// Replaces the figures by newer ones. The page works without.
"use strict";
const every = 5000;

// localise says times of this page in the reader's zone too.
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  }
}

async function refresh() {
  const old = document.getElementById("live");
  if (document.hidden || old.contains(document.activeElement)) return; // nobody looks, or somebody is at it
  let answer;
  try {
    answer = await fetch(location.href, { redirect: "manual", signal: AbortSignal.timeout(every) });
  } catch {
    old.classList.add("old");
    return;
  }
  if (answer.type === "opaqueredirect") return location.reload(); // the session has ended
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  if (!fresh) return;
  const open = [...old.querySelectorAll("details")].map((d) => d.open);
  fresh.querySelectorAll("details").forEach((d, i) => { d.open = open[i] ?? false; });
  localise(fresh);
  old.replaceWith(fresh);
  document.querySelector("footer").replaceWith(page.querySelector("footer"));
}

localise(document);
setInterval(refresh, every);
document.addEventListener("visibilitychange", refresh);

// Writes times in the reader's zone. Without it they are in UTC.
"use strict";
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const reader = new Intl.DateTimeFormat("en-US", {
  year: "numeric", month: "short", day: "numeric", weekday: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
  hourCycle: "h23", timeZoneName: "shortOffset",
});

// parts are those of a time in the reader's zone, by how Go's layouts call them.
function parts(time) {
  const p = {};
  for (const { type, value } of reader.formatToParts(new Date(time))) p[type] = value;
  return {
    2006: p.year, Jan: p.month, 2: p.day, Mon: p.weekday, 15: p.hour, "04": p.minute, "05": p.second,
    MST: p.timeZoneName.replace("GMT", "UTC").replace(/\+0$/, ""),
  };
}

// written is a time by a layout, with its date where near has another one.
function written(time, layout, near) {
  const p = parts(time), n = near ? parts(near) : p;
  if (p[2006] !== n[2006]) layout = "Jan 2 2006 " + layout;
  else if (p.Jan !== n.Jan || p[2] !== n[2]) layout = "Jan 2 " + layout;
  return layout.replace(/2006|Jan|Mon|MST|15|04|05|2/g, (word) => p[word]);
}

// localise writes the times of a page in the reader's zone.
function localise(page) {
  if (!zone) return;
  for (const time of page.querySelectorAll("time[data-layout]")) {
    time.title = time.dateTime;
    time.textContent = written(time.dateTime, time.dataset.layout, time.dataset.near);
  }
  for (const name of page.querySelectorAll(".zone")) name.textContent = zone.replace("Etc/", "");
  for (const panel of page.querySelectorAll(".panel")) { // a bar is named as its row in the table
    const rows = panel.querySelectorAll("tbody tr");
    panel.querySelectorAll("rect title").forEach((title, i) => {
      title.textContent = [...rows[i].cells].map((cell) => cell.textContent).join(": ");
    });
  }
}

localise(document);

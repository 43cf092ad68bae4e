// Selects all messages that are shown. The page works without.
"use strict";
const every = document.getElementById("every");
const each = [...document.querySelectorAll("input[name=id]")];

function show() {
  const n = each.filter((one) => one.checked).length;
  every.checked = n > 0 && n === each.length;
  every.indeterminate = n > 0 && n < each.length;
}

if (every) {
  every.hidden = false;
  every.addEventListener("change", () => each.forEach((one) => { one.checked = every.checked; }));
  each.forEach((one) => one.addEventListener("change", show));
  show(); // a browser that goes back keeps what was selected
}

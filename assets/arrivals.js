"use strict";
// Traces that appear in a folder while the page is open: the lists grow, and a line says what came.
(() => {
  const EVERY_MS = 1000, SHOWN_MS = 12000, $ = s => document.querySelector(s);
  let count = -1, known = "", hiding = 0;
  const address = name => `${location.pathname}?trace=${encodeURIComponent(name)}`;
  const shown = () => new URLSearchParams(location.search).get("trace") || known.split("\n")[0];

  function link(name, like) {
    const a = document.createElement("a");
    a.href = address(name); a.textContent = name; a.className = like;
    if (like === "clip") a.setAttribute("aria-current", name === shown() ? "page" : "false");
    return a;
  }
  /** The links of a list, before whatever else stands in it. */
  function list(box, names, like) {
    if (!box) return;
    for (const a of box.querySelectorAll(":scope > a")) a.remove();
    box.prepend(...names.slice(0, 200).map(name => link(name, like)));
  }
  function tell(name) {
    let line = $("#arrival");
    if (!line) {
      line = document.createElement("div"); line.id = "arrival"; line.className = "arrival"; line.setAttribute("role", "status");
      document.body.append(line);
    }
    const again = name === shown(), a = link(name, "link");
    if (again) { a.textContent = "load it"; a.href = location.href; a.onclick = e => { e.preventDefault(); location.reload(); }; }
    const no = document.createElement("button"); no.className = "btn quiet"; no.textContent = "×"; no.setAttribute("aria-label", "Dismiss");
    no.onclick = () => { line.hidden = true; };
    line.replaceChildren(again ? `${name} was written anew: ` : "New trace: ", a, no); line.hidden = false;
    clearTimeout(hiding); hiding = setTimeout(() => { line.hidden = true; }, SHOWN_MS);
  }
  function show(said) {
    const names = said.names.join("\n"), first = count < 0, empty = known === "" && !$("#tracks");
    const came = first ? [] : said.arrived.slice(Math.max(0, said.arrived.length - (said.count - count)));
    if (!first && empty && names && !$("[role=alert]")) { location.reload(); return; }
    known = names; count = said.count;
    list($(".traces .menu:not(.right)"), said.names, "clip"); list($("#open-here"), said.names, "link");
    if ($("#waiting")) $("#waiting").textContent = said.waiting ? `${said.waiting} being written.` : "";
    if (came.length) tell(came[came.length - 1]);
  }
  async function look() {
    let follows = true;
    try {
      if (!document.hidden) { const said = await (await fetch("/arrivals")).json(); follows = said.follows; if (follows) show(said); }
    } catch { /* the server is gone or busy; it is asked again */ }
    if (follows) setTimeout(look, EVERY_MS);
  }
  look();
})();

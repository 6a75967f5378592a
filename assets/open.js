"use strict";
// Other traces: by path, from the list of recent ones, or sent to the server with how far it is.
(() => {
  const $ = s => document.querySelector(s), { node } = trnprof.beside;
  const say = (text, bad) => { const e = $("#sending"); if (e) { e.textContent = text; e.className = bad ? "bad" : "mid"; } };
  const go = name => { location.href = `${location.pathname}?trace=${encodeURIComponent(name)}`; };
  const mb = bytes => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 2 : 0)}\u202fMB`;

  /** Fields that Dash has no part for are made when the page that holds them is there. */
  function furnish() {
    const chosen = $("#chosen-file"), path = $("#by-path");
    if (chosen && !chosen.firstChild) {
      const input = node("input"); input.type = "file"; input.setAttribute("aria-label", "A profile to send");
      input.onchange = () => { if (input.files[0]) send(input.files[0]); };
      chosen.append("or choose a file ", input);
    }
    if (path && !path.firstChild) {
      const input = node("input"); input.placeholder = "/path/to/trace, then Enter"; input.maxLength = 4096; input.spellcheck = false;
      input.setAttribute("aria-label", "Path of a trace");
      input.onkeydown = e => { e.stopPropagation(); if (e.key === "Enter") byPath(input.value.trim()); if (e.key === "Escape") input.blur(); };
      path.append(input);
    }
  }
  async function byPath(path) {
    if (!path) return;
    say(`opening ${path}`);
    const reply = await fetch(`/open?${new URLSearchParams({ path })}`, { method: "POST" }), said = await reply.json().catch(() => ({ error: `the server answered ${reply.status}` }));
    if (said.error) say(said.error, true); else go(said.name);
  }
  let running = null;
  function send(file) {
    running?.abort();
    const ask = running = new XMLHttpRequest(), began = performance.now();
    ask.open("POST", `/upload?${new URLSearchParams({ name: file.name })}`);
    ask.upload.onprogress = e => say(`${mb(e.loaded)} of ${mb(e.total)} sent, ${((performance.now() - began) / 1000).toFixed(1)}\u202fs so far`);
    ask.onload = () => {
      let said; try { said = JSON.parse(ask.responseText); } catch { said = { error: ask.status === 413 ? "the file is larger than this server takes" : `the server answered ${ask.status}` }; }
      if (said.error) say(said.error, true); else { say("sent; reading it"); go(said.name); }
    };
    ask.onerror = () => say("the connection broke before all was sent", true);
    ask.setRequestHeader("Content-Type", "application/octet-stream");
    ask.send(file);
  }
  new MutationObserver(furnish).observe(document.documentElement, { childList: true, subtree: true });
  document.addEventListener("click", e => { const b = e.target.closest("[data-open]"); if (b) byPath(b.dataset.open); });
  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, e => {
    if (![...(e.dataTransfer?.types || [])].includes("Files")) return;
    e.preventDefault();
    if (kind === "drop" && $("#drop") && e.dataTransfer.files[0]) send(e.dataTransfer.files[0]);
  });
  window.trnprof = Object.assign(window.trnprof || {}, { open: { send, byPath } });
})();

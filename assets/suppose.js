"use strict";
// What-ifs: a line of settings, the server's runs with their progress, and the answers in its words.
(() => {
  const $ = s => document.querySelector(s), node = (...args) => trnprof.beside.node(...args), LOOK_MS = 250;
  let job = null;

  const field = () => $("#wish input");
  function open(tl, wish, wished) {
    const box = $("#wish");
    if (!box || field()) return;
    const input = node("input");
    Object.assign(input, { value: wish || box.dataset.value || "", placeholder: "hbm_bw=2x", maxLength: 400, spellcheck: false });
    input.setAttribute("aria-label", "Settings of the what-if");
    input.onkeydown = e => { e.stopPropagation(); if (e.key === "Enter") run(tl, wished); if (e.key === "Escape") input.blur(); };
    box.append(input); input.focus();
    if (input.value) run(tl, wished);
  }
  function add(wish) {
    const input = field(); if (!input) return;
    const name = wish.split("=")[0], kept = input.value.split(/\s+/).filter(w => w && w.split("=")[0] !== name);
    input.value = [...kept, wish].join(" "); input.focus();
  }
  const ask = async (tl, what, query, method) => {
    const reply = await fetch(`${tl.frames.base}${what}?${new URLSearchParams(query)}`, { method });
    return reply.json().catch(() => ({ error: `the server answered ${reply.status}` }));
  };
  const say = (text, bad) => { const e = $("#wish-progress"); if (e) { e.textContent = text; e.className = bad ? "bad" : "mid"; } };
  const busy = on => { if ($("#wish-cancel")) { $("#wish-cancel").hidden = !on; $("#wish-run").disabled = on; } };

  async function run(tl, wished) {
    const text = field()?.value.trim();
    if (!text || job) return;
    wished(text); busy(true); say("begun"); $("#wish-found").replaceChildren(); $("#wish-found").dataset.count = 0;
    const begun = await ask(tl, "what-if", { set: text }, "POST");
    if (begun.error) { busy(false); return say(begun.error, true); }
    job = begun.job;
    await look(tl, begun.job);
  }
  /** A number that changes, until the last run is through. */
  async function look(tl, mine) {
    while (job === mine) {
      const state = await ask(tl, "what-if/state", { job: mine }, "GET");
      if (job !== mine || !$("#wish-found")) break;
      if (state.found) show(tl, state.found);
      say(state.error || `${state.done} of ${state.total} run, ${state.seconds} s${state.over ? "" : " so far"}`, !!state.error);
      if (state.over || state.error) break;
      await new Promise(done => setTimeout(done, LOOK_MS));
    }
    if (job === mine) { job = null; busy(false); }
  }
  async function cancel(tl) {
    const mine = job; job = null;
    if (!mine) return;
    busy(false);
    const state = await ask(tl, "what-if/cancel", { job: mine }, "POST");
    say(state.error || `cancelled after ${state.done} of ${state.total}`);
  }
  function show(tl, found) {
    const box = $("#wish-found");
    if (+box.dataset.count === found.length || !found.length) return;
    const rows = found.map(card => {
      const row = node("tr"), name = node("td"), last = node("td"), go = node("button", "Compare", "btn"), change = node("td", card.change, "num");
      name.append(node("code", card.settings)); for (const note of card.notes) name.append(node("div", note, "dim"));
      go.dataset.with = `${tl.start.name}@${card.name}`; last.className = "num"; last.append(go);
      change.classList.add(card.time_ps < card.before_ps ? "good" : card.time_ps > card.before_ps ? "bad" : "dim");
      const bound = node("td", card.bound === card.bound_before ? card.bound : `${card.bound}, was ${card.bound_before}`);
      row.append(name, node("td", card.time_words, "num"), change, bound, last);
      return row;
    });
    const head = node("tr");
    for (const [text, cls] of [["settings"], ["time", "num"], ["change", "num"], ["bound"], [""]]) head.append(node("th", text, cls));
    const table = node("table"), top = node("thead"), body = node("tbody");
    top.append(head); body.append(...rows); table.append(top, body);
    box.replaceChildren(table); box.dataset.count = found.length;
  }
  window.trnprof = Object.assign(window.trnprof || {}, { suppose: { open, add, run, cancel } });
})();

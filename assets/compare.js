"use strict";
// Two timelines, one above the other, aligned at the start of their kernel windows; what moves one moves both.
(() => {
  const $ = s => document.querySelector(s), SIDES = ["before", "after"], SHOWN = ["bound", "regions", "instructions", "transfers"];

  class Pair {
    constructor(sides, fetched) { Object.assign(this, { sides, fetched, from: 0, to: 1, drag: null }); this.home(); }
    length(tl) { return tl.start.window[1] - tl.start.window[0]; }
    home() { const most = Math.max(...this.sides.map(tl => this.length(tl)), 1); this.set(-.02 * most, 1.03 * most); }
    /** The view, in ps since the start of either window. */
    set(from, to) {
      const most = Math.max(...this.sides.map(tl => tl.start.extent[1] - tl.start.extent[0])), span = Math.max(5000, Math.min(to - from, 1.2 * most));
      this.from = Math.max(-most, Math.min(from, most)); this.to = this.from + span;
      for (const tl of this.sides) { tl.view = [tl.start.window[0] + this.from, tl.start.window[0] + this.to]; tl.request(); }
    }
    zoom(k, at = (this.from + this.to) / 2) { const f = (at - this.from) / (this.to - this.from), span = Math.max(5000, (this.to - this.from) * k); this.set(at - span * f, at + span * (1 - f)); }
    pan(k) { const d = (this.to - this.from) * k; this.set(this.from + d, this.to + d); }
    t(x) { return this.from + x / this.sides[0].w * (this.to - this.from); }
    /** Outline the instruction in both and say what changed. */
    async choose(tl, row) {
      const side = SIDES[this.sides.indexOf(tl)], found = await this.fetched("pair", { with: this.sides[1].start.name, row, side });
      if (!found) return;
      this.sides.forEach((each, k) => { const card = found[SIDES[k]]; each.chosen = card ? { ...card, after: null } : null; each.request(); });
      $("#pair-said").textContent = `${(found.before || found.after).title}: ${found.words}`;
    }
    wire(tl) {
      const c = tl.canvas, x = e => e.clientX - c.getBoundingClientRect().left, y = e => e.clientY - c.getBoundingClientRect().top;
      c.addEventListener("wheel", e => { e.preventDefault(); if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan((e.deltaX || e.deltaY) / 1200); else this.zoom(Math.exp(e.deltaY / 500), this.t(x(e))); }, { passive: false });
      c.onpointerdown = e => { c.focus({ preventScroll: true }); c.setPointerCapture(e.pointerId); this.drag = { x: e.clientX, from: this.from, to: this.to, moved: false }; };
      c.onpointermove = e => {
        for (const each of this.sides) { each.cursor = x(e); each.request(); }
        if (!this.drag) return;
        const by = (e.clientX - this.drag.x) / tl.w * (this.drag.to - this.drag.from);
        if (Math.abs(e.clientX - this.drag.x) > 3) this.drag.moved = true;
        if (this.drag.moved) this.set(this.drag.from - by, this.drag.to - by);
      };
      c.onpointerup = e => {
        const moved = this.drag?.moved; this.drag = null;
        const h = !moved && tl.hit(x(e), y(e));
        if (h?.kind === "ins") this.choose(tl, h.f.row[h.i]);
        if (h?.kind === "cluster") { const a = h.f.start[h.i] - tl.start.window[0], air = h.f.length[h.i] * .1 + 200; this.set(a - air, a + h.f.length[h.i] + air); }
      };
      c.onpointerleave = () => { for (const each of this.sides) { each.cursor = null; each.request(); } };
    }
  }

  /** Build the pair when the page is in place. */
  async function open(start, main, fetched, notice) {
    const box = $("#compare");
    if (!box) return;
    const made = [];
    for (const side of SIDES) {
      const name = side === "before" ? start.name : box.dataset.other;
      const own = side === "before" ? start : await fetch(`/trace/${encodeURIComponent(name)}/start`).then(r => r.json());
      if (own.error || !$("#compare")) return own.error && notice(own.error);
      const mine = { ...own, name, tracks: own.tracks.filter(t => SHOWN.includes(t.kind) && !t.quiet) };
      const state = { closed: new Set(), hidden: new Set(), pinned: new Set(), order: [] };
      const tl = new trnprof.Timeline($(`#tracks-${side}`), $(`#ruler-${side}`), null, mine, state);
      tl.colour = main.colour === "path" ? "engine" : main.colour; tl.onfault = fault => notice(fault.message);
      trnprof.beside.gutter(tl, state, $(`#gutter-${side}`));
      made.push(tl);
    }
    const pair = api.pair = new Pair(made, fetched);
    made.forEach(tl => pair.wire(tl));
    new ResizeObserver(() => made.forEach((tl, k) => { if (api.pair === pair) { tl.relayout(); trnprof.beside.gutter(tl, tl.state, $(`#gutter-${SIDES[k]}`)); tl.request(); } })).observe(box);
  }
  const api = { pair: null, open, close() { api.pair = null; } };
  window.trnprof = Object.assign(window.trnprof || {}, { compare: api });
})();

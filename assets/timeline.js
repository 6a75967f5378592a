"use strict";
// The timeline on its canvases: layout of tracks, view, drawing, hit test. It knows nothing of the page around it.
(() => {
  const { ENGINES, FONT, surface, snap, palette, width } = trnprof.ink;
  const GROUP_HEIGHT = 21, RULER = 24, OVERVIEW = 50, GROWTH = 3.2, FLOOR_PS = 5000;
  const FIXED = ["group", "bound", "regions"];

  class Timeline {
    /** start : what the server says of the trace;  state : closed, hidden, pinned, order (the page keeps it) */
    constructor(canvas, ruler, overview, start, state) {
      Object.assign(this, { canvas, ruler, overviewCanvas: overview, start, state, view: [...start.home], colour: "engine", only: [],
        chosen: null, hover: null, area: null, cursor: null, marks: [], found: null, hits: [], frame: null, busyLines: null });
      this.frames = new trnprof.Frames(start.name, () => this.request(), fault => this.onfault?.(fault));
      this.relayout();
    }

    // --- rows ---------------------------------------------------------------------------------------------------
    relayout() {
      const { closed, hidden, pinned, order } = this.state, rows = [], seen = new Set();
      const rank = t => { const k = order.indexOf(t.id); return k < 0 ? 1e6 : k; };
      const tracks = this.start.tracks.filter(t => !hidden.has(t.id) && (t.kind !== "path" || this.colour === "path"));
      const add = t => rows.push({ ...t, h: t.height, laneHeight: t.lane_height, topWords: t.top_words });
      for (const t of tracks) if (pinned.has(t.id)) add(t);
      for (const t of tracks) {
        if (seen.has(t.group)) continue;
        seen.add(t.group);
        rows.push({ id: t.group, name: t.group_name, code: t.group.split(".").pop().slice(0, 3).toUpperCase(), kind: "group", h: GROUP_HEIGHT });
        if (closed.has(t.group)) continue;
        const members = tracks.filter(o => o.group === t.group && !pinned.has(o.id));
        members.map((m, k) => [m, k]).sort((a, b) => rank(a[0]) - rank(b[0]) || a[1] - b[1]).forEach(([m]) => add(m));
      }
      this.grow(rows);
      let y = 0;
      for (const r of rows) { r.y = y; y += r.h; }
      this.rows = rows; this.height = y + 6; this.byId = Object.fromEntries(rows.map(r => [r.id, r]));
      this.shown = rows.filter(r => r.kind !== "group").map(r => r.id);
    }
    /** Spare height goes to the tracks, never to text. */
    grow(rows) {
      const room = this.canvas.closest(".scroll").clientHeight - 8;
      const sum = keep => rows.filter(keep).reduce((s, r) => s + r.h, 0), fixed = r => FIXED.includes(r.kind);
      const k = Math.max(1, Math.min(GROWTH, (room - sum(fixed)) / Math.max(1, sum(r => !fixed(r)))));
      for (const r of rows) {
        if (fixed(r)) continue;
        if (r.lanes > 1) { r.laneHeight = Math.max(1, Math.floor(r.lane_height * k)); r.h = r.laneHeight * r.lanes + 4; }
        else r.h = Math.floor(r.h * k);
      }
    }

    // --- view ---------------------------------------------------------------------------------------------------
    x(t) { return (t - this.view[0]) / (this.view[1] - this.view[0]) * this.w; }
    t(x) { return this.view[0] + x / this.w * (this.view[1] - this.view[0]); }
    zoom(k, at = (this.view[0] + this.view[1]) / 2) {
      const [e0, e1] = this.start.extent, now = this.view[1] - this.view[0], span = Math.min((e1 - e0) * 1.1, Math.max(FLOOR_PS, now * k));
      const f = (at - this.view[0]) / now;
      this.set(at - span * f, at + span * (1 - f));
    }
    pan(k) { const d = (this.view[1] - this.view[0]) * k; this.set(this.view[0] + d, this.view[1] + d); }
    set(a, b) {
      const [e0, e1] = this.start.extent, total = e1 - e0, span = Math.max(FLOOR_PS, Math.min(b - a, total * 1.1));
      const lo = Math.min(e0 - .03 * total, this.start.home[0]), hi = Math.max(e1 + .03 * total, this.start.home[1]);
      a = Math.max(lo, Math.min(a, hi - span));
      this.view = [a, a + span];
      this.onview?.(); this.request();
    }
    atHome() { return Math.abs(this.view[0] - this.start.home[0]) < 1 && Math.abs(this.view[1] - this.start.home[1]) < 1; }
    home() {
      const [e0, e1] = this.start.extent, air = (e1 - e0) * .005;
      if (this.atHome()) this.set(e0 - air, e1 + air); else this.set(...this.start.home);
    }
    /** Bring a stretch into view without changing the scale more than it must. */
    show(t0, t1) {
      const span = Math.max(this.view[1] - this.view[0], (t1 - t0) * 1.2);
      if (t0 >= this.view[0] && t1 <= this.view[1]) return;
      this.set((t0 + t1) / 2 - span / 2, (t0 + t1) / 2 + span / 2);
    }
    request() { this.pending ||= requestAnimationFrame(() => { this.pending = 0; this.draw(); }); }

    // --- drawing ------------------------------------------------------------------------------------------------
    draw() {
      const box = this.canvas.parentElement;
      this.w = Math.max(1, box.clientWidth); this.h = this.height; this.P = palette(); this.hits = [];
      box.style.height = `${this.h}px`;
      const g = surface(this.canvas, this.w, this.h), P = this.P;
      this.frame = this.frames.best(this.view, Math.max(1, this.w), this.colour, this.shown, this.only);
      this.ground(g);
      for (const r of this.rows) {
        if (r.kind === "group") { g.fillStyle = P.surface; g.fillRect(0, r.y, this.w, r.h); g.fillStyle = P.line; g.fillRect(0, r.y, this.w, 1); continue; }
        if (this.frame) trnprof.draw[r.kind](this, g, r);
      }
      this.overlays(g);
      this.drawRuler(); this.drawOverview();
      this.ondraw?.();
    }
    ground(g) {
      const P = this.P;
      this.ticks = trnprof.words.ticks(this.view[0], this.view[1], Math.max(2, this.w / 110));
      g.fillStyle = P.line; g.globalAlpha = .55;
      for (const [t] of this.ticks) g.fillRect(snap(this.x(t)), 0, 1 / (devicePixelRatio || 1), this.h);
      g.globalAlpha = 1;
      const a = this.x(this.start.window[0]), b = this.x(this.start.window[1]);
      g.fillStyle = P.surface; if (a > 0) g.fillRect(0, 0, Math.min(a, this.w), this.h); if (b < this.w) g.fillRect(Math.max(0, b), 0, this.w - Math.max(0, b), this.h);
    }
    overlays(g) {
      const P = this.P;
      if (this.area) {
        const a = this.x(this.area[0]), b = this.x(this.area[1]);
        g.fillStyle = P.accent; g.globalAlpha = .1; g.fillRect(a, 0, b - a, this.h); g.globalAlpha = 1;
        for (const x of [a, b]) g.fillRect(snap(x), 0, 1, this.h);
      }
      for (const m of this.marks) { g.fillStyle = P.mark; g.fillRect(snap(this.x(m)), 0, 1, this.h); }
      if (this.found) {
        g.strokeStyle = P.select; g.lineWidth = 1;
        for (const h of this.hits) if (h.kind === "ins" && this.found.has(h.f.row[h.i])) g.strokeRect(snap(h.x0) + .5, h.y0 + .5, Math.max(2, h.x1 - h.x0 - 2), h.y1 - h.y0 - 1);
      }
      if (this.cursor !== null) { g.fillStyle = P["text-3"]; g.globalAlpha = .5; g.fillRect(snap(this.cursor), 0, 1, this.h); g.globalAlpha = 1; }
      if (this.chosen?.after) this.arrows(g);
      if (this.hover && ["ins", "transfer"].includes(this.hover.kind)) this.outline(g, this.hover.r, this.hover.x0, this.hover.f ? this.x(this.hover.f.start[this.hover.i] + this.hover.f.length[this.hover.i]) : this.hover.x1, P["text-2"], 1);
      const c = this.chosen, r = c && this.byId[c.track];
      if (r) this.outline(g, r, this.x(c.t0_ps), this.x(c.t1_ps), P.select, this.blink ? 4 : 2);
    }
    outline(g, r, a, b, colour, line) {
      a = Math.max(a, -10); b = Math.min(b, this.w + 10);
      if (b < -5 || a > this.w + 5) return;
      for (const [w, c] of [[line + 2, this.P.bg], [line, colour]]) { g.strokeStyle = c; g.lineWidth = w; g.strokeRect(a - .5, r.y + .5, Math.max(3, b - a), r.h - 1); }
    }
    /** Binding predecessor bold with its slack; up to three more thin; successors dashed. */
    arrows(g) {
      const P = this.P, c = this.chosen, me = this.anchor(c.track, c.t0_ps), end = this.anchor(c.track, c.t1_ps);
      for (const l of c.before.slice(0, 3)) this.arrow(g, end, this.anchor(l.track, l.t0_ps), { w: 1.2, c: P["text-2"], a: .85, dash: true });
      const bind = c.after.find(l => l.binding);
      for (const l of c.after.filter(o => o !== bind).slice(0, 3)) this.arrow(g, this.anchor(l.track, l.t1_ps), me, { w: 1, c: P["text-2"], a: .6 });
      if (!bind) return;
      const from = this.anchor(bind.track, bind.t1_ps);
      this.arrow(g, from, me, { w: 2, c: P.select, a: 1 });
      if (from && me && !(bind.slack_ps < 0)) this.badge(g, bind.words, Math.min(from[0], me[0]) - 8, (from[1] + me[1]) / 2);
    }
    anchor(track, t) { const r = this.byId[track]; return r ? [this.x(t), r.y + r.h / 2] : null; }
    arrow(g, from, to, style) {
      if (!from || !to || Math.max(from[0], to[0]) < -50 || Math.min(from[0], to[0]) > this.w + 50) return;
      const clamp = v => Math.max(-3000, Math.min(this.w + 3000, v)), x0 = clamp(from[0]), x1 = clamp(to[0]), [y0, y1] = [from[1], to[1]];
      const k = Math.min(46, Math.max(9, Math.abs(x1 - x0) * .45)), P = this.P;
      for (const [w, c] of [[style.w + 2, P.bg], [style.w, style.c]]) {
        g.strokeStyle = c; g.lineWidth = w; g.setLineDash(style.dash && c !== P.bg ? [4, 3] : []); g.globalAlpha = c === P.bg ? .5 : style.a;
        g.beginPath(); g.moveTo(x0, y0); g.bezierCurveTo(x0 + k, y0, x1 - k, y1, x1 - 5, y1); g.stroke();
      }
      g.setLineDash([]); g.fillStyle = style.c;
      g.beginPath(); g.moveTo(x1 - 1, y1); g.lineTo(x1 - 7, y1 - 3.5); g.lineTo(x1 - 7, y1 + 3.5); g.fill();
      g.beginPath(); g.arc(x0, y0, 2.5, 0, 7); g.fill(); g.globalAlpha = 1;
    }
    badge(g, text, x, y) {
      const P = this.P, tw = width(g, text), left = Math.max(2, Math.min(this.w - tw - 14, x - tw - 10));
      g.fillStyle = P.raised; g.strokeStyle = P["line-2"]; g.lineWidth = 1;
      g.beginPath(); g.roundRect(left, y - 9, tw + 10, 18, 4); g.fill(); g.stroke();
      g.fillStyle = P.text; g.fillText(text, left + 5, y + .5);
    }

    drawRuler() {
      const w = this.ruler.clientWidth, g = surface(this.ruler, w, RULER), P = this.P, words = trnprof.words, badges = [];
      const badge = (x, text, solid) => { const tw = width(g, text) + 10; badges.push({ l: Math.max(2, Math.min(w - tw - 2, x - tw / 2)), tw, text, solid }); };
      if (this.area) badge(this.x((this.area[0] + this.area[1]) / 2), this.estimate(words.time(this.area[1] - this.area[0])), true);
      if (this.cursor !== null) badge(this.cursor, words.moment(this.t(this.cursor)));
      for (const [t, text] of this.ticks) {
        const x = snap(this.x(t)), tw = width(g, text) + 4;
        g.fillStyle = P["line-2"]; g.fillRect(x, 15, 1, 9);
        for (let k = 1; k < 5; k++) g.fillRect(snap(this.x(t + this.ticks.step * k / 5)), 20, 1, 4);
        if (badges.every(q => x + 4 > q.l + q.tw + 3 || x + 4 + tw < q.l - 3)) { g.fillStyle = P["text-2"]; g.fillText(text, x + 4, 10); }
      }
      for (const m of this.marks) { g.fillStyle = P.mark; g.beginPath(); g.moveTo(this.x(m) - 4, 15); g.lineTo(this.x(m) + 4, 15); g.lineTo(this.x(m), 22); g.fill(); }
      if (this.area) { g.fillStyle = P.accent; g.fillRect(this.x(this.area[0]), 21, this.x(this.area[1]) - this.x(this.area[0]), 3); }
      for (const { l, tw, text, solid } of badges) {
        g.fillStyle = solid ? P.accent : P.raised; g.strokeStyle = P["line-2"]; g.beginPath(); g.roundRect(l, 1.5, tw, 17, 3); g.fill(); if (!solid) g.stroke();
        g.fillStyle = solid ? P.bg : P.text; g.fillText(text, l + 5, 10.5);
      }
    }
    estimate(text) { return this.start.estimated ? `~${text}` : text; }

    /** Whole trace: one lane an engine, opacity = busy share of the pixel; the window in view stays bright. */
    drawOverview() {
      if (!this.overviewCanvas) return;
      const w = this.overviewCanvas.clientWidth, g = surface(this.overviewCanvas, w, OVERVIEW), P = this.P, columns = Math.max(1, Math.ceil(w / 2));
      if (!this.busyLines || this.busyLines.columnsAsked !== columns) this.loadOverview(columns);
      const o = this.busyLines;
      if (o?.busy) {
        const lines = o.names.length, h = Math.max(2, Math.min(8, Math.floor((OVERVIEW - 6) / lines) - 1)), n = o.busy.length / lines;
        for (let k = 0; k < lines; k++) {
          g.fillStyle = this.colour === "bound" ? P["text-2"] : P[ENGINES[o.colours[k]]];
          for (let x = 0; x < n; x++) {
            const v = o.busy[k * n + x];
            if (v) { g.globalAlpha = .15 + .85 * v / 255; g.fillRect(x * w / n, 4 + k * (h + 1), w / n + .2, h); }
          }
        }
        g.globalAlpha = 1;
      }
      const [a, b] = this.view.map(t => Math.max(0, Math.min(w, this.overviewX(t, w))));
      g.fillStyle = P.shade; g.fillRect(0, 0, a, OVERVIEW); g.fillRect(b, 0, w - b, OVERVIEW);
      if (this.area) { g.fillStyle = P.accent; g.globalAlpha = .3; const [c, d] = this.area.map(t => this.overviewX(t, w)); g.fillRect(c, 0, Math.max(1, d - c), OVERVIEW); g.globalAlpha = 1; }
      if (this.foundAt) { g.fillStyle = P.select; for (const t of this.foundAt) g.fillRect(this.overviewX(t, w), OVERVIEW - 4, 1, 4); }
      g.strokeStyle = P["text-2"]; g.lineWidth = 1; g.strokeRect(snap(a) + .5, 1.5, Math.max(3, b - a - 1), OVERVIEW - 3);
      g.fillStyle = P.text; for (const x of [a, b]) { g.beginPath(); g.roundRect(Math.min(w - 4, Math.max(0, x - 2)), OVERVIEW / 2 - 8, 4, 16, 2); g.fill(); }
    }
    overviewX(t, w) { const [e0, e1] = this.start.extent; return (t - e0) / (e1 - e0) * w; }
    overviewT(x, w) { const [e0, e1] = this.start.extent; return e0 + x / w * (e1 - e0); }
    async loadOverview(columns) {
      const old = this.busyLines;
      this.busyLines = { ...old, columnsAsked: columns };
      try { this.busyLines = { ...await this.frames.overview(columns), columnsAsked: columns }; this.request(); } catch (fault) { this.onfault?.(fault); }
    }

    // --- what lies where ------------------------------------------------------------------------------------------
    hit(x, y) {
      const order = { ins: 0, transfer: 0, region: 0, packet: 0, cluster: 1, bound: 1, gap: 2, packets: 3, level: 3 };
      let best = null;
      for (const h of this.hits) {
        if (x < h.x0 - 1 || x > h.x1 + 1 || y < h.y0 || y >= h.y1) continue;
        if (!best || order[h.kind] < order[best.kind] || order[h.kind] === order[best.kind] && h.x1 - h.x0 < best.x1 - best.x0) best = h;
      }
      return best;
    }
    rowAt(y) { return this.rows.find(r => y >= r.y && y < r.y + r.h) || null; }
    /** The nearest edge of a bar, for the ends of an area. */
    snapTime(x, y) {
      const near = 6; let best = this.t(x), at = near;
      for (const h of this.hits) {
        if (!["ins", "transfer", "region"].includes(h.kind) || y < h.y0 || y >= h.y1) continue;
        const start = h.f.start[h.i], end = start + h.f.length[h.i];
        for (const t of [start, end]) { const d = Math.abs(this.x(t) - x); if (d < at) { at = d; best = t; } }
      }
      return best;
    }
  }
  window.trnprof = Object.assign(window.trnprof || {}, { Timeline });
})();

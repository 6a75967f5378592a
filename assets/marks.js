"use strict";
// How each kind of track is drawn from a frame. Every function takes the timeline, the context and a row.
(() => {
  const { ENGINES, BOUNDS, SMALL, FONT, snap, inkOn, shadeOn, tile, width, label, caption } = trnprof.ink;
  const WORK = 1, WASTE = 2, KERNEL = 8;

  /** Colour and hatch of a mark. */
  function fillOf(tl, f, i, r) {
    const P = tl.P, flags = f.flags[i];
    if (!(flags & WORK)) return [P.neutral, null];
    if (f.colour === "bound") { const b = BOUNDS[f.colourOf[i]]; return [P[b], b === "compute" ? null : b]; }
    if (f.inks === "hue") return [f.colourOf[i] < 0 ? P.neutral : P[`hue-${f.colourOf[i] + 1}`], null];
    return [P[ENGINES[f.colourOf[i]]] || P.neutral, (f.colour === "engine" || r?.kind === "path") && flags & WASTE ? "waste" : null];
  }

  function bars(tl, g, r) {
    const f = tl.frame, at = f.marksOf[r.id];
    gaps(tl, g, r);
    if (!at) return;
    const tails = [], lanes = r.lanes > 1, h = (lanes ? r.laneHeight : r.h) - 2;
    // Control first, so that work is never hidden behind it.
    for (const kind of [0, WORK]) for (let i = at[0]; i < at[1]; i++) {
      const t = f.start[i], a = tl.x(t), end = tl.x(t + f.length[i]);
      if ((f.flags[i] & WORK) !== kind || end < 0 || a > tl.w) continue;
      const y = r.y + 1 + (lanes ? f.lane[i] * r.laneHeight : 0);
      if (f.row[i] < 0) cluster(tl, g, r, f, i, a, end, y, h);
      else bar(tl, g, r, f, i, a, tl.x(t + f.body[i]), end, y, h, tails);
    }
    for (const [x0, x1, y, colour] of tails) { g.fillStyle = colour; g.fillRect(x0, y, Math.max(1, x1 - x0 - 1), 2); }
  }

  function bar(tl, g, r, f, i, a, body, end, y, h, tails) {
    const P = tl.P, work = f.flags[i] & WORK, full = h, top = y;
    if (!work) { const k = Math.max(3, Math.round(h * .28)); y += Math.round((h - k) / 2); h = k; }
    const [fill, hatch] = fillOf(tl, f, i, r), x0 = Math.max(snap(a), -4), x1 = Math.min(snap(Math.max(body, a + 1)), tl.w + 4);
    const w = Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : x1 - x0 > 1.5 ? .5 : 0)), faint = r.minor && f.colour !== "wait";
    g.globalAlpha = faint ? .62 : 1; g.fillStyle = fill; g.fillRect(x0, y, w, h);
    if (hatch || P.contrast && r.minor) { g.fillStyle = tile(g, hatch || "latency", shadeOn(fill, "59", "59")); g.fillRect(x0, y, w, h); }
    g.globalAlpha = 1;
    if (work && end > body + 1) tails.push([body, Math.min(end, tl.w + 4), top, fill === P.neutral ? `${P["text-3"]}80` : shadeOn(fill, "73", "8c")]);
    tl.hits.push({ x0: a, x1: Math.max(body, a + 2), y0: top, y1: top + full, kind: r.kind === "transfers" ? "transfer" : r.kind === "packets" ? "packet" : "ins", i, f, r });
    if (h >= 12 && w > 12 && f.label[i] >= 0) label(g, f.labels[f.label[i]], x0, w, y + h / 2 + .5, faint ? P.text : inkOn(fill), tl.w);
  }

  /** Rows too small to draw apart: height = busy share, dots on top = how many, never nothing. */
  function cluster(tl, g, r, f, i, a, end, y, h) {
    const P = tl.P, w = Math.max(1.5, end - a), top = y, full = h, n = f.count[i];
    if (!(f.flags[i] & WORK)) { const k = Math.max(5, Math.round(h * .4)); y += Math.round((h - k) / 2); h = k; }
    const room = h > 8 ? h - 3 : h, tall = Math.max(2, Math.round(room * Math.max(.28, f.busy[i] / 255)));
    const [fill, hatch] = fillOf(tl, f, i, r);
    g.fillStyle = fill; g.globalAlpha = r.minor ? .5 : .8; g.fillRect(snap(a), y + h - tall, w, tall);
    if (hatch) { g.fillStyle = tile(g, hatch, shadeOn(fill, "59", "59")); g.fillRect(snap(a), y + h - tall, w, tall); }
    g.globalAlpha = 1;
    if (h > 8) {
      g.fillStyle = P["text-3"];
      for (let k = 0, m = Math.min(n, Math.floor(w / 3)); k < m; k++) g.fillRect(snap(a + (k + .5) * w / m - .5), y, 1, 1.5);
    }
    tl.hits.push({ x0: a - 1, x1: a + w + 1, y0: top, y1: top + full, kind: "cluster", i, f, r });
  }

  /** Idle time: a hairline with a cap; by wait, a hatched block in the colour of what is waited for. */
  function gaps(tl, g, r) {
    const f = tl.frame, at = f.gapsOf[r.id], P = tl.P;
    if (!at) return;
    const y = r.y + 1, h = r.h - 2, mid = y + h / 2;
    for (let i = at[0]; i < at[1]; i++) {
      const a = Math.max(-2, tl.x(f.gapStart[i])), b = Math.min(tl.w + 2, tl.x(f.gapEnd[i]));
      if (b - a < 3 || a > tl.w || b < 0) continue;
      tl.hits.push({ x0: a, x1: b, y0: r.y, y1: r.y + r.h, kind: "gap", i, f, r });
      if (f.colour !== "wait") {
        g.fillStyle = P["line-2"]; g.fillRect(a + 1, snap(mid), b - a - 2, 1); g.fillRect(snap(a + 1), mid - 2, 1, 5);
        continue;
      }
      const engine = ENGINES[f.gapColour[i]], colour = engine === "neutral" ? P["text-3"] : P[engine];
      g.globalAlpha = .17; g.fillStyle = colour; g.fillRect(a, y, b - a - 1, h); g.globalAlpha = 1;
      g.fillStyle = tile(g, "wait", `${colour}a0`); g.fillRect(a, y, b - a - 1, h);
      const text = f.labels[f.gapLabel[i]]?.[0];
      if (h >= 12 && text && width(g, text) < b - Math.max(a, 0) - 16) {
        const left = Math.max(a, 0) + 5;
        g.fillStyle = P.bg; g.globalAlpha = .84; g.fillRect(left, y + 1.5, width(g, text) + 8, h - 3); g.globalAlpha = 1;
        g.fillStyle = P.text; g.fillText(text, left + 4, mid + .5);
      }
    }
  }

  /** The ribbon: which bound holds when. */
  function bound(tl, g, r) {
    const f = tl.frame, at = f.marksOf[r.id], P = tl.P;
    for (let i = at?.[0]; i < at?.[1]; i++) {
      const x0 = tl.x(f.start[i]), x1 = tl.x(f.start[i] + f.length[i]), name = BOUNDS[f.colourOf[i]];
      if (x1 < 0 || x0 > tl.w) continue;
      const left = Math.max(snap(x0), -4), w = Math.max(1, Math.min(x1, tl.w + 4) - left);
      g.fillStyle = P[name]; g.fillRect(left, r.y + 3, w, r.h - 5);
      if (name !== "compute") { g.fillStyle = tile(g, name, shadeOn(P[name], "73", "80")); g.fillRect(left, r.y + 3, w, r.h - 5); }
      tl.hits.push({ x0, x1, y0: r.y, y1: r.y + r.h, kind: "bound", i, f, r });
    }
  }

  /** The flame graph; the name of a short region may stand to its right where that is free. */
  function regions(tl, g, r) {
    const f = tl.frame, at = f.marksOf[r.id], P = tl.P;
    for (let i = at?.[0]; i < at?.[1]; i++) {
      const a = tl.x(f.start[i]), b = tl.x(f.start[i] + f.length[i]), y = r.y + 1 + f.lane[i] * r.laneHeight;
      if (b < 0 || a > tl.w) continue;
      const x0 = Math.max(snap(a), -2), w = Math.max(1, Math.min(b, tl.w + 2) - x0 - 1), outer = f.lane[i] === 0;
      g.fillStyle = outer ? `${P.accent}${P.dark ? "40" : "30"}` : P.region; g.fillRect(x0, y, w, r.laneHeight - 1);
      if (P.contrast) { g.strokeStyle = P.line; g.lineWidth = 1; g.strokeRect(x0 + .5, y + .5, w - 1, r.laneHeight - 2); }
      tl.hits.push({ x0: a, x1: b, y0: y, y1: y + r.laneHeight, kind: f.row[i] < 0 ? "cluster" : "region", i, f, r });
      if (f.label[i] < 0) continue;
      const mid = y + r.laneHeight / 2, texts = f.labels[f.label[i]];
      const covered = i + 1 < at[1] && f.lane[i + 1] === f.lane[i] ? Math.max(0, tl.x(f.start[i + 1]) - x0) : w;
      if (label(g, texts, x0, Math.min(w, covered), mid, outer ? P.text : P["region-ink"], tl.w) || f.row[i] < 0) continue;
      const next = i + 1 < at[1] && f.lane[i + 1] === f.lane[i] ? tl.x(f.start[i + 1]) : tl.w;
      label(g, [texts[1]], x0 + w, next - x0 - w, mid, P["text-3"], tl.w, 4);
    }
  }

  function level(tl, g, r) {
    const f = tl.frame, at = f.levelsOf[r.id], P = tl.P;
    if (!at) return;
    const base = r.y + r.h - 2, H = r.h - 5, n = f.columnsPerLevel, first = at[0] * n;
    const Y = v => base - Math.min(1, v / r.top) * H, colour = f.colour === "bound" ? P["text-3"] : P[ENGINES[r.colour]];
    const from = Math.max(0, Math.floor((tl.view[0] - f.t0) / f.bucket) - 1), to = Math.min(n, Math.ceil((tl.view[1] - f.t0) / f.bucket) + 1);
    g.beginPath();
    let begun = false, last = base, x = 0;
    for (let k = from; k < to; k++) {
      const v = f.values[first + k];
      if (Number.isNaN(v)) continue;
      x = tl.x(f.t0 + k * f.bucket);
      const y = Y(v), next = tl.x(f.t0 + (k + 1) * f.bucket);
      if (!begun) { g.moveTo(x, base); begun = true; }
      if (r.step) { g.lineTo(x, y); g.lineTo(next, y); } else g.lineTo((x + next) / 2, y);
      last = next;
    }
    if (!begun) return;
    g.lineTo(last, base); g.closePath();
    g.fillStyle = colour; g.globalAlpha = .22; g.fill(); g.globalAlpha = 1; g.strokeStyle = colour; g.lineWidth = 1; g.stroke();
    if (r.roof) {
      const y = snap(Y(r.roof)) + .5;
      g.setLineDash([3, 3]); g.strokeStyle = P["text-3"]; g.beginPath(); g.moveTo(0, y); g.lineTo(tl.w, y); g.stroke(); g.setLineDash([]);
    }
    if (r.topWords) { g.font = SMALL; caption(g, r.topWords, tl.w - 5, r.y + 9.5, P, "right"); g.font = FONT; }
    tl.hits.push({ x0: 0, x1: tl.w, y0: r.y, y1: r.y + r.h, kind: "level", r, f, at });
  }

  /** Several levels one above another, one thin line each. */
  function banks(tl, g, r) {
    const f = tl.frame, at = f.levelsOf[r.id], P = tl.P;
    if (!at) return;
    const n = f.columnsPerLevel, lane = (r.h - 4) / r.lanes, colour = f.colour === "engine" ? P[ENGINES[r.colour]] : P["text-3"];
    const from = Math.max(0, Math.floor((tl.view[0] - f.t0) / f.bucket)), to = Math.min(n, Math.ceil((tl.view[1] - f.t0) / f.bucket));
    g.fillStyle = colour;
    for (let j = 0; j < at[1] - at[0]; j++) {
      const y = r.y + 2 + j * lane;
      g.globalAlpha = .1; g.fillRect(0, y, tl.w, lane - 1);
      for (let k = from; k < to;) {
        const v = f.values[(at[0] + j) * n + k], k0 = k;
        while (k < to && f.values[(at[0] + j) * n + k] === v) k++;
        if (!(v > 0)) { if (k === k0) k++; continue; }
        const x0 = tl.x(f.t0 + k0 * f.bucket), x1 = tl.x(f.t0 + k * f.bucket);
        g.globalAlpha = .2 + .6 * Math.min(1, v); g.fillRect(x0, y, Math.max(.5, x1 - x0 + .3), lane - 1);
      }
    }
    g.globalAlpha = 1;
    tl.hits.push({ x0: 0, x1: tl.w, y0: r.y, y1: r.y + r.h, kind: "level", r, f, at });
  }

  /** DMA engines: one thin line each. */
  function packets(tl, g, r) {
    const f = tl.frame, at = f.marksOf[r.id], P = tl.P;
    if (!at) return;
    const lane = (r.h - 4) / r.lanes;
    for (let i = at[0]; i < at[1]; i++) {
      const a = tl.x(f.start[i]), b = tl.x(f.start[i] + f.length[i]);
      if (b < 0 || a > tl.w) continue;
      const y = r.y + 2 + f.lane[i] * lane, work = f.flags[i] & WORK, [fill] = fillOf(tl, f, i);
      g.globalAlpha = (work ? 1 : .5) * (f.row[i] < 0 ? Math.max(.3, f.busy[i] / 255) : 1);
      g.fillStyle = work || f.colour !== "engine" ? fill === P.neutral ? P["line-2"] : fill : P.dma;
      g.fillRect(Math.max(a, -2), y, Math.max(.7, Math.min(b, tl.w + 2) - Math.max(a, -2) - .4), Math.max(1, lane - .8));
    }
    g.globalAlpha = 1;
    tl.hits.push({ x0: 0, x1: tl.w, y0: r.y, y1: r.y + r.h, kind: "packets", r });
  }

  window.trnprof = Object.assign(window.trnprof || {}, {
    draw: { path: bars, instructions: bars, transfers: bars, bound, regions, counter: level, banks, packets }, fillOf, FLAGS: { WORK, WASTE, KERNEL },
  });
})();

"use strict";
// What stands beside the canvas: the card under the pointer and the names of the tracks. Text goes in as text.
(() => {
  const $ = s => document.querySelector(s);
  const node = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
  function describe(tl, h) {
    const w = trnprof.words, f = h.f, i = h.i, est = t => tl.estimate(t), rows = [], row = (k, v) => rows.push([k, v]);
    let title = f && f.label?.[i] >= 0 ? f.labels[f.label[i]][0] : h.r.name, note = h.r.name;
    const t0 = f?.start?.[i], len = f?.length?.[i];
    if (h.kind === "gap") {
      title = `Idle ${est(w.time(f.gapEnd[i] - f.gapStart[i]))}`;
      row("from", w.moment(f.gapStart[i])); row("for", f.labels[f.gapLabel[i]]?.[1] || "cause not recorded");
    } else if (h.kind === "cluster") {
      title = `${w.count(f.count[i])} ${h.r.kind === "regions" ? "regions" : h.r.kind === "instructions" ? "instructions" : "transfers"}`; note = "too close to draw apart";
      row("from", w.moment(t0)); row("to", w.moment(t0 + len)); row("busy", est(w.share(f.busy[i] / 255)));
      if (f.label[i] >= 0) row("longest", f.labels[f.label[i]][0]);
    } else if (h.kind === "bound") {
      title = trnprof.ink.BOUNDS[f.colourOf[i]].replace("_", " "); title = title[0].toUpperCase() + title.slice(1); note = "most limiting thing active";
      row("from", w.moment(t0)); row("for", est(w.time(len)));
    } else if (h.kind === "level") {
      title = h.r.name; note = h.r.words || h.r.topWords;
      const k = Math.floor((tl.t(tl.cursor) - f.t0) / f.bucket), lines = [];
      for (let j = h.at[0]; j < h.at[1]; j++) lines.push(f.values[j * f.columnsPerLevel + k]);
      if (lines.every(v => Number.isNaN(v) || v === undefined)) return null;
      if (lines.length === 1) row("here", `${w.share(lines[0] / h.r.cap)} of ${h.r.cap_words}`);
      else row("in use", `${lines.filter(v => v > 0).length} of ${lines.length}`);
    } else if (h.kind === "packets") { return null; } else {
      if (h.kind === "region") { title = f.labels[f.label[i]]?.[1] || title; note = h.r.name; }
      row("start", w.moment(t0)); row("took", h.kind === "region" ? est(w.time(len)) : est(w.exact(len)));
      const w0 = h.kind === "ins" ? waited(tl, f, f.row[i], h.r) : null;
      if (w0) row("waited", w0);
      if (h.kind === "region") row("share", `${w.share(len / (tl.start.window[1] - tl.start.window[0]))} of the window`);
    }
    return { title, note, rows, colour: h.kind === "ins" || h.kind === "transfer" ? trnprof.ink.ENGINES[h.r.colour] : null };
  }
  /** The idle time before an instruction, where the frame holds it. */
  function waited(tl, f, row, r) {
    const at = f.gapsOf[r.id];
    for (let k = at?.[0]; k < at?.[1]; k++) if (f.gapRow[k] === row) {
      const cause = f.labels[f.gapLabel[k]]?.[1];
      return tl.estimate(trnprof.words.time(f.gapEnd[k] - f.gapStart[k])) + (cause ? ` for ${cause}` : "");
    }
    return null;
  }
  function hover(tl, h, x, y, card = $("#hover"), stage = $(".stage")) {
    const said = h && describe(tl, h);
    card.hidden = !said;
    if (!said) return;
    card.replaceChildren();
    const top = node("div", undefined, "row");
    if (said.colour) { const k = node("span", undefined, "swatch small"); k.style.setProperty("--c", `var(--${said.colour})`); top.append(k); }
    top.append(node("b", said.title, "grow"), node("span", said.note, "dim"));
    const list = node("dl", undefined, "kv");
    for (const [k, v] of said.rows) list.append(node("dt", k, "dim"), node("dd", v));
    card.append(top, list);
    if (h.kind === "cluster") card.append(node("p", "click to zoom in", "dim"));
    const s = stage.getBoundingClientRect(), r = card.getBoundingClientRect();
    card.style.left = `${Math.max(4, x + 16 + r.width > s.width ? x - r.width - 12 : x + 16)}px`;
    card.style.top = `${Math.max(4, Math.min(s.height - r.height - 6, y + 18))}px`;
  }


  function gutter(tl, st, g = $("#gutter")) {
    g.replaceChildren(); g.style.height = `${tl.height}px`;
    for (const r of tl.rows) {
      const e = node(r.kind === "group" ? "button" : "div", undefined, `glabel${r.kind === "group" ? " group" : ""}${r.minor || r.h < 15 ? " minor" : ""}`);
      e.style.top = `${r.y}px`; e.style.height = `${r.h}px`; e.title = r.name;
      if (r.kind === "group") { e.dataset.fold = r.id; e.setAttribute("aria-expanded", !st.closed.has(r.id)); e.append(node("span", r.name, "name clip"), node("span", r.code, "code")); g.append(e); continue; }
      const key = node("span", undefined, "key");
      if (!["bound", "regions", "path"].includes(r.kind) && !(r.minor && r.kind === "packets")) { key.style.setProperty("--c", `var(--${trnprof.ink.ENGINES[r.colour]})`); }
      if (st.pinned.has(r.id)) e.classList.add("pinned");
      e.append(key, node("span", r.name, "name grow clip"), node("span", r.words, "val"), node("span", r.code, "code"));
      g.append(e);
    }
  }
  window.trnprof = Object.assign(window.trnprof || {}, { beside: { hover, gutter, node } });
})();

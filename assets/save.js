"use strict";
// What is taken along: the picture as PNG or SVG, the rows in view as CSV.
(() => {
  const RULER = 24, FOOT = 22;
  function hand(href, name) {
    const a = document.createElement("a");
    a.href = href; a.download = name; document.body.append(a); a.click(); a.remove();
    if (href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(href), 5000);
  }
  const gutter = () => document.querySelector("#gutter").clientWidth;
  /** Names of the tracks and the caption, with either kind of context. */
  function around(tl, g, wide, top) {
    const P = tl.P;
    g.font = trnprof.ink.FONT; g.textBaseline = "middle";
    for (const r of tl.rows) {
      const name = wide > 100 ? r.name : r.code, key = trnprof.ink.ENGINES[r.colour], y = top + r.y + r.h / 2;
      if (r.kind !== "group" && !["bound", "regions", "path"].includes(r.kind)) { g.fillStyle = P[key]; g.fillRect(5, y - 4, 8, 8); }
      g.fillStyle = r.kind === "group" ? P["text-3"] : P.text; g.fillText(clipped(g, name, wide - 24), r.kind === "group" ? 6 : 18, y);
    }
    g.fillStyle = P["text-3"]; g.fillText(tl.start.caption, 6, top + tl.height + FOOT / 2);
  }
  const clipped = (g, text, room) => { while (text && g.measureText(text).width > room) text = `${text.slice(0, -2)}…`; return text; };

  /** The picture as it is seen. */
  function png(tl) {
    const dpr = window.devicePixelRatio || 1, wide = gutter(), c = document.createElement("canvas"), w = wide + tl.w, h = RULER + tl.height + FOOT;
    c.width = w * dpr; c.height = h * dpr;
    const g = c.getContext("2d"); g.scale(dpr, dpr); g.fillStyle = tl.P.bg; g.fillRect(0, 0, w, h);
    g.drawImage(tl.ruler, wide, 0, tl.w, RULER); g.drawImage(tl.canvas, wide, RULER, tl.w, tl.height);
    around(tl, g, wide, RULER);
    c.toBlob(blob => hand(URL.createObjectURL(blob), `${tl.start.name}.png`));
  }
  /** The picture for a document: in the light theme, with text as text. */
  function text(tl) {
    const root = document.documentElement, theme = root.dataset.theme, wide = gutter(), measure = document.createElement("canvas").getContext("2d");
    const [picture, ruler, rest] = [1, 2, 3].map(() => new trnprof.Pen(measure)), cursor = tl.cursor;
    root.dataset.theme = "light"; trnprof.ink.forget();
    try {
      Object.assign(tl, { cursor: null, hover: null }); tl.canvas.pen = picture; tl.ruler.pen = ruler;
      tl.draw(); around(tl, rest, wide, RULER);
    } finally {
      delete tl.canvas.pen; delete tl.ruler.pen; tl.cursor = cursor; root.dataset.theme = theme; trnprof.ink.forget(); tl.draw();
    }
    const w = wide + tl.w, h = RULER + tl.height + FOOT, defs = [picture, ruler, rest].flatMap(p => [...p.defs.values()]).join("");
    const part = (pen, x, y, height) => `<svg x="${x}" y="${y}" width="${x ? tl.w : w}" height="${height}" overflow="hidden">${pen.out.join("")}</svg>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img" xml:space="preserve" font-family="Segoe UI, Noto Sans, Liberation Sans, Arial, sans-serif" dominant-baseline="central">`
      + `<title>${trnprof.escape(tl.start.caption)}</title><defs>${defs}</defs><rect width="100%" height="100%" fill="#ffffff"/>`
      + `${part(ruler, wide, 0, RULER)}${part(picture, wide, RULER, tl.height)}${part(rest, 0, 0, h)}</svg>`;
  }
  const svg = tl => hand(URL.createObjectURL(new Blob([text(tl)], { type: "image/svg+xml" })), `${tl.start.name}.svg`);
  /** Rows of the selected area, else of what is in view; the server writes them as they are asked for. */
  function csv(tl) {
    const [t0, t1] = (tl.area || tl.view).map(Math.round);
    hand(`${tl.frames.base}view.csv?${new URLSearchParams({ t0, t1 })}`, `${tl.start.name}.csv`);
  }
  window.trnprof = Object.assign(window.trnprof || {}, { save: { png, svg, csv, text } });
})();

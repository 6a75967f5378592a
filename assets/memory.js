"use strict";
// The memory map: what lies in SBUF and PSUM at a moment, partitions down, bytes of a partition across.
(() => {
  const { SMALL, surface, palette, inkOn, label } = trnprof.ink, HEIGHT = { SBUF: 150, PSUM: 110 }, COLOUR = { SBUF: "vector", PSUM: "tensor" };
  let shown = null, hits = [], asked = 0, wanted = null;

  /** Draw a card of the server onto the canvases of the tab. */
  function draw(card) {
    shown = card; hits = [];
    for (const map of card.maps) {
      const canvas = document.querySelector(`[data-memory="${map.name}"]`);
      if (canvas) paint(canvas, map);
      const used = document.querySelector(`#used-${map.name}`);
      if (used) used.textContent = map.used_words;
    }
    const at = document.querySelector("#memory-at");
    if (at) at.textContent = card.moment;
  }
  function paint(canvas, map) {
    canvas.style.width = "100%";
    const w = canvas.clientWidth, h = HEIGHT[map.name], g = surface(canvas, w, h), P = palette();
    const X = b => b / map.shown_bytes * w, Y = p => p / map.partitions * h, fill = P[COLOUR[map.name]];
    g.fillStyle = P.bg; g.fillRect(0, 0, w, h);
    g.font = SMALL;
    for (const t of [...map.tiles].sort((a, b) => a.offset - b.offset)) {
      const x0 = X(t.offset), x1 = Math.max(X(t.offset + t.bytes), x0 + 1), y0 = Y(t.partition), y1 = Math.max(Y(t.partition + t.partitions), y0 + 1);
      g.globalAlpha = .8; g.fillStyle = fill; g.fillRect(x0, y0, x1 - x0, y1 - y0); g.globalAlpha = 1;
      g.fillStyle = P.bg; g.fillRect(x1 - .5, y0, .5, y1 - y0);
      if (y1 - y0 > 12) label(g, [t.name], x0, x1 - x0, (y0 + y1) / 2, inkOn(fill), w, 2);
      hits.push({ canvas, x0, x1, y0, y1, t });
    }
    g.strokeStyle = P["line-2"]; g.lineWidth = 1; g.strokeRect(.5, .5, w - 1, h - 1);
    g.fillStyle = P["line-2"];
    for (let k = 1; k < map.banks; k++) g.fillRect(Math.round(X(map.shown_bytes * k / map.banks)), 0, 1, h);
  }
  /** Another moment, at most one question at a time; the latest wins. */
  function follow(tl, t) {
    wanted = Math.round(t);
    if (asked || !document.querySelector("[data-memory]")) return;
    asked = 1; const now = wanted;
    tl.frames.json("memory", { t: now }).then(draw, () => {}).finally(() => { asked = 0; if (wanted !== now) follow(tl, wanted); });
  }
  const tileAt = (canvas, x, y) => hits.find(h => h.canvas === canvas && x >= h.x0 - 1 && x <= h.x1 + 1 && y >= h.y0 && y <= h.y1)?.t;
  /** Draw when Dash has put the tab's canvases in place. */
  function watch(now) {
    const tab = document.querySelector("#tab");
    if (tab) new MutationObserver(() => { const c = tab.querySelector("[data-memory]"); if (c && !c.dataset.drawn) { c.dataset.drawn = 1; now(); } }).observe(tab, { childList: true, subtree: true });
  }
  const redraw = () => { if (shown && document.querySelector("[data-memory]")) draw(shown); };
  window.trnprof = Object.assign(window.trnprof || {}, { memory: { follow, watch, tileAt, redraw } });
})();

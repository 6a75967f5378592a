"use strict";
// Ink: colours of the theme, hatches, and text that is whole or absent. Knows nothing of traces.
(() => {
  const FONT = '11px "Segoe UI", Inter, Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif';
  const SMALL = FONT.replace("11px", "10px");
  const ENGINES = ["tensor", "vector", "scalar", "gpsimd", "sync", "dma", "cc", "other", "neutral"];
  const BOUNDS = ["compute", "memory_bandwidth", "memory_capacity", "network", "latency"];
  const TOKENS = ["bg", "surface", "raised", "hover", "line", "line-2", "text", "text-2", "text-3", "accent", "select", "shade",
    "hue-1", "hue-2", "hue-3", "hue-4", "hue-5", "hue-6", "hue-7", "hue-8", "mark", "bad", "neutral-ink", "region", "region-ink", ...ENGINES, ...BOUNDS];

  /** Size a canvas for the screen's pixels and return a context in CSS pixels. */
  function surface(canvas, w, h) {
    if (canvas.pen) { canvas.pen.font = FONT; canvas.pen.textBaseline = "middle"; return canvas.pen; }
    const dpr = window.devicePixelRatio || 1, width = Math.round(w * dpr), height = Math.round(h * dpr);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width; canvas.height = height; canvas.style.height = `${h}px`;
    }
    const g = canvas.getContext("2d");
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = FONT; g.textBaseline = "middle";
    return g;
  }
  const snap = x => { const d = window.devicePixelRatio || 1; return Math.round(x * d) / d; };

  let colours = null;
  /** The theme's colours by token; read anew after a change of theme. */
  function palette() {
    if (colours) return colours;
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(TOKENS.map(k => [k, style.getPropertyValue(`--${k}`).trim()]));
    colours.dark = style.colorScheme === "dark";
    colours.contrast = document.documentElement.dataset.theme === "contrast";
    return colours;
  }
  const forget = () => { colours = null; INKS.clear(); };

  const INKS = new Map();
  const luma = hex => {
    const v = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2];
  };
  function inkOn(hex) {
    if (!INKS.has(hex)) { const l = luma(hex); INKS.set(hex, (l + .05) / .053 > 1.05 / (l + .05) ? "#0b0d10" : "#ffffff"); }
    return INKS.get(hex);
  }
  /** What a hatch, a tail or an edge is drawn with on a colour. */
  const shadeOn = (hex, dark, light) => inkOn(hex) === "#ffffff" ? `#ffffff${light}` : `#000000${dark}`;

  const TILES = new Map();
  /** Hatch tiles: the second channel beside colour. */
  function tile(g, kind, stroke) {
    if (g.pattern) return g.pattern(kind, stroke);
    const key = `${kind}|${stroke}`;
    if (TILES.has(key)) return TILES.get(key);
    const s = 6, k = 2, c = document.createElement("canvas"), x = c.getContext("2d");
    c.width = c.height = s * k; x.scale(k, k); x.strokeStyle = x.fillStyle = stroke; x.lineWidth = 1;
    const line = (a, b, d, e) => { x.beginPath(); x.moveTo(a, b); x.lineTo(d, e); x.stroke(); };
    if (["latency", "wait", "waste"].includes(kind)) { line(-1, 7, 7, -1); line(-1, 1, 1, -1); line(5, 7, 7, 5); }
    if (kind === "memory_bandwidth") { line(0, 1.5, 6, 1.5); line(0, 4.5, 6, 4.5); }
    if (kind === "memory_capacity") { line(0, 3, 6, 3); line(3, 0, 3, 6); }
    if (kind === "network") { x.fillRect(1, 1, 1.4, 1.4); x.fillRect(4, 4, 1.4, 1.4); }
    const p = g.createPattern(c, "repeat");
    p.setTransform(new DOMMatrix().scale(1 / k));
    TILES.set(key, p);
    return p;
  }

  const WIDTHS = new Map();
  function width(g, text) {
    const key = g.font + text;
    if (!WIDTHS.has(key)) { if (WIDTHS.size > 5000) WIDTHS.clear(); WIDTHS.set(key, g.measureText(text).width); }
    return WIDTHS.get(key);
  }
  /** The first text that fits between x and x + w, stuck to the left edge of the screen: a name is whole or absent. */
  function label(g, texts, x, w, y, ink, right, pad = 5) {
    const left = Math.max(x, 0), room = Math.min(x + w, right) - left - pad * 2;
    if (room < 4) return false;
    for (const text of texts) if (text && width(g, text) <= room) { g.fillStyle = ink; g.fillText(text, left + pad, y); return true; }
    return false;
  }
  /** Text on a ground of its own that lets the picture through. */
  function caption(g, text, x, y, P, align = "left") {
    const tw = width(g, text), left = align === "right" ? x - tw : x;
    g.fillStyle = P.bg; g.globalAlpha = .78; g.fillRect(left - 3, y - 6.5, tw + 6, 13); g.globalAlpha = 1;
    g.fillStyle = P["text-3"]; g.fillText(text, left, y);
  }
  window.trnprof = Object.assign(window.trnprof || {}, {
    ink: { FONT, SMALL, ENGINES, BOUNDS, surface, snap, palette, forget, inkOn, shadeOn, tile, width, label, caption },
  });
})();

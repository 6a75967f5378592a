"use strict";
// A pen that writes SVG with the calls of a canvas context, as far as the timeline uses them. Text stays text.
(() => {
  const escape = text => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
  const n = v => Math.round(v * 100) / 100;

  class Pen {
    constructor(measure) { Object.assign(this, { measure, out: [], defs: new Map(), path: "", fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "", textBaseline: "", dash: [] }); }
    measureText(text) { this.measure.font = this.font; return this.measure.measureText(text); }
    setTransform() {}
    clearRect() {}
    setLineDash(dash) { this.dash = dash; }
    /** A hatch of `ink.tile`. */
    pattern(kind, stroke) {
      const id = `h${kind}${stroke.replace("#", "")}`, line = d => `<path d="${d}" fill="none"/>`;
      const shape = kind === "memory_bandwidth" ? line("M0 1.5H6M0 4.5H6") : kind === "memory_capacity" ? line("M0 3H6M3 0V6")
        : kind === "network" ? `<path d="M1 1h1.4v1.4h-1.4zM4 4h1.4v1.4h-1.4z" fill="${stroke}" stroke="none"/>` : line("M-1 7L7-1M-1 1L1-1M5 7L7 5");
      this.defs.set(id, `<pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse"><g stroke="${stroke}">${shape}</g></pattern>`);
      return `url(#${id})`;
    }
    get faint() { return this.globalAlpha < 1 ? ` opacity="${n(this.globalAlpha)}"` : ""; }
    get line() { return `fill="none" stroke="${this.strokeStyle}" stroke-width="${n(this.lineWidth)}"${this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : ""}`; }
    rect(x, y, w, h, style) { if (w > 0 && h > 0) this.out.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" ${style}${this.faint}/>`); }
    fillRect(x, y, w, h) { this.rect(x, y, w, h, `fill="${this.fillStyle}"`); }
    strokeRect(x, y, w, h) { this.rect(x, y, w, h, this.line); }
    fillText(text, x, y) {
      const size = /([\d.]+)px/.exec(this.font)?.[1] || 11;
      this.out.push(`<text x="${n(x)}" y="${n(y)}" font-size="${size}" fill="${this.fillStyle}"${this.faint}>${escape(text)}</text>`);
    }
    beginPath() { this.path = ""; }
    moveTo(x, y) { this.path += `M${n(x)} ${n(y)}`; }
    lineTo(x, y) { this.path += `${this.path ? "L" : "M"}${n(x)} ${n(y)}`; }
    bezierCurveTo(...p) { this.path += `C${p.map(n).join(" ")}`; }
    closePath() { this.path += "Z"; }
    arc(x, y, r) { this.path += `M${n(x - r)} ${n(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`; }
    roundRect(x, y, w, h, r) { this.path += `M${n(x + r)} ${n(y)}h${n(w - 2 * r)}a${r} ${r} 0 0 1 ${r} ${r}v${n(h - 2 * r)}a${r} ${r} 0 0 1 ${-r} ${r}h${n(2 * r - w)}a${r} ${r} 0 0 1 ${-r} ${-r}v${n(2 * r - h)}a${r} ${r} 0 0 1 ${r} ${-r}Z`; }
    fill() { if (this.path) this.out.push(`<path d="${this.path}" fill="${this.fillStyle}"${this.faint}/>`); }
    stroke() { if (this.path) this.out.push(`<path d="${this.path}" ${this.line}${this.faint}/>`); }
  }
  window.trnprof = Object.assign(window.trnprof || {}, { Pen, escape });
})();

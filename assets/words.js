"use strict";
// The few forms that follow the pointer; the same as trnprof/view/format.py, which writes all other text.
(() => {
  const NARROW = "\u202f", THIN = "\u2009", MINUS = "\u2212";
  const group = text => text.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  const fixed = (value, places) => {
    const [whole, part] = Math.abs(value).toFixed(places).split(".");
    return group(whole) + (part ? `.${part}` : "");
  };
  const round3 = value => Number(value.toPrecision(3));
  const digits = value => {
    if (value === 0) return "0";
    const places = 2 - Math.floor(Math.log10(round3(Math.abs(value))));
    return fixed(value, Math.max(0, Math.min(12, places)));
  };
  const TIME = [["ps", 1], ["ns", 1e3], ["µs", 1e6], ["ms", 1e9], ["s", 1e12]];

  /** A length of time: `23.1 µs`. */
  const time = ps => {
    if (ps === 0) return `0${NARROW}ns`;
    const size = round3(Math.abs(ps)), [unit, scale] = TIME.filter(([, s]) => size >= s).at(-1) || TIME[0];
    return `${ps < 0 ? MINUS : ""}${digits(ps / scale)}${NARROW}${unit}`;
  };
  const nearest = (value, step) => Math.floor((Math.abs(value) + step / 2) / step) * (value < 0 ? -1 : 1);
  const sign = value => value < 0 ? MINUS : "";
  const count = n => sign(n) + group(String(Math.abs(n)));
  /** Whole nanoseconds: `1 206 ns`. */
  const exact = ps => `${count(nearest(ps, 1000))}${NARROW}ns`;
  /** A point in time: `26.059 µs`. */
  const moment = ps => {
    const ns = nearest(Math.abs(ps), 1000);
    return `${sign(ps)}${group(String(Math.floor(ns / 1000)))}.${String(ns % 1000).padStart(3, "0")}${NARROW}µs`;
  };
  const share = x => x > 0 && x < .01 ? `<1${NARROW}%` : `${Math.floor(x * 100 + .5)}${NARROW}%`;

  /** The smallest 1-2-5 step that puts at most `most` ticks into a span. */
  const stepOf = (span, most) => {
    const raw = Math.max(1, span / Math.max(1, most));
    for (let step = 1; ; step *= 10) for (const factor of [1, 2, 5]) if (step * factor >= raw) return step * factor;
  };
  const TICK = [["s", 1e12, 1e11], ["ms", 1e9, 1e8], ["µs", 1e6, 1e3], ["ns", 1e3, 10], ["ps", 1, 1]];
  /** A moment to the decimals that the step needs. */
  const tick = (at, step) => {
    const [unit, scale] = TICK.find(([, , least]) => step >= least);
    let places = 0;
    while (step * 10 ** places % scale && places < 6) places++;
    return `${sign(at)}${fixed(at / scale, places)}${NARROW}${unit}`;
  };
  const ticks = (t0, t1, most) => {
    const step = stepOf(t1 - t0, most), out = [];
    for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) out.push([t, tick(t, step)]);
    out.step = step;
    return out;
  };
  window.trnprof = Object.assign(window.trnprof || {}, { words: { time, exact, moment, share, count, tick, ticks, stepOf } });
})();

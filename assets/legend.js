"use strict";
// The legend: what each colour means and how much of the trace it has. A row shows its colour alone; several can be on.
(() => {
  const $ = s => document.querySelector(s), { node } = trnprof.beside, { ENGINES, BOUNDS } = trnprof.ink;
  let shown = "", rows = [];

  const inks = (way, hued) => way === "bound" ? k => BOUNDS[k] : hued ? k => k < 0 ? "neutral" : `hue-${k + 1}` : k => ENGINES[k];
  /** Ask for the legend of a way of colouring and put it in place. */
  async function show(tl, way, fetched) {
    const box = $("#legend"); if (!box) return;
    $("#colour").value = way;
    if (shown !== `${tl.start.name} ${way}`) {
      const found = await fetched("legend", { colour: way });
      if (!found || tl.colour !== way) return;
      shown = `${tl.start.name} ${way}`; rows = found;
      const ink = inks(way, tl.start.hued.includes(way));
      box.replaceChildren(...found.map(r => {
        const b = node("button"), key = node("span", undefined, `swatch small ${way === "bound" ? BOUNDS[r.colour] : ""}`);
        key.style.setProperty("--c", `var(--${ink(r.colour)})`);
        b.dataset.only = r.colour; b.title = `${r.name}, ${r.time_words}, ${trnprof.words.count(r.count)}`;
        b.append(key, node("span", r.name, "clip"), node("span", r.share_words, "dim"));
        return b;
      }));
    }
    mark(tl);
  }
  function mark(tl) {
    document.querySelectorAll("#legend [data-only]").forEach(b => {
      const on = tl.only.includes(+b.dataset.only);
      b.setAttribute("aria-pressed", on); b.classList.toggle("off", !!tl.only.length && !on);
    });
  }
  /** With a colour, switch it; without one, step to the next. What is shown alone, none for all. */
  function next(only, colour) {
    if (colour !== undefined) return only.includes(colour) ? only.filter(k => k !== colour) : [...only, colour].sort((a, b) => a - b);
    const at = rows.findIndex(r => r.colour === only.at(-1));
    return at + 1 < rows.length ? [rows[at + 1].colour] : [];
  }
  const name = only => rows.filter(r => only.includes(r.colour)).map(r => r.name).join(", ");
  const forget = () => { shown = ""; };
  window.trnprof = Object.assign(window.trnprof || {}, { legend: { show, mark, next, name, forget } });
})();

"use strict";
// Fetches frames and keeps them: what the server draws of a stretch of time, as typed arrays.
(() => {
  const KEPT = 24, TYPES = { Float64Array, Float32Array, Int32Array, Int16Array, Int8Array, Uint8Array };

  /** A body of trnprof/web/wire.py: its head, with each column as a typed array. */
  function unpack(buffer) {
    const size = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
    for (const [name, type, at, length] of head.columns) head[name] = new TYPES[type](buffer, 4 + size + at, length);
    return head;
  }

  /** Where the rows of each track begin and end in a column of track positions, which is in order. */
  function extents(column, tracks) {
    const out = {};
    for (let i = 0; i < column.length;) {
      const first = i, position = column[i];
      while (i < column.length && column[i] === position) i++;
      out[tracks[position]] = [first, i];
    }
    return out;
  }

  function prepare(frame) {
    frame.marksOf = extents(frame.track, frame.tracks);
    frame.gapsOf = extents(frame.gapTrack, frame.tracks);
    frame.levelsOf = extents(frame.levelTrack, frame.tracks);
    frame.columnsPerLevel = frame.levels ? frame.values.length / frame.levels : 0;
    return frame;
  }

  /** An answer, or an Error that carries the server's sentence. */
  async function ask(path) {
    const reply = await fetch(path);
    if (reply.ok) return reply;
    let said = "";
    try { said = (await reply.json()).error; } catch { said = `the server answered ${reply.status}`; }
    throw new Error(said);
  }

  class Frames {
    constructor(name, onload, onfault) {
      Object.assign(this, { base: `/trace/${encodeURIComponent(name)}/`, onload, onfault, kept: [], busy: false, next: null });
    }
    async json(what, query = {}) {
      return (await ask(`${this.base}${what}?${new URLSearchParams(query)}`)).json();
    }
    async overview(columns) {
      return unpack(await (await ask(`${this.base}overview?columns=${columns}`)).arrayBuffer());
    }
    bucket(view, columns) {
      const span = Math.max(1, Math.round(view[1]) - Math.round(view[0])), per = Math.floor((span - 1) / columns);
      return 2 ** (per > 0 ? Math.floor(Math.log2(per)) + 1 : 0);
    }
    /** The sharpest kept frame that covers the view in this colour; asks for a better one when there is none. */
    best(view, columns, colour, tracks, only = []) {
      const wanted = this.bucket(view, columns), key = `${tracks.join()}|${only.join()}`;
      const covers = f => f.colour === colour && f.key === key && f.t0 <= view[0] && f.t1 >= view[1];
      const sharp = this.kept.find(f => f.bucket === wanted && covers(f));
      if (!sharp) this.request(view, columns, colour, tracks, key, only);
      if (sharp) this.touch(sharp);
      return sharp || this.stretched(view, wanted, colour, covers);
    }
    /** While fresh detail loads, the nearest older picture stays. */
    stretched(view, wanted, colour, covers) {
      const overlap = f => Math.max(0, Math.min(f.t1, view[1]) - Math.max(f.t0, view[0])) / (view[1] - view[0]);
      const score = f => overlap(f) * 100 - Math.abs(Math.log2(f.bucket / wanted)) + (f.colour === colour ? 1 : 0) + (covers(f) ? 1 : 0);
      return this.kept.reduce((a, b) => !a || score(b) > score(a) ? b : a, null);
    }
    touch(frame) {
      const at = this.kept.indexOf(frame);
      if (at > 0) { this.kept.splice(at, 1); this.kept.unshift(frame); }
    }
    request(view, columns, colour, tracks, key, only) {
      const span = view[1] - view[0];
      this.next = {
        key, query: {
          t0: Math.floor(view[0] - span), t1: Math.ceil(view[1] + span), columns: columns * 3, colour, tracks: tracks.join(), only: only.join(),
        },
        bucket: this.bucket(view, columns), view,
      };
      if (!this.busy) this.load();
    }
    async load() {
      this.busy = true;
      while (this.next) {
        const { key, query, bucket, view } = this.next;
        this.next = null;
        // The margin's rounding must not change the bucket of the view itself.
        const span = (query.t1 - query.t0), columns = Math.min(20000, Math.ceil(span / bucket));
        try {
          const body = await (await ask(`${this.base}frame?${new URLSearchParams({ ...query, columns })}`)).arrayBuffer();
          const frame = prepare(unpack(body));
          frame.key = key;
          this.kept.unshift(frame);
          if (this.kept.length > KEPT) this.kept.pop();
          this.onload(frame, view);
        } catch (fault) {
          this.onfault(fault);
          break;
        }
      }
      this.busy = false;
    }
  }
  window.trnprof = Object.assign(window.trnprof || {}, { Frames, unpack });
})();

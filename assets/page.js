"use strict";
// The page around the timeline: state in the address, keys, pointer, selection. Dash fills the panel; this asks it to.
(() => {
  const $ = s => document.querySelector(s), TABS = ["instruction", "verdict", "engines", "roofline", "regions", "source", "advice", "path", "memory"], STAY = ["source", "engines", "memory"], PAGES = ["roofline", "compare", "whatif", "listing", "open"];
  const ADDRESS_MS = 200, SEARCH_MS = 120;
  let tl = null, start = null, st = null, drag = null, query = "", numbering = "", opened = null, addressed = 0, searching = 0;
  const pointers = new Map();

  // --- state in the address ---------------------------------------------------------------------------------------
  const set = text => new Set((text || "").split("~").filter(Boolean));
  function read() {
    const h = new URLSearchParams(location.hash.slice(1)), pair = k => h.get(k)?.split(",").map(Number).filter(Number.isFinite);
    const two = k => { const p = pair(k); return p?.length === 2 && p[1] > p[0] ? p : null; };
    const quiet = start.tracks.filter(t => t.quiet).map(t => t.group);
    st = {
      theme: h.get("theme") || localStorage.getItem("trnprof.theme") || "", colour: start.colours.includes(h.get("colour")) ? h.get("colour") : "engine", only: pair("only") || [],
      tab: TABS.includes(h.get("tab")) ? h.get("tab") : "instruction", page: PAGES.includes(h.get("page")) ? h.get("page") : "", other: h.get("with") || "", first: 0, wish: h.get("set") || "", at: null,
      row: /^\d+$/.test(h.get("sel") || "") ? +h.get("sel") : -1, transfer: /^\d+$/.test(h.get("dma") || "") ? +h.get("dma") : -1,
      area: two("area"), title: h.get("title") || "", view: two("t"), gap: null, panel: h.get("panel") !== "0",
      closed: h.has("closed") ? set(h.get("closed")) : new Set(quiet), hidden: set(h.get("hidden")), pinned: set(h.get("pinned")),
      order: [...set(h.get("order"))], marks: (pair("marks") || []), q: h.get("q") || "",
    };
  }
  function write() {
    const h = new URLSearchParams(), put = (k, v) => { if (v !== "" && v !== null && v !== undefined) h.set(k, v); };
    put("theme", st.theme); if (st.colour !== "engine") put("colour", st.colour); put("only", tl.only.join()); if (st.tab !== "instruction") put("tab", st.tab);
    put("page", st.page); if (st.page === "compare") put("with", st.other); if (st.page) put("set", st.wish); if (st.row >= 0) put("sel", st.row); if (st.transfer >= 0) put("dma", st.transfer);
    if (st.area) { put("area", st.area.map(Math.round).join()); put("title", st.title); }
    if (!tl.atHome()) put("t", tl.view.map(Math.round).join());
    put("closed", [...st.closed].join("~")); put("hidden", [...st.hidden].join("~")); put("pinned", [...st.pinned].join("~"));
    put("order", st.order.join("~")); put("marks", tl.marks.map(Math.round).join()); put("q", query); if (!st.panel) put("panel", "0");
    history.replaceState(history.state, "", `${location.pathname}${location.search}#${h}`);
  }
  const remember = () => { clearTimeout(addressed); addressed = setTimeout(write, ADDRESS_MS); };

  // --- what Dash is asked -----------------------------------------------------------------------------------------
  const send = (id, props) => window.dash_clientside.set_props(id, props);
  function ask() {
    const panel = $(".panel");
    document.querySelectorAll("[role=tab]").forEach(b => {
      b.setAttribute("aria-selected", b.dataset.tab === st.tab);
      if (b.dataset.tab === st.tab) b.parentElement.scrollLeft = Math.max(0, b.offsetLeft + b.offsetWidth - b.parentElement.clientWidth + 12);
    });
    panel?.classList.toggle("off", !st.panel); document.body.dataset.tab = st.tab;
    send("ask", { data: {
      trace: start.name, tab: st.tab, row: st.row, transfer: st.transfer >= 0 ? st.transfer : null, area: st.area?.map(Math.round) || null,
      title: st.title, gap: st.gap, at: Math.round(moment()), theme: theme(), width: Math.max(260, (panel?.clientWidth || 360) - 34),
    } });
  }
  /** Of what memory is shown: of the selection, else of the last click. */
  const moment = () => tl.chosen?.t0_ps ?? st.area?.[0] ?? st.at ?? (start.window[0] + start.window[1]) / 2;
  function askChart() {
    const box = $("#roofline");
    box.hidden = !st.page; document.body.dataset.page = st.page;
    $("main").hidden = !!st.page;
    trnprof.compare.close();
    if (box.hidden) { tl.relayout(); tl.request(); return; }
    const side = innerWidth > 760 ? 372 + 40 : 24;
    send("chart", { data: { page: st.page, other: st.other, wish: st.wish, first: st.first, view: tl.view.map(Math.round), trace: start.name, theme: theme(), area: st.area?.map(Math.round) || null, width: Math.max(280, innerWidth - side), height: Math.max(320, Math.min(640, innerHeight - 250)) } });
  }

  // --- theme --------------------------------------------------------------------------------------------------------
  const system = () => matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  const theme = () => start.themes.includes(st.theme) ? st.theme : system();
  function paintTheme() {
    document.documentElement.dataset.theme = theme();
    trnprof.ink.forget();
  }
  const nextTheme = () => setTheme(start.themes[(start.themes.indexOf(theme()) + 1) % start.themes.length]);
  function setTheme(name) {
    st.theme = name;
    localStorage.setItem("trnprof.theme", st.theme);
    paintTheme(); trnprof.memory.redraw(); ask(); if (st.page) askChart(); tl.request(); remember();
  }

  // --- selection ----------------------------------------------------------------------------------------------------
  function clear() { Object.assign(st, { row: -1, transfer: -1, area: null, gap: null, title: "" }); tl.chosen = null; tl.area = null; }
  function settle(tab = true) {
    if (tab && !STAY.includes(st.tab)) st.tab = "instruction";
    ask(); status(); tl.request(); remember();
  }
  /** Select an instruction by its card; a jump off the screen moves the view and blinks once. */
  function choose(card, move, keep = false) {
    if (!card) return;
    clear();
    st.row = card.row; tl.chosen = card;
    if (move) reveal(card);
    $("#live").textContent = card.spoken;
    settle(!keep);
  }
  function chooseTransfer(card, move) {
    if (!card) return;
    clear();
    st.transfer = card.row; tl.chosen = { ...card, after: null };
    if (move) reveal(card);
    $("#live").textContent = card.spoken;
    settle();
  }
  function reveal(card) {
    const before = [...tl.view];
    tl.show(card.t0_ps, card.t1_ps);
    const r = tl.byId[card.track], scroll = $("#scroll");
    if (r && (r.y < scroll.scrollTop || r.y + r.h > scroll.scrollTop + scroll.clientHeight)) scroll.scrollTop = Math.max(0, r.y - 60);
    if (before[0] !== tl.view[0] && !matchMedia("(prefers-reduced-motion: reduce)").matches) { tl.blink = true; setTimeout(() => { tl.blink = false; tl.request(); }, 200); }
  }
  function chooseArea(t0, t1, title = "") {
    clear();
    st.area = tl.area = [Math.min(t0, t1), Math.max(t0, t1)]; st.title = title;
    $("#live").textContent = `${title || "Area"}, ${tl.estimate(trnprof.words.time(st.area[1] - st.area[0]))}`;
    settle();
  }
  const fetched = (what, args) => tl.frames.json(what, args).catch(fault => { notice(fault.message); return null; });
  const pick = async (row, keep) => choose(await fetched("card", { row }), true, keep);
  async function step(by) {
    if (st.transfer >= 0) return chooseTransfer(await fetched("step", { row: st.transfer, by, kind: "transfers" }), true);
    if (st.row < 0) return choose(await fetched("first", { t0: Math.round(tl.view[0]), t1: Math.round(tl.view[1]) }), true);
    choose(await fetched("step", { row: st.row, by }), true);
  }
  async function follow(by) { if (st.row >= 0) choose(await fetched("follow", { row: st.row, by }), true); }
  /** The track above or below; the selection keeps its time. */
  async function trackBy(by) {
    const rows = tl.rows.filter(r => r.kind === "instructions"), now = rows.findIndex(r => r.id === tl.chosen?.track);
    if (now < 0) return step(1);
    const t = Math.round(tl.chosen.t0_ps);
    for (let k = now + by; rows[k]; k += by) { const card = await fetched("near", { track: rows[k].id, t }); if (card) return choose(card, true); }
  }
  function fitChosen() {
    const c = tl.chosen, [a, b] = st.area || (c ? [c.t0_ps, c.t1_ps] : tl.view), air = st.area ? .05 : .6;
    tl.set(a - (b - a) * air, b + (b - a) * air);
  }
  const pointerTime = () => live() !== tl ? undefined : tl.cursor !== null ? tl.t(tl.cursor) : (tl.view[0] + tl.view[1]) / 2;
  function areaKey() {
    if (opened === null) { opened = pointerTime(); at(`area from ${trnprof.words.moment(opened)}; v ends it`); return; }
    const from = opened; opened = null;
    if (Math.abs(pointerTime() - from) >= 1) chooseArea(from, pointerTime());
  }

  // --- search -------------------------------------------------------------------------------------------------------
  async function search(text) {
    query = text; numbering = "";
    if (!text) { tl.found = tl.foundAt = null; hits(""); tl.request(); remember(); return; }
    const found = await fetched("search", { q: text });
    if (!found || query !== text) return;
    tl.found = new Set(found.rows); tl.foundAt = found.starts; tl.foundRows = found.rows; tl.total = found.count;
    hits(found.error ? "not a pattern yet" : found.words.replace(" match", "")); tl.request(); remember();
  }
  const hits = text => { const e = $("#hits"); if (e) e.textContent = numbering && text ? `${numbering} of ${trnprof.words.count(tl.total)}` : text; };
  async function hitBy(by) {
    if (!query) return focusSearch();
    const answer = await fetched("hit", { q: query, row: st.row >= 0 ? st.row : beforeView(), by });
    if (!answer?.card) return;
    numbering = trnprof.words.count(answer.number);
    choose(answer.card, true); hits(" ");
  }
  /** The row after which the hits in view begin. */
  const beforeView = () => { const k = tl.foundAt?.findIndex(t => t >= tl.view[0]) ?? -1; return k < 0 ? -1 : tl.foundRows[k] - 1; };
  const focusSearch = () => $("#q")?.focus();

  // --- small words ----------------------------------------------------------------------------------------------------
  const at = text => { const e = $("#at"); if (e) e.textContent = text; };
  function status() {
    const w = trnprof.words, span = $("#span"), h = tl.hover;
    if (span) span.textContent = `${w.time(tl.view[1] - tl.view[0])} in view`;
    if (opened !== null) return;
    if (tl.cursor !== null) at(`${w.moment(tl.t(tl.cursor))}${h?.f && h.f.label[h.i] >= 0 && h.kind === "ins" ? `  ${h.f.labels[h.f.label[h.i]][0]}` : ""}`);
    else if (tl.chosen) at(`${tl.chosen.title} ${tl.chosen.id} ${tl.estimate(w.exact(tl.chosen.t1_ps - tl.chosen.t0_ps))}`);
    else if (st.area) at(`${tl.estimate(w.time(st.area[1] - st.area[0]))} selected`);
    else at("ready");
  }
  let noticed = 0;
  function notice(text) {
    const e = $("#notice"); if (!e) return;
    e.textContent = text; e.hidden = false; clearTimeout(noticed); noticed = setTimeout(() => { e.hidden = true; }, 6000);
  }

  const hoverCard = (h, x, y) => trnprof.beside.hover(tl, h, x, y), gutter = () => trnprof.beside.gutter(tl, st);
  function relayout() { tl.relayout(); gutter(); tl.request(); remember(); }

  // --- actions: one for every row of the key table ----------------------------------------------------------------------------
  /** What keys of time move: the pair of a comparison, else the timeline. */
  const live = () => st.page === "compare" && trnprof.compare.pair || tl;
  const underPointer = () => tl.byId[tl.chosen?.track] || tl.lastRow || null;
  const ACT = {
    zoom_in: () => live().zoom(.72, pointerTime()), zoom_out: () => live().zoom(1.39, pointerTime()),
    pan_left: () => live().pan(-.15), pan_right: () => live().pan(.15), page_left: () => live().pan(-.6), page_right: () => live().pan(.6),
    track_up: () => trackBy(-1), track_down: () => trackBy(1), fit: fitChosen, home: () => live().home(),
    goto: () => openLine("Go to time, id or line", gotoText), next: () => step(1), previous: () => step(-1), follow: () => follow(1), follow_back: () => follow(-1),
    area: areaKey, mark: () => { tl.marks.push(pointerTime()); tl.request(); remember(); }, clear_marks: () => { tl.marks = []; tl.request(); remember(); },
    clear: escape, search: focusSearch, next_hit: () => hitBy(1), previous_hit: () => hitBy(-1), find_track: () => openLine("Find a track", findTrack),
    fold: () => { const r = underPointer(); if (r) fold(r.kind === "group" ? r.id : r.group); },
    pin: () => { const r = underPointer(); if (r && r.kind !== "group") { st.pinned.has(r.id) ? st.pinned.delete(r.id) : st.pinned.add(r.id); relayout(); } },
    hide: () => { const r = underPointer(); if (r && r.kind !== "group" && !st.hidden.has(r.id)) st.hidden.add(r.id); else st.hidden.clear(); tl.lastRow = null; relayout(); },
    move_down: () => move(1), move_up: () => move(-1),
    colour: () => colour(start.colours[(start.colours.indexOf(st.colour) + 1) % start.colours.length]), only: () => only(trnprof.legend.next(tl.only)), everything: () => only([]),
    commands: () => trnprof.commands.open(start.commands, action => ACT[action](), () => tl.canvas.focus()),
    panel: () => { st.panel = !st.panel; ask(); tl.relayout(); gutter(); tl.request(); remember(); },
    roofline: () => turn("roofline"), compare: () => turn("compare"), what_if: () => turn("whatif"), listing: () => { st.first = 0; turn("listing"); },
    run_what_if: () => trnprof.suppose.run(tl, wished), cancel_what_if: () => trnprof.suppose.cancel(tl), theme: nextTheme, help: () => { $("#help").hidden = !$("#help").hidden; },
    open: () => turn("open"), copy: () => copyText(tl.chosen && JSON.stringify(tl.chosen, null, 1), "card copied"), export: () => trnprof.save.png(tl), export_svg: () => trnprof.save.svg(tl), export_csv: () => trnprof.save.csv(tl), link: () => { write(); copyText(location.href, "link copied"); },
    back: () => { st.page = ""; askChart(); remember(); }, close_help: () => { $("#help").hidden = true; },
  };
  for (const [k, tab] of TABS.entries()) ACT[`tab_${k + 1}`] = () => { st.tab = tab; st.panel = true; ask(); remember(); };
  const each = (names, act) => { for (const name of names) act(name); };
  function named() {
    each(start.colours, way => { ACT[`colour_${way}`] = () => colour(way); });
    each(start.themes, name => { ACT[`theme_${name}`] = () => setTheme(name); });
  }
  function turn(page) { st.page = st.page === page ? "" : page; askChart(); remember(); }
  function wished(text) { st.wish = text; remember(); }
  function escape() {
    if (!$("#help").hidden) $("#help").hidden = true;
    else if ($("#line")) $("#line").remove();
    else if (st.page) ACT.back();
    else if (opened !== null) { opened = null; status(); }
    else { clear(); ask(); status(); tl.request(); remember(); }
  }
  function fold(group) { st.closed.has(group) ? st.closed.delete(group) : st.closed.add(group); relayout(); }
  function move(by) {
    const r = underPointer(); if (!r || r.kind === "group") return;
    const all = tl.rows.filter(o => o.group === r.group).map(o => o.id), k = all.indexOf(r.id);
    if (!all[k + by]) return;
    [all[k], all[k + by]] = [all[k + by], all[k]];
    st.order = [...st.order.filter(id => !all.includes(id)), ...all]; tl.state.order = st.order; relayout();
  }
  /** Colours of the legend that alone are drawn as work. */
  function only(colours) {
    tl.only = colours; trnprof.legend.mark(tl); tl.request(); remember();
    at(colours.length ? `only ${trnprof.legend.name(colours)}` : "all colours");
  }
  function colour(name, kept = []) {
    const moved = (tl.colour === "path") !== (name === "path");
    tl.only = kept;
    st.colour = tl.colour = document.body.dataset.paint = name;
    if (moved) { tl.relayout(); gutter(); }
    document.querySelectorAll("[data-colour]").forEach(b => b.setAttribute("aria-pressed", b.dataset.colour === name));
    trnprof.legend.show(tl, name, fetched);
    tl.request(); remember();
  }
  function openLine(hint, done) {
    $("#line")?.remove();
    const { node } = trnprof.beside, box = node("div", undefined, "ask-line"), field = node("input");
    box.id = "line"; field.placeholder = hint; field.setAttribute("aria-label", hint); field.maxLength = 200;
    field.onkeydown = e => { e.stopPropagation(); if (e.key === "Escape") { box.remove(); tl.canvas.focus(); } if (e.key === "Enter") { const text = field.value; box.remove(); tl.canvas.focus(); done(text); } };
    box.append(field); $(".stage").append(box); field.focus();
  }
  async function gotoText(text) {
    const target = text && await fetched("goto", { text });
    if (!target) return notice(`“${text}” is no time, id, name or line of this trace`);
    if (target.row >= 0) return pick(target.row);
    const half = (tl.view[1] - tl.view[0]) / 2;
    tl.set(target.t0_ps - half, target.t0_ps + half);
  }
  function findTrack(text) {
    const t = start.tracks.find(o => o.name.toLowerCase().includes(text.toLowerCase()) || o.code.toLowerCase() === text.toLowerCase());
    if (!t) return notice(`No track is named “${text}”`);
    st.hidden.delete(t.id); st.closed.delete(t.group); relayout();
    $("#scroll").scrollTop = Math.max(0, tl.byId[t.id].y - 40); tl.lastRow = tl.byId[t.id];
  }
  function copyText(text, done) {
    if (!text) return at("nothing is selected");
    if (!navigator.clipboard) return at("this address has no clipboard: browsers give it to localhost and https");
    navigator.clipboard.writeText(text).then(() => at(done), () => at("the browser refused the clipboard"));
  }

  // --- pointer ----------------------------------------------------------------------------------------------------------------
  const place = e => { const r = tl.canvas.getBoundingClientRect(), s = $(".stage").getBoundingClientRect(); return { x: e.clientX - r.left, y: e.clientY - r.top, sx: e.clientX - s.left, sy: e.clientY - s.top }; };
  function wheel(e) {
    e.preventDefault();
    const p = place(e), unit = e.deltaMode === 1 ? 30 : 1;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) tl.pan((e.deltaX || e.deltaY) * unit / 1200);
    else tl.zoom(Math.exp(e.deltaY * unit / 500), tl.t(p.x));
  }
  function down(e) {
    const p = place(e);
    tl.canvas.dataset.pointer = 1; tl.canvas.focus({ preventScroll: true }); tl.canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, p);
    drag = { ...p, view: [...tl.view], area: e.shiftKey, free: e.altKey, moved: false, scroll: $("#scroll").scrollTop };
    if (pointers.size === 2) { const [a, b] = [...pointers.values()]; drag = { pinch: Math.max(20, Math.abs(a.x - b.x)), view: [...tl.view], mid: tl.t((a.x + b.x) / 2), moved: true }; }
  }
  function hoverAt(e) {
    const p = place(e);
    tl.cursor = p.x; tl.lastRow = tl.rowAt(p.y);
    if (pointers.has(e.pointerId)) pointers.set(e.pointerId, p);
    if (drag?.pinch && pointers.size === 2) {
      const [a, b] = [...pointers.values()], k = drag.pinch / Math.max(20, Math.abs(a.x - b.x)), span = (drag.view[1] - drag.view[0]) * k;
      const f = (a.x + b.x) / 2 / tl.w;
      return tl.set(drag.mid - span * f, drag.mid + span * (1 - f));
    }
    if (drag && Math.hypot(p.x - drag.x, p.y - drag.y) > 3) drag.moved = true;
    if (st.tab === "memory" && st.panel) trnprof.memory.follow(tl, tl.t(p.x));
    if (drag?.moved) { pull(p, e); hoverCard(null); } else { tl.hover = tl.hit(p.x, p.y); hoverCard(tl.hover, p.sx, p.sy); }
    status(); tl.request();
  }
  function pull(p, e) {
    if (drag.area) {
      const end = x => drag.free || e.altKey ? tl.t(x) : tl.snapTime(x, p.y);
      tl.area = [end(drag.x), end(p.x)].sort((a, b) => a - b); tl.chosen = null;
      return;
    }
    const k = (drag.view[1] - drag.view[0]) / tl.w;
    tl.set(drag.view[0] - (p.x - drag.x) * k, drag.view[1] - (p.x - drag.x) * k);
    if (e.pointerType === "touch") $("#scroll").scrollTop = drag.scroll - (p.sy - drag.sy);
  }
  function up(e) {
    pointers.delete(e.pointerId);
    const was = drag; drag = null;
    if (!was || was.pinch) return;
    if (was.moved) { if (was.area && tl.area && tl.area[1] - tl.area[0] >= 1) chooseArea(...tl.area); return; }
    const p = place(e); click(tl.hit(p.x, p.y), tl.t(p.x));
  }
  async function click(h, t) {
    if (!h || ["bound", "level", "packets"].includes(h.kind)) { clear(); st.at = t; return settle(false); }
    const f = h.f, i = h.i;
    if (h.kind === "ins") return choose(await fetched("card", { row: f.row[i] }));
    if (h.kind === "transfer") return chooseTransfer(await fetched("transfer", { row: f.row[i] }));
    if (h.kind === "cluster") { const air = f.length[i] * .1 + 200; return tl.set(f.start[i] - air, f.start[i] + f.length[i] + air); }
    if (h.kind === "region") return chooseArea(f.start[i], f.start[i] + f.length[i], f.labels[f.label[i]]?.[1] || "");
    if (h.kind === "gap") {
      const card = await fetched("gap", { track: h.r.id, t: Math.round(t) });
      clear();
      if (card) { st.gap = [h.r.id, Math.round(t)]; tl.chosen = { ...card, id: "", after: null }; $("#live").textContent = card.spoken; }
      return settle();
    }
  }
  const leave = () => { if (st.tab === "memory") trnprof.memory.follow(tl, moment()); tl.cursor = null; tl.hover = null; hoverCard(null); status(); tl.request(); };
  function twice(e) { const p = place(e), h = tl.hit(p.x, p.y); if (h?.kind === "region") { const f = h.f, d = f.length[h.i]; tl.set(f.start[h.i] - d * .05, f.start[h.i] + d * 1.05); } }
  /** Drag in the overview: its handles resize the window, elsewhere it moves. */
  function overviewDrag(o) {
    let grip = null;
    const t = e => tl.overviewT(e.offsetX, o.clientWidth);
    o.onpointerdown = e => {
      o.setPointerCapture(e.pointerId);
      const [a, b] = tl.view.map(v => tl.overviewX(v, o.clientWidth)), near = 7;
      grip = Math.abs(e.offsetX - a) < near && b - a > 12 ? "a" : Math.abs(e.offsetX - b) < near && b - a > 12 ? "b" : "move";
      if (grip === "move") overviewMove(t(e));
    };
    o.onpointermove = e => { if (!grip) return; if (grip === "move") overviewMove(t(e)); else if (grip === "a") tl.set(Math.min(t(e), tl.view[1] - 5000), tl.view[1]); else tl.set(tl.view[0], Math.max(t(e), tl.view[0] + 5000)); };
    o.onpointerup = o.onpointercancel = () => { grip = null; };
  }
  function overviewMove(t) { const s = tl.view[1] - tl.view[0]; tl.set(t - s / 2, t + s / 2); }

  function wire() {
    const c = tl.canvas;
    c.addEventListener("wheel", wheel, { passive: false });
    c.onpointerdown = down; c.onpointermove = hoverAt; c.onpointerup = up; c.onpointercancel = e => { pointers.delete(e.pointerId); drag = null; };
    c.onpointerleave = leave; c.ondblclick = twice;
    overviewDrag($("#overview"));
    trnprof.memory.watch(() => trnprof.memory.follow(tl, moment()));
    new ResizeObserver(() => { if (tl?.canvas === c && $("#scroll").clientHeight) { tl.relayout(); gutter(); tl.request(); } }).observe($("#scroll"));
    tl.onview = () => { status(); remember(); };
    tl.onfault = fault => notice(fault.message);
    $("#colour").addEventListener("change", e => { colour(e.target.value); c.focus(); });
    const q = $("#q");
    q.addEventListener("input", () => { clearTimeout(searching); searching = setTimeout(() => search(q.value), SEARCH_MS); });
    q.addEventListener("keydown", e => {
      e.stopPropagation();
      if (e.key === "Enter") { e.preventDefault(); if (query !== q.value) search(q.value).then(() => hitBy(1)); else hitBy(e.shiftKey ? -1 : 1); }
      if (e.key === "Escape") { q.blur(); c.focus(); }
    });
  }

  // --- the document: once, whatever page is shown --------------------------------------------------------------------------------
  document.addEventListener("click", e => {
    const b = e.target.closest("[data-act],[data-tab],[data-go],[data-goto],[data-colour],[data-only],[data-fold],[data-transfer],[data-t0],[data-with],[data-wish],[data-memory],[data-first]");
    if (!b || !tl) return;
    const d = b.dataset;
    if (d.act === "close_help" && e.target.closest(".dialog")) return;
    if (d.act) ACT[d.act]?.();
    if (d.tab) { st.tab = d.tab; ask(); remember(); }
    if (d.rows) marked(d.rows.split(",").map(Number));
    if (b.dataset.act) b.closest("details.traces")?.removeAttribute("open");
    if (d.first) { st.first = +d.first; askChart(); }
    if ((d.go || d.transfer) && st.page === "listing") ACT.back();
    if (d.go && +d.go >= 0) pick(+d.go, !!d.keep || !!d.rows);
    if (d.goto) gotoText(d.goto);
    if (d.with !== undefined) { st.other = d.with; st.page = "compare"; askChart(); remember(); }
    if (d.wish) trnprof.suppose.add(d.wish);
    if (d.memory) { const r = b.getBoundingClientRect(), t = trnprof.memory.tileAt(b, e.clientX - r.left, e.clientY - r.top); if (t) showArea(t.t0_ps, t.t1_ps, t.name); }
    if (d.colour) colour(d.colour);
    if (d.only !== undefined) only(trnprof.legend.next(tl.only, +d.only));
    if (d.fold) fold(d.fold);
    if (d.transfer) fetched("transfer", { row: d.transfer }).then(card => chooseTransfer(card, true));
    if (d.t0) showArea(+d.t0, +d.t1, d.name);
  });
  /** Outline instructions as a search does. */
  async function marked(rows) {
    const cards = await Promise.all(rows.map(row => fetched("card", { row })));
    query = ""; tl.found = new Set(rows); tl.foundRows = rows; tl.foundAt = cards.filter(Boolean).map(c => c.t0_ps); tl.total = rows.length;
    hits(`${trnprof.words.count(rows.length)} marked`); tl.request();
  }
  function showArea(t0, t1, title) { if (st.page) ACT.back(); const air = (t1 - t0) * .05; tl.set(t0 - air, t1 + air); chooseArea(t0, t1, title); }
  document.addEventListener("keydown", e => {
    if (!tl || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)) return;
    if ((e.key === " " || e.key === "Enter") && e.target.closest("button,a,summary")) return;
    const name = e.shiftKey && e.key === "ArrowLeft" ? "page_left" : e.shiftKey && e.key === "ArrowRight" ? "page_right" : start.keys[e.key];
    if (!name || !ACT[name]) return;
    e.preventDefault();
    tl.canvas.dataset.pointer = 0;
    ACT[name]();
  });
  let sized = 0;
  addEventListener("resize", () => { clearTimeout(sized); sized = setTimeout(() => { if (!tl) return; tl.relayout(); gutter(); tl.request(); if (st.page) askChart(); else if (st.tab === "roofline") ask(); }, 60); });
  addEventListener("hashchange", () => { if (tl) restore(); });
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => { if (tl) { paintTheme(); tl.request(); ask(); } });

  // --- beginning -----------------------------------------------------------------------------------------------------------------
  /** Bring the page to what the address says. */
  async function restore() {
    read(); paintTheme();
    Object.assign(tl.state, { closed: st.closed, hidden: st.hidden, pinned: st.pinned, order: st.order });
    tl.marks = st.marks; tl.area = st.area; tl.chosen = null; tl.relayout(); gutter();
    colour(st.colour, st.only);
    if (st.view) tl.set(...st.view); else tl.set(...start.home);
    if (st.q) { send("q", { value: st.q }); search(st.q); }
    ask(); askChart(); status();
    if (st.row >= 0) { const card = await fetched("card", { row: st.row }); if (card) { tl.chosen = card; status(); tl.request(); } }
    else if (st.transfer >= 0) { const card = await fetched("transfer", { row: st.transfer }); if (card) { tl.chosen = { ...card, after: null }; tl.request(); } }
  }
  function begin(data) {
    if (!data) { tl = null; return window.dash_clientside.no_update; }
    const ready = () => {
      if (!$("#tracks")?.closest(".scroll")) return requestAnimationFrame(ready);
      start = data;
      named(); trnprof.legend.forget(); read(); paintTheme();
      tl = new trnprof.Timeline($("#tracks"), $("#ruler"), $("#overview"), data, st);
      wire(); restore();
      trnprof.timeline = tl;
      document.documentElement.dataset.ready = "1";
    };
    ready();
    return data.name;
  }
  /** A click on a dot of the roofline shows its region. */
  function dot(click) {
    const said = click?.points?.[0]?.customdata;
    if (said && tl) showArea(+said[0], +said[1], said[2]);
    return window.dash_clientside.no_update;
  }
  /** The page beside the timeline has been put in place. */
  function paged(children, ask) {
    if (ask && tl) requestAnimationFrame(() => {
      if (ask.page === "compare") trnprof.compare.open(start, tl, fetched, notice);
      if (ask.page === "whatif") trnprof.suppose.open(tl, ask.wish, wished);
    });
    return window.dash_clientside.no_update;
  }
  function name(title) { if (title) document.title = title; return window.dash_clientside.no_update; }
  window.dash_clientside = Object.assign({}, window.dash_clientside, { trnprof: { begin, dot, name, paged } });
})();

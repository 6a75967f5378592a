"use strict";
// The palette of commands: every row of the table of keys, found by its words. Filled from what the server says.
(() => {
  const $ = s => document.querySelector(s), { node } = trnprof.beside;

  function open(commands, act, leave) {
    close();
    const veil = node("div", undefined, "veil"), box = node("div", undefined, "dialog commands"), field = node("input"), list = node("ul");
    let found = [], at = 0;
    veil.id = "commands"; box.setAttribute("role", "dialog"); box.setAttribute("aria-label", "Commands");
    field.placeholder = "Command"; field.maxLength = 80; field.spellcheck = false;
    for (const [k, v] of [["role", "combobox"], ["aria-expanded", "true"], ["aria-controls", "command-list"], ["aria-label", "Command"]]) field.setAttribute(k, v);
    list.id = "command-list"; list.setAttribute("role", "listbox");
    const mark = () => {
      [...list.children].forEach((e, k) => e.setAttribute("aria-selected", k === at));
      field.setAttribute("aria-activedescendant", list.children[at]?.id || "");
      list.children[at]?.scrollIntoView({ block: "nearest" });
    };
    const run = k => { const action = found[k]?.[0]; shut(); if (action) act(action); };
    const shut = () => { close(); leave(); };
    function filter() {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      found = commands.filter(([, group, words]) => wanted.every(w => `${group} ${words}`.toLowerCase().includes(w))); at = 0;
      list.replaceChildren(...found.map(([action, group, words, shown], k) => {
        const e = node("li"), keys = node("span");
        e.id = `command-${k}`; e.setAttribute("role", "option"); e.dataset.command = action;
        for (const s of shown) keys.append(node("kbd", s), " ");
        e.append(node("span", group, "dim group"), node("span", words, "grow"), keys);
        e.onclick = () => run(k);
        return e;
      }));
      if (!found.length) list.append(node("li", `none of ${commands.length} commands`, "dim"));
      mark();
    }
    field.oninput = filter;
    field.onkeydown = e => {
      e.stopPropagation();
      if (e.key === "Escape") { e.preventDefault(); shut(); }
      else if (e.key === "Enter") { e.preventDefault(); run(at); }
      else if (["ArrowDown", "ArrowUp"].includes(e.key) && found.length) { e.preventDefault(); at = (at + (e.key === "ArrowDown" ? 1 : found.length - 1)) % found.length; mark(); }
    };
    veil.onclick = e => { if (e.target === veil) shut(); };
    box.append(field, list); veil.append(box); document.body.append(veil); filter(); field.focus();
  }
  const close = () => $("#commands")?.remove();
  window.trnprof = Object.assign(window.trnprof || {}, { commands: { open, close } });
})();

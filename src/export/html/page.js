(() => {
  "use strict";
  const root = document.documentElement;
  const one = (name) => document.querySelector(`[data-ui="${name}"]`);
  root.classList.add("js");

  // Light or dark: what the system says, unless the reader chose.
  const KEY = "pi-sessions-theme";
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch { /* A page from a file may have no storage. */ }
  const turnTheme = () => {
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* As above. */ }
  };

  document.addEventListener("DOMContentLoaded", () => {
    const { parents, path: activePath } = JSON.parse(one("data").textContent);
    const talk = one("talk"), side = one("side"), tree = one("tree"), input = one("search"), hitsOut = one("hits");
    const rows = [...tree.querySelectorAll(".r")];
    const idOf = (link) => { try { return decodeURIComponent(link.hash.slice(1)); } catch { return ""; } };
    const rowOf = new Map(rows.map((row) => [idOf(row), row]));
    const segmentOf = (row) => Number(row.dataset.s);

    // Segments: those on show are in the page, the others in templates until they are wanted.
    const sections = new Map([...talk.children].map((section) => [Number(section.dataset.s), section]));
    const templates = new Map([...document.querySelectorAll("template[data-s]")].map((t) => [Number(t.dataset.s), t]));
    const lastChild = new Map();
    parents.forEach((parent, at) => lastChild.set(parent, at));
    let shown = activePath;
    const section = (at) => {
      if (!sections.has(at)) sections.set(at, document.importNode(templates.get(at).content, true).firstElementChild);
      return sections.get(at);
    };
    /** The path through a segment, on to the end of its branch. */
    const pathThrough = (at) => {
      const path = [];
      for (let up = at; up >= 0; up = parents[up]) path.push(up);
      path.reverse();
      for (let down = lastChild.get(at); down !== undefined; down = lastChild.get(down)) path.push(down);
      return path;
    };
    const show = (path) => {
      const wanted = new Set(path);
      for (const at of shown) if (!wanted.has(at)) section(at).remove();
      for (const at of path) if (!section(at).isConnected) { talk.append(section(at)); watch(section(at)); }
      shown = path;
      for (const row of rows) row.classList.toggle("off", !wanted.has(segmentOf(row)));
    };

    // Where the reader is.
    let here = null, went = null;
    const articles = () => [...talk.querySelectorAll("article.e")].filter((e) => !e.classList.contains("note"));
    const setHere = (article, isChosen) => {
      if (!article) return;
      if (article !== here) {
        here?.classList.remove("here");
        rowOf.get(here?.id)?.classList.remove("here");
        here = article;
      }
      if (isChosen) article.classList.add("here");
      const row = rowOf.get(article.id);
      row?.classList.add("here");
      if (!row || !row.offsetParent) return;
      const [box, frame] = [row.getBoundingClientRect(), tree.getBoundingClientRect()];
      if (box.top < frame.top || box.bottom > frame.bottom) tree.scrollTop += box.top - frame.top - frame.height / 2;
    };
    const follow = new IntersectionObserver((seen) => {
      // What comes into view because the reader went to an entry is not where the reader is: that takes a scroll.
      const first = seen.filter((entry) => entry.isIntersecting).pop();
      if (first && !isWhereWent()) setHere(first.target, false);
    }, { rootMargin: "-12% 0px -84% 0px" });
    const isWhereWent = () => went?.target.isConnected
      && (performance.now() - went.at < 500 || Math.abs(went.target.getBoundingClientRect().top - went.top) < 2);
    const unfold = (element) => {
      for (let at = element; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    };
    /** Goes to an entry, on whatever branch it is. */
    const go = (id, keeps) => {
      const row = rowOf.get(id);
      if (!row) return false;
      if (!shown.includes(segmentOf(row))) show(pathThrough(segmentOf(row)));
      const element = document.getElementById(id);
      if (!element) return false;
      unfold(element.parentElement);
      const target = element.closest(".tool") ?? element;
      target.scrollIntoView({ block: "start" });
      went = { target, top: target.getBoundingClientRect().top, at: performance.now() };
      setHere(element.closest("article"), true);
      element.classList.remove("flash");
      void element.offsetWidth;
      element.classList.add("flash");
      if (!keeps) { try { history.replaceState(null, "", row.hash); } catch { /* Not from every place. */ } }
      return true;
    };
    const step = (by, fits) => {
      const all = articles();
      let at = all.indexOf(here);
      do at += by; while (all[at] && !fits(all[at]));
      if (all[at]) go(all[at].id);
    };
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && go(idOf(link))) {
        event.preventDefault();
        if (side.contains(link)) document.body.classList.remove("showtree");
      }
    });
    addEventListener("hashchange", () => go(idOf(location), true));

    // Colours of code, when it is first seen.
    const paint = new IntersectionObserver((seen) => {
      for (const entry of seen) if (entry.isIntersecting) { paint.unobserve(entry.target); colour(entry.target); }
    }, { rootMargin: "300px" });
    const watch = (part) => {
      for (const code of part.querySelectorAll("pre > code[class^='language-']")) paint.observe(code);
      for (const article of part.querySelectorAll("article.e")) if (!article.classList.contains("note")) follow.observe(article);
    };

    // Search, over all branches.
    let texts = null, hits = [], at = -1;
    const canMark = "highlights" in CSS;
    const allTexts = () => texts ??= parents.flatMap((_, segment) => {
      const part = sections.get(segment) ?? templates.get(segment)?.content;
      return part ? [...part.querySelectorAll("article.e")].map((e) => ({ id: e.id, text: e.textContent.toLowerCase() })) : [];
    });
    const mark = (article, words) => {
      const ranges = [];
      const walk = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
      while (walk.nextNode() && ranges.length < 500) {
        const text = walk.currentNode.data.toLowerCase();
        for (let from = text.indexOf(words); from >= 0; from = text.indexOf(words, from + words.length)) {
          if (from + words.length > walk.currentNode.length) break;
          const range = new Range();
          range.setStart(walk.currentNode, from);
          range.setEnd(walk.currentNode, from + words.length);
          ranges.push(range);
        }
      }
      if (canMark) CSS.highlights.set("hit", new Highlight(...ranges));
      if (!ranges[0]) return;
      unfold(ranges[0].startContainer.parentElement);
      const box = ranges[0].getBoundingClientRect();
      if (box.top < 60 || box.bottom > innerHeight) scrollBy(0, box.top - innerHeight / 3);
    };
    const tell = () => { hitsOut.textContent = input.value ? (hits.length ? `${at < 0 ? "–" : at + 1} / ${hits.length}` : "none") : ""; };
    const search = () => {
      const words = input.value.trim().toLowerCase();
      for (const row of tree.querySelectorAll(".hit")) row.classList.remove("hit");
      if (canMark) CSS.highlights.delete("hit");
      hits = words ? allTexts().filter((entry) => entry.text.includes(words)).map((entry) => entry.id) : [];
      for (const id of hits) rowOf.get(id)?.classList.add("hit");
      at = -1;
      tell();
    };
    const nextHit = (by) => {
      if (!hits.length) return;
      at = (at + by + hits.length + (at < 0 && by < 0 ? 1 : 0)) % hits.length;
      tell();
      if (go(hits[at])) mark(document.getElementById(hits[at]), input.value.trim().toLowerCase());
    };
    let waiting = 0;
    input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 120); });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { clearTimeout(waiting); if (at < 0) search(); nextHit(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") { input.value = ""; search(); input.blur(); }
    });

    // Buttons and keys.
    const fold = (part) => {
      const all = [...part.querySelectorAll("details")];
      const opens = all.some((details) => !details.open);
      for (const details of all) details.open = opens;
    };
    const isNarrow = () => matchMedia("(max-width: 60rem)").matches;
    const acts = {
      tree: () => document.body.classList.toggle(isNarrow() ? "showtree" : "notree"),
      fold: () => fold(talk),
      theme: turnTheme,
      help: () => { const help = one("help"); if (help.open) help.close(); else help.showModal(); },
    };
    for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => acts[button.dataset.do]());
    one("filter").addEventListener("change", (event) => { tree.className = `tree ${event.target.value}`; });
    const isUser = (article) => article.classList.contains("user");
    const keys = {
      j: () => step(1, () => true), k: () => step(-1, () => true), J: () => step(1, isUser), K: () => step(-1, isUser),
      o: () => here && fold(here), e: acts.fold, t: acts.tree, d: acts.theme, "?": acts.help,
      n: () => nextHit(1), N: () => nextHit(-1), "/": () => { input.focus(); input.select(); },
    };
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
      if (Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); }
    });

    watch(talk);
    if (location.hash.length > 1) go(idOf(location), true);
  });

  // A small colouring of code: comments, strings, numbers, words of the language, names that are called.
  const WORDS = {
    c: "abstract as async await bool boolean break case catch char class const constructor continue crate debugger declare default defer delete do double dyn else enum export extends false final finally float fn for foreach from func function get go goto if impl implements import in instanceof int interface is keyof let long loop match mod module move mut namespace new nil null number of operator override package private protected pub public readonly ref return select self set short sizeof static string struct super switch template this throw throws trait true try type typedef typeof undefined union unknown unsafe unsigned use using val var virtual void volatile when where while with yield",
    hash: "and as assert async await begin break case class continue declare def del do done elif else elsif end esac except export false False fi finally for from function global if import in is lambda local module next nil None nonlocal not null or pass raise readonly require rescue return self set shift source then true True try unless until when while with yield",
    sql: "add all alter and as asc begin between by case column commit constraint create cross default delete desc distinct drop else end exists foreign from full function group having if in index inner insert into is join key left like limit local nil not null offset on or order outer primary references repeat return right rollback select set table then true false union unique until update using values view when where while with",
  };
  const FAMILY = {
    bash: "hash", sh: "hash", shell: "hash", zsh: "hash", console: "hash", python: "hash", py: "hash", ruby: "hash", rb: "hash", toml: "hash",
    yaml: "hash", yml: "hash", makefile: "hash", dockerfile: "hash", ini: "hash", sql: "sql", lua: "sql", html: "mark", xml: "mark", svg: "mark",
    vue: "mark", diff: "diff", patch: "diff", markdown: "none", md: "none", text: "none", txt: "none", plain: "none",
  };
  const COMMENT = { c: "\\/\\/[^\\n]*|\\/\\*[^]*?(?:\\*\\/|$)", hash: "(?<![\\w$\\\\{])#[^\\n]*", sql: "--[^\\n]*", mark: "<\\!--[^]*?(?:-->|$)" };
  const STRING = "\"(?:\\\\[^]|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'|`(?:\\\\[^]|[^`\\\\])*(?:`|$)";
  const rules = new Map();
  const rule = (family) => {
    if (!rules.has(family)) {
      const words = family === "mark" ? "<\\/?[\\w:-]+|\\/?>" : "[A-Za-z_$][\\w$]*";
      const numbers = "\\b0[xX][\\da-fA-F_]+\\b|\\b\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?";
      rules.set(family, {
        pattern: new RegExp(`(${COMMENT[family]})|(${STRING})|(${numbers})|(${words})`, "g"),
        words: new Set((WORDS[family] ?? "").split(" ")),
      });
    }
    return rules.get(family);
  };
  const colour = (code) => {
    const language = code.className.slice("language-".length).toLowerCase();
    const family = Object.hasOwn(FAMILY, language) ? FAMILY[language] : "c";
    const text = code.textContent;
    if (family === "none" || text.length > 200_000) return;
    const parts = new DocumentFragment();
    let plain = 0;
    const add = (from, to, name) => {
      if (from > plain) parts.append(text.slice(plain, from));
      const span = document.createElement("span");
      span.className = name;
      span.textContent = text.slice(from, to);
      parts.append(span);
      plain = to;
    };
    if (family === "diff") {
      for (const line of text.matchAll(/^([+-]|@@).*$/gm)) add(line.index, line.index + line[0].length, line[1] === "+" ? "s" : line[1] === "-" ? "n" : "f");
    } else {
      const { pattern, words } = rule(family);
      for (const found of text.matchAll(pattern)) {
        const [from, to] = [found.index, found.index + found[0].length];
        if (found[1]) add(from, to, "c");
        else if (found[2]) add(from, to, /^\s*:/.test(text.slice(to, to + 3)) && family !== "mark" ? "f" : "s");
        else if (found[3]) add(from, to, "n");
        else if (family === "mark" || words.has(language === "sql" ? found[4].toLowerCase() : found[4])) add(from, to, "k");
        else if (text[to] === "(") add(from, to, "f");
      }
    }
    parts.append(text.slice(plain));
    code.replaceChildren(parts);
  };
})();

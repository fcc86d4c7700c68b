// Text in, translation out, and what made each part of it. Text from people and from the model is set by textContent
// alone, so that markup in it stays text.

const PAUSE = 250; // milliseconds without a key, after which the text is translated
const NAMED = 3; // positions that the words about a layer name
const REACH = 1000; // characters of tags and the like between two words of a sentence
const OPTIONS = { n_best: 3, too_long: "split", alignment: true, alignment_by: "omission" };
const ENDINGS = { ".html": "html", ".htm": "html", ".md": "markdown", ".srt": "srt" }; // of files; others are plain text
const SPACES = /(?:[^\S\uFEFF]|[\x1C-\x1F\x85])+/; // between words, by which the server numbers them: Python's str.split()
const ENTITIES = { "&": "&amp;", "<": "&lt;" };

const byId = (id) => document.getElementById(id);

/** An element with text in it. */
function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Subwords without their marks ("@@" of BPE, "▁" of sentencepiece), and whether each goes on the word before it. */
function parts(tokens) {
  const pieces = tokens.some((token) => token.startsWith("▁"));
  return tokens.map((token, at) => ({
    text: (pieces ? token.replace(/▁/g, "") : token.replace(/@@$/, "")) || "·",
    joined: at > 0 && (pieces ? !token.startsWith("▁") : tokens[at - 1].endsWith("@@")),
  }));
}

const percent = (share) => `${Math.round(100 * share)} %`;
const signed = (weight) => (weight < 0 ? "−" : "") + Math.abs(weight).toFixed(2);
const shade = (color, strength) => `rgba(var(--${color}), ${strength})`; // the strength may be a calc()

/** A problem that is told to the person at the page. */
class Problem extends Error {}

async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  let response, values;
  try {
    response = await fetch(path, { ...options, headers });
    values = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(
      response ? `The server's answer cannot be read (status ${response.status}).` : "The server does not answer. Is it still running?",
    );
  }
  if (response.status === 401) {
    byId("login").hidden = false;
    throw new Problem(token ? "This is not the server's token." : "The server wants a token.");
  }
  if (!response.ok) throw new Problem(`The server says: ${values.error}`);
  return values;
}

function tell(error) {
  if (error.name === "AbortError") return;
  byId("status").textContent = "";
  byId("problem").textContent = error instanceof Problem ? error.message : `This page has a fault: ${error.message}`;
}

let health = { longest_source: Infinity, source_language: "", target_language: "" }; // what the server says about itself
let asking = new AbortController(); // of the last request to translate
let timer;

/** How it is to be translated, with the words that must or must not come out. */
function options() {
  const terms = byId("glossary").value.split("\n").map((line) => line.split("=").map((each) => each.trim()));
  const glossary = Object.fromEntries(terms.filter(([term, translation]) => term && translation));
  const avoid = byId("avoid").value.split(",").map((each) => each.trim()).filter(Boolean);
  return { ...OPTIONS, glossary, avoid };
}

async function translate() {
  clearTimeout(timer);
  asking.abort(); // the server drops what nobody waits for
  asking = new AbortController();
  const own = asking; // `asking` is another one as soon as a newer request has begun: this one's answer is then ignored
  const text = byId("source").value;
  if (!text.trim()) {
    byId("status").textContent = byId("problem").textContent = "";
    show({ text: "", sentences: [] });
    return;
  }
  byId("status").textContent = "Translating …";
  const begin = performance.now();
  try {
    const { documents } = await ask("translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ texts: [text], format: byId("kind").value, options: options() }),
      signal: own.signal,
    });
    if (own !== asking) return;
    byId("problem").textContent = "";
    const { length } = documents[0].sentences;
    const many = length === 1 ? "one sentence" : `${length} sentences`;
    byId("status").textContent = `Translated ${many} in ${Math.round(performance.now() - begin)} ms.`;
    show(documents[0]);
  } catch (error) {
    if (own === asking) tell(error);
  }
}

let shown = { text: "", sentences: [] }; // a document; a sentence may have the translation that was chosen
let current = 0; // the sentence that is looked into

/** The translation as it is read: best translations, or those that were chosen instead. */
function show(document) {
  shown = document;
  const pane = byId("translation");
  pane.replaceChildren();
  // where words are looked for: not in tags
  const html = byId("kind").value === "html";
  const seen = html ? document.text.replace(/<[^>]*>/g, (tag) => " ".repeat(tag.length)) : document.text;
  let end = 0;
  document.sentences.forEach((sentence, number) => {
    const [best] = sentence.translations;
    const { translation } = sentence;
    const places = placed(seen, best.words, end);
    const line = element("span", "", "sentence"); // stays empty where no word is found
    sentence.fixed = !places.length;
    if (sentence.fixed) {
      pane.append(line);
      return;
    }
    const last = places.at(-1);
    let text = document.text.slice(places[0].at, last.at + last.length);
    pane.append(document.text.slice(end, places[0].at));
    end = last.at + last.length;
    sentence.fixed = text !== best.text; // with tags or line ends in it: no other can stand there
    if (translation && !sentence.fixed) text = html ? translation.text.replace(/[&<]/g, (mark) => ENTITIES[mark]) : translation.text;
    line.append(...spans(text, translation || best, (word) => look(number, word)));
    line.addEventListener("click", () => look(number));
    pane.append(line);
  });
  pane.append(document.text.slice(end));
  for (const each of ["copy", "save"]) byId(each).disabled = !document.text;
  byId("closer").hidden = !document.sentences.length;
  if (document.sentences.length) look(Math.min(current, document.sentences.length - 1));
}

/** Where words stand in a text, in their order; those that are not there (written as entities, say) are left out. */
function placed(text, words, from) {
  const found = [];
  words.forEach(([word], number) => {
    const at = text.indexOf(word, from);
    if (at < 0 || at - from > REACH) return;
    from = at + word.length;
    found.push({ number, at, length: word.length });
  });
  return found;
}

/** A sentence's words, shaded where the model is not sure, with what is between them. */
function spans(text, { words }, choose) {
  const found = [];
  let end = 0;
  for (const { number, at, length } of placed(text, words, 0)) {
    const span = element("span", text.slice(at, at + length), "word");
    span.style.backgroundColor = doubt(words[number][1]);
    span.addEventListener("pointerenter", () => choose(number));
    found.push(text.slice(end, at), span);
    end = at + length;
  }
  return [...found, text.slice(end)];
}

const doubt = (score) => shade("minus", `calc(var(--strongest) * ${(1 - Math.exp(score)).toFixed(3)})`);

/** Shows a sentence's words, those that the chosen one was made from, and other translations. */
function look(number, word) {
  const sentence = shown.sentences[number];
  const translation = sentence.translation || sentence.translations[0];
  if (number === current && word !== undefined && byId("words").childElementCount) {
    byId("words").children[word].choose();
    return;
  }
  current = number;
  document.querySelectorAll(".sentence").forEach((each, at) => each.classList.toggle("current", at === number));
  byId("which").textContent = `sentence ${number + 1} of ${shown.sentences.length}`;
  byId("previous").disabled = number === 0;
  byId("next").disabled = number === shown.sentences.length - 1;
  const sources = sentence.source.split(SPACES).filter(Boolean).map((text) => {
    const made = token({ text });
    made.setAttribute("role", "listitem");
    return made;
  });
  byId("from").replaceChildren(...sources);
  byId("word").textContent = ""; // a translation without words chooses none
  listbox("words", translation.words.map(([text]) => ({ text })), (at) => {
    const [text, score] = translation.words[at];
    const from = (translation.word_links || []).filter(([, target]) => target === at).map(([source]) => source);
    sources.forEach((each, source) => {
      each.style.backgroundColor = from.includes(source) ? shade("plus", "var(--strongest)") : "";
    });
    const names = from.map((source) => `“${sources[source].textContent}”`);
    const made = names.length ? `made from ${names.join(" and ")}` : "made from no word alone";
    byId("word").textContent = `“${text}”: ${made}; the model is ${percent(Math.exp(score))} sure.`;
  }, word ?? 0);
  translation.words.forEach(([, score], at) => (byId("words").children[at].style.backgroundColor = doubt(score)));
  byId("others").replaceChildren(...sentence.translations.map((each, rank) => {
    const button = element("button", "", "translation");
    button.type = "button";
    button.disabled = sentence.fixed && rank > 0;
    button.setAttribute("aria-pressed", String(each === translation));
    const text = element("span", each.text);
    text.dir = "auto";
    text.lang = health.target_language;
    const score = element("span", "", "score");
    score.append(element("span", "score ", "unseen"), signed(each.score));
    score.title = "score: the log-probability of a token, on average";
    button.append(text, score);
    button.addEventListener("click", () => {
      sentence.translation = each;
      show(shown);
      byId("others").children[rank].firstChild.focus();
    });
    const line = element("li");
    line.append(button);
    return line;
  }));
  explain();
}

/** Fills a listbox with parts of which one is chosen, by pointing or by arrow keys. */
function listbox(id, items, chosen, first = items.length - 1) {
  let last = -1;
  const options = items.map((part, at) => {
    const option = token(part);
    option.setAttribute("role", "option");
    option.choose = () => {
      if (at === last) return;
      last = at;
      options.forEach((each, number) => {
        each.setAttribute("aria-selected", String(number === at));
        each.tabIndex = number === at ? 0 : -1;
      });
      chosen(at, () => last === at && option.isConnected);
    };
    option.addEventListener("pointerenter", option.choose);
    option.addEventListener("click", () => option.focus());
    option.addEventListener("focus", option.choose);
    option.addEventListener("keydown", (event) => {
      const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      (options[next] || option).focus();
    });
    return option;
  });
  byId(id).replaceChildren(...options);
  byId(id).lang = health.target_language;
  if (options.length) options[first].choose();
}

/** Shows what makes each subword of the translation that is looked into, where a visitor wants to see it. */
function explain() {
  const sentence = shown.sentences[current];
  if (!sentence || !byId("how").open) return;
  const translation = sentence.translation || sentence.translations[0];
  const targets = parts(translation.tokens);
  const sources = [...parts(sentence.source_tokens), { text: "end", joined: false }];
  const split = sentence.source_tokens.length > health.longest_source;
  byId("mixing").hidden = split; // positions are then those of parts
  byId("layers").replaceChildren();
  listbox("target", targets, (at, isChosen) => {
    const told = [`${targets[at].text}:`, attend(sources, translation.alignment && translation.alignment[at])];
    byId("told").textContent = told.join(" ");
    if (!split) mix(targets, at, isChosen, told);
  });
}

function token({ text, joined }) {
  const made = element("span", text, joined ? "token joined" : "token");
  made.dir = "auto";
  return made;
}

/** Shades the source by the weights of one row of the alignment; returns it in words. */
function attend(sources, weights) {
  byId("attended").replaceChildren(
    ...sources.map((part, at) => {
      const made = token(part);
      made.setAttribute("role", "listitem");
      if (weights) {
        made.style.backgroundColor = shade("plus", `calc(var(--strongest) * ${weights[at]})`);
        made.append(element("span", percent(weights[at]), "share"));
      }
      return made;
    }),
  );
  if (!weights) return "what it depends on is not told.";
  return `depends on ${strongest(weights).map((at) => `${sources[at].text} ${percent(weights[at])}`).join(", ")}.`;
}

/** Indices of the largest weights, the largest first. */
function strongest(weights) {
  const order = [...weights.keys()].sort((one, other) => Math.abs(weights[other]) - Math.abs(weights[one]));
  return order.slice(0, NAMED);
}

const rows = new Map(); // by position, as they are the same for all sentences

/** Shows which positions the mixing reads to make target token `at`. */
async function mix(targets, at, isChosen, told) {
  try {
    if (!rows.has(at)) {
      const answer = ask(`mixing?position=${at}`);
      rows.set(at, answer);
      answer.catch(() => rows.delete(at));
    }
    const { layers } = await rows.get(at);
    if (!isChosen()) return;
    const names = ["start", ...targets.slice(0, -1).map((part) => part.text)];
    const largest = Math.max(...layers.flat(2).map(Math.abs), 1e-4);
    byId("least").textContent = signed(-largest);
    byId("most").textContent = signed(largest);
    byId("layers").replaceChildren(...layers.map((heads, number) => figure(heads, number, names, largest)));
    for (const caption of byId("layers").querySelectorAll("figcaption")) told.push(caption.textContent);
    byId("told").textContent = told.join(" ");
  } catch (error) {
    if (isChosen()) tell(error);
  }
}

/** A layer: a line for each head, a column for each position. */
function figure(heads, number, names, largest) {
  const made = element("figure");
  const caption = element("figcaption", `Layer ${number + 1} `);
  made.append(caption);
  if (!heads) {
    caption.textContent += "has no matrix A.";
    return made;
  }
  const heard = names.slice(0, heads[0].length).map((name, at) => {
    const column = heads.map((row) => row[at]);
    const [head] = strongest(column);
    return { name, weight: column[head], head };
  });
  const found = strongest(heard.map(({ weight }) => weight)).map((at) => heard[at]);
  const which = (head) => (heads.length > 1 ? ` (head ${head + 1})` : "");
  caption.textContent += `reads most: ${found.map(({ name, weight, head }) => `${name} ${signed(weight)}${which(head)}`).join(", ")}.`;
  const table = element("table", "", "matrix");
  table.setAttribute("aria-hidden", "true"); // the caption says it in words
  const header = table.createTHead().insertRow();
  header.append(element("th"), ...names.map((name) => {
    const cell = element("th");
    cell.append(element("span", name));
    return cell;
  }));
  const body = table.createTBody();
  heads.forEach((weights, head) => {
    const line = body.insertRow();
    line.append(element("th", heads.length > 1 ? String(head + 1) : ""));
    names.forEach((name, at) => {
      const cell = line.insertCell();
      if (at >= weights.length) {
        cell.className = "later";
        return;
      }
      const weight = weights[at];
      cell.style.backgroundColor = shade(weight < 0 ? "minus" : "plus", Math.abs(weight) / largest);
      cell.title = `${heads.length > 1 ? `head ${head + 1}, ` : ""}${name}: ${signed(weight)}`;
    });
  });
  const wide = element("div", "", "wide");
  wide.append(table);
  made.append(wide);
  return made;
}

/** Takes a file's text, and its kind by the end of its name. */
async function take(file) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Problem(`${file.name} cannot be read as text in UTF-8.`);
  }
  const end = file.name.match(/\.[^.]*$/)?.[0] ?? "";
  name = file.name.slice(0, file.name.length - end.length);
  ending = end || ".txt";
  byId("kind").value = ENDINGS[end.toLowerCase()] ?? "text";
  byId("source").value = text;
  translate();
}

let name = "translation"; // of the file to save
let ending = ".txt";
const written = () => byId("translation").textContent;

async function copy() {
  if (navigator.clipboard) await navigator.clipboard.writeText(written());
  else {
    getSelection().selectAllChildren(byId("translation")); // where the page came by plain HTTP
    document.execCommand("copy");
  }
  byId("status").textContent = "Copied.";
}

function save() {
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([written()], { type: "text/plain" }));
  link.download = `${name}.${health.target_language}${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function language(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

async function start() {
  const on = (id, event, job) => byId(id).addEventListener(event, job);
  const typed = (event) => {
    clearTimeout(timer);
    if (!event.isComposing) timer = setTimeout(translate, PAUSE);
  };
  for (const each of ["source", "glossary", "avoid"]) {
    on(each, "input", typed);
    on(each, "compositionend", typed); // after letters from an input method, no input event needs to follow
  }
  on("source", "keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  on("kind", "change", translate);
  on("asking", "submit", (event) => {
    event.preventDefault();
    translate();
  });
  on("login", "submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", byId("token").value);
    byId("login").hidden = true;
    translate();
  });
  on("choose-file", "click", () => byId("file").click());
  on("file", "change", () => {
    if (byId("file").files.length) take(byId("file").files[0]).catch(tell);
    byId("file").value = "";
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]).catch(tell);
  });
  on("copy", "click", () => copy().catch(tell));
  on("save", "click", save);
  on("previous", "click", () => look(current - 1));
  on("next", "click", () => look(current + 1));
  on("how", "toggle", explain);
  try {
    health = await ask("health");
    byId("source-language").textContent = ` in ${language(health.source_language)}`;
    byId("target-language").textContent = ` in ${language(health.target_language)}`;
    byId("source").lang = health.source_language;
    byId("translation").lang = health.target_language;
  } catch (error) {
    tell(error);
  }
  if (byId("source").value) translate(); // a browser keeps it over a reload
}

start();

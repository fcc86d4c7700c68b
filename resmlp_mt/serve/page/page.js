// Text in, translation out, and what made each part of it. Text from people and from the model is set by textContent
// alone, so that markup in it stays text.

const PAUSE = 250; // milliseconds without a key, after which the text is translated
const NAMED = 3; // positions that the words about a layer name

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

/** Numbers the calls of an asynchronous job and tells whether a call is still the last one: older answers are ignored. */
function counter() {
  let last = 0;
  return () => {
    const own = ++last;
    return () => own === last;
  };
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

let health = { longest_source: Infinity, target_language: "" }; // what the server says about itself
let asking = new AbortController();
let timer;
const newest = counter();

async function translate() {
  clearTimeout(timer);
  asking.abort(); // the server drops what nobody waits for
  asking = new AbortController();
  const isLast = newest();
  const texts = byId("source").value.split("\n").filter((line) => line.trim());
  if (!texts.length) {
    byId("status").textContent = byId("problem").textContent = "";
    show([], []);
    return;
  }
  byId("status").textContent = "Translating …";
  const begin = performance.now();
  try {
    const { results } = await ask("translate", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ texts, options: { n_best: Number(byId("count").value), too_long: "split", alignment: true } }),
      signal: asking.signal,
    });
    if (!isLast()) return;
    byId("problem").textContent = "";
    const many = texts.length === 1 ? "one sentence" : `${texts.length} sentences`;
    byId("status").textContent = `Translated ${many} in ${Math.round(performance.now() - begin)} ms.`;
    show(texts, results);
  } catch (error) {
    if (isLast()) tell(error);
  }
}

let opened = [0, 0]; // the sentence and the translation that are looked into

function show(texts, results) {
  const inside = byId("inside");
  inside.hidden = true;
  document.querySelector("main").append(inside); // out of the list, which is made anew
  const list = byId("results");
  list.replaceChildren();
  const buttons = results.map((result, sentence) => {
    const item = element("li");
    if (texts.length > 1) {
      const source = element("p", texts[sentence], "source");
      source.dir = "auto";
      item.append(source);
    }
    const translations = element("ol", "", "translations");
    item.append(translations);
    list.append(item);
    return result.translations.map((translation, rank) => {
      const button = element("button", "", "translation");
      button.type = "button";
      button.setAttribute("aria-pressed", "false");
      const text = element("span", translation.text);
      text.dir = "auto";
      text.lang = health.target_language;
      const score = element("span", "", "score");
      score.append(element("span", "score ", "unseen"), signed(translation.score));
      score.title = "score: the log-probability of a token, on average";
      button.append(text, score);
      button.addEventListener("click", () => {
        opened = [sentence, rank];
        open(button, result, translation);
      });
      const line = element("li");
      line.append(button);
      translations.append(line);
      return button;
    });
  });
  const button = (buttons[opened[0]] || buttons[0] || [])[opened[1]] || (buttons[0] || [])[0];
  if (button) button.click();
}

/** Shows what is inside a translation, below its button. */
function open(button, result, translation) {
  for (const each of document.querySelectorAll(".translation")) each.setAttribute("aria-pressed", String(each === button));
  const inside = byId("inside");
  button.parentElement.append(inside);
  inside.hidden = !translation.tokens.length;
  if (inside.hidden) return;
  const targets = parts(translation.tokens);
  const options = targets.map((part, at) => {
    const option = token(part);
    option.setAttribute("role", "option");
    option.addEventListener("pointerenter", () => choose(at));
    option.addEventListener("click", () => choose(at, true));
    option.addEventListener("focus", () => choose(at));
    option.addEventListener("keydown", (event) => {
      const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: targets.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      (options[next] || option).focus();
    });
    return option;
  });
  byId("target").replaceChildren(...options);
  byId("target").lang = health.target_language;
  const sources = [...parts(result.source_tokens), { text: "end", joined: false }];
  const split = result.source_tokens.length > health.longest_source;
  byId("mixing").hidden = split; // positions are then those of parts
  byId("layers").replaceChildren();

  let chosen = -1;
  function choose(at, focus = false) {
    if (focus) options[at].focus();
    if (at === chosen) return;
    chosen = at;
    options.forEach((option, number) => {
      option.setAttribute("aria-selected", String(number === at));
      option.tabIndex = number === at ? 0 : -1;
    });
    const told = [`${targets[at].text}:`, attend(sources, translation.alignment && translation.alignment[at])];
    byId("told").textContent = told.join(" ");
    if (!split) mix(targets, at, () => chosen === at && inside.contains(options[at]), told);
  }
  choose(targets.length - 1);
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
  if (!weights) return "this model tells no attention.";
  return `attends to ${strongest(weights).map((at) => `${sources[at].text} ${percent(weights[at])}`).join(", ")}.`;
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

async function start() {
  byId("source").addEventListener("input", (event) => {
    clearTimeout(timer);
    if (!event.isComposing) timer = setTimeout(translate, PAUSE);
  });
  byId("source").addEventListener("compositionend", () => {
    timer = setTimeout(translate, PAUSE);
  });
  byId("source").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  byId("count").addEventListener("change", translate);
  byId("asking").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", byId("token").value);
    byId("login").hidden = true;
    translate();
  });
  try {
    health = await ask("health");
    byId("languages").textContent = ` (${health.source_language} → ${health.target_language})`;
    byId("source").lang = health.source_language;
  } catch (error) {
    tell(error);
  }
  if (byId("source").value) translate(); // a browser keeps it over a reload
}

start();

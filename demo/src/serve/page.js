// What the server says gets into the page by `append` and `textContent` only, which do not parse it.

const element = (id) => document.getElementById(id);
const table = () => document.querySelector("[name=table]:checked").value;

/** The columns that have keys. */
const KEYS = ["id", "customer", "order"];

/** The table of the kept id. */
let keptTable;
/** What the URL of the page that is shown has after its limit. */
let shownPage = "";
/** The page that was asked for last is shown, whichever answer comes last. */
let asked = 0;

function make(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

async function request(path, method = "GET") {
  try {
    const response = await fetch(path, { method });
    const text = await response.text();
    return { ok: response.ok, status: response.status, json: text ? JSON.parse(text) : {} };
  } catch {
    return { ok: false, status: 0, json: { title: "The server does not answer" } };
  }
}

function say(text) {
  element("message").textContent = text;
}

// The client

function keep(id) {
  element("kept").value = id;
  keptTable = table();
  element("answer").hidden = true;
}

/** Returns the reason for the log. */
async function reasonOf(id) {
  const response = await fetch(`/demo/reasons/${keptTable}/${encodeURIComponent(id)}`);
  return `The log has the reason, and a client does not get it: ${await response.text()}.`;
}

/** Sends an id, and marks the character that was changed, if one was. */
async function send(id, changed = id.length) {
  const path = `/api/${keptTable}/`;
  const { ok, status, json } = await request(path + encodeURIComponent(id));
  const reason = status === 404 ? await reasonOf(id) : "";
  const mark = changed < id.length ? [make("mark", {}, id[changed])] : [];
  element("request").replaceChildren(`GET ${path}${id.slice(0, changed)}`, ...mark, id.slice(changed + 1));
  element("status").className = ok ? "accepted" : "refused";
  element("status").textContent = ok ? `${status} OK` : `${status || ""} ${json.title ?? ""}`.trim();
  element("body").textContent = JSON.stringify(json, null, 2);
  element("reason").textContent = reason;
  element("answer").hidden = false;
}

/** Sends the kept id with one character changed, to another one that ids have. */
function tamper() {
  const id = element("kept").value;
  const changed = Math.max(0, id.length - 1 - Math.floor(Math.random() * 8));
  const character = /[0-8]/.test(id[changed]) ? String(Number(id[changed]) + 1) : "0";
  return send(id.slice(0, changed) + character + id.slice(changed + 1), changed);
}

// The rows

function cell(attributes, ...children) {
  return make("td", { role: "cell", ...attributes }, ...children);
}

function fields(names, row) {
  const list = make("dl", {});
  for (const name of names) {
    const value = make("code", KEYS.includes(name) ? { class: "key" } : {}, String(row?.[name]));
    list.append(make("dt", {}, name), make("dd", {}, value));
  }
  return list;
}

async function showPage(page) {
  const mine = ++asked;
  const name = table();
  const [inside, outside] = await Promise.all([
    request(`/demo/database/${name}?limit=8&${page}`),
    request(`/api/${name}?limit=8&${page}`),
  ]);
  if (mine !== asked) return;
  if (!inside.ok || !outside.ok) {
    if (page) return showPage(""); // The secret of its cursor is retired.
    return say((outside.ok ? inside : outside).json.title);
  }
  shownPage = page;
  const rows = outside.json.rows.map((row, i) => {
    const names = Object.keys(row);
    const button = make("button", { type: "button", "aria-label": `Keep and send ${row.id}` }, "Send");
    button.addEventListener("click", async () => {
      keep(row.id);
      await send(row.id);
      element("client-title").scrollIntoView({ block: "nearest" });
    });
    return make(
      "tr",
      { role: "row" },
      cell({ class: "inside" }, fields(names, inside.json[i])),
      cell({ class: "outside" }, fields(names, row)),
      cell({}, button),
    );
  });
  element("rows").replaceChildren(...rows);
  for (const [id, parameter, cursor] of [
    ["previous", "ending_before", outside.json.previous],
    ["next", "starting_after", outside.json.next],
  ]) {
    element(id).disabled = !cursor;
    element(id).value = `${parameter}=${cursor}`;
  }
  element("page").textContent = page || "the first page";
  if (keptTable !== name && rows.length) keep(outside.json.rows[0].id);
}

// The secrets

async function showSecrets() {
  const { ok, json } = await request("/demo/secrets");
  if (!ok) return say(json.title);
  const secrets = json.map(({ key_id, check_value, seals, is_example }) => {
    const does = is_example ? "opens, public, of the API's examples" : seals ? "seals and opens" : "opens";
    return make("li", {}, `Key id ${key_id}: ${does}; check value `, make("code", {}, check_value));
  });
  element("secrets").replaceChildren(...secrets);
  const own = json.filter(({ is_example }) => !is_example);
  element("retire").disabled = own.length === 1;
  element("rotate").disabled = own.length === 3;
}

async function change(step, done) {
  const { ok, json } = await request(`/demo/secrets/${step}`, "POST");
  say(ok ? done : (json.detail ?? json.title));
  await Promise.all([showSecrets(), showPage(shownPage), send(element("kept").value)]);
}

element("client").addEventListener("submit", (event) => {
  event.preventDefault();
  send(element("kept").value);
});
element("tamper").addEventListener("click", () => element("client").reportValidity() && tamper());
element("rotate").addEventListener("click", () => change("rotate", "A new secret seals. The kept id still opens."));
element("retire").addEventListener("click", () => change("retire", "The oldest secret is gone, and what it sealed is refused."));
element("tables").addEventListener("change", () => showPage(""));
for (const id of ["previous", "next"]) {
  element(id).addEventListener("click", async () => {
    await showPage(element(id).value);
    // A disabled button has no focus.
    if (element(id).disabled) element(id === "next" ? "previous" : "next").focus();
  });
}

await Promise.all([showSecrets(), showPage("")]);

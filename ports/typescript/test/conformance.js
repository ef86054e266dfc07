// Answers the protocol of spec/README.md: `opaque-id conformance -- node conformance.js`.

import { inspect, InvalidId, InvalidKey, Keyring, KeyringError, Listing, resource } from "opaque-id";
import process from "node:process";

const kept = new Map();

function keep(name, make) {
  const key = JSON.stringify(name);
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
}

/** Throws for what is refused. */
function answer(request) {
  const { op, prefix, kind, form, domain, id, secrets, audience } = request;
  if (op === "check") {
    const keyring = Keyring.fromEntries(secrets);
    const others = keyring.keyIds.filter((keyId) => keyId !== keyring.sealingKeyId).sort();
    return [keyring.sealingKeyId, ...others].map((keyId) => `${keyId}:${keyring.checkValue(keyId)}`).join(",");
  }
  const isCursor = form === "cursor";
  const options = { key: kind, form: isCursor ? "text" : form, ...(domain === undefined ? {} : { domain }) };
  const of = keep([prefix, options], () => resource(prefix, options));
  switch (op) {
    case "to_bytes":
      return Buffer.from(isCursor ? of.cursorToBytes(of.parseCursor(id)) : of.toBytes(of.parse(id))).toString("hex");
    case "from_bytes": {
      const bytes = Buffer.from(request.bytes, "hex");
      return isCursor ? of.cursorFromBytes(bytes) : of.fromBytes(bytes);
    }
    case "to_uuid":
      return of.toUuid(of.parse(id));
    case "from_uuid":
      return of.fromUuid(request.uuid);
  }
  const keyring = keep([secrets, audience], () => {
    const keyring = Keyring.fromEntries(secrets);
    return audience === undefined ? keyring : keyring.forAudience(audience);
  });
  const key = { i64: BigInt, i32: Number, u32: Number }[kind]?.(request.key ?? 0) ?? request.key;
  const listing = () => new Listing(of, request.name, request.filter);
  switch (op) {
    case "seal":
      return keyring.seal(of, key);
    case "seal_cursor":
      return keyring.sealCursor(of, key);
    case "open":
      return { key: String(keyring.open(of, of.parse(id))), key_id: inspect(id).keyId };
    case "open_cursor":
      return { key: String(keyring.openCursor(of, of.parseCursor(id))), key_id: inspect(id).keyId };
    case "grant":
      return keyring.grant(of, key, request.purpose, new Date(1000 * request.expires));
    case "open_grant":
      return { key: String(keyring.openGrant(of, id, request.purpose, new Date(1000 * request.now))) };
    case "position":
      return listing().seal(keyring, key, request.values);
    case "open_position": {
      const { key, values } = listing().open(keyring, id);
      return { key: String(key), values };
    }
  }
}

function answerLine(line) {
  let found;
  try {
    const ok = answer(JSON.parse(line));
    found = ok === undefined ? { unsupported: true } : { ok };
  } catch (error) {
    if (![InvalidId, InvalidKey, KeyringError, TypeError, SyntaxError].some((kind) => error instanceof kind)) throw error;
    found = { refused: String(error) };
  }
  process.stdout.write(`${JSON.stringify(found)}\n`);
}

// The lines of node:readline also end with U+2028, which is inside of some.
let rest = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop();
  lines.forEach(answerLine);
}

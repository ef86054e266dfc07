// What the package promises beside the format, on Node, Deno and Bun.

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { Expired, inspect, InvalidId, InvalidKey, Keyring, KeyringError, Listing, NotGenuine, resource, toUlid } from "opaque-id";
import * as client from "opaque-id/client";

const OLD = "0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23";
const NEW = "1:e0eb4da52f6b2f55de21fe63c1058a2456d8ed7a8137ec1735991985ddef728b";
const UUID7 = "03540772-5059-7ed9-b7d2-5bdc8902272b";
const User = resource("user", { key: "i64", form: "short" });
const Team = resource("team", { key: "i64", form: "short" });
const Order = resource("order");
const Doc = resource("doc", { key: "i64", form: "mapped" });
const keyring = Keyring.fromEntries(OLD);

test("an id is sealed and opened", () => {
  const id = keyring.seal(User, 42n);
  assert.equal(id.length, "user_".length + 13);
  assert.equal(keyring.open(User, User.parse(id)), 42n);
  assert.deepEqual(User.fromBytes(User.toBytes(id)), id);
  assert.equal(keyring.open(Order, keyring.seal(Order, UUID7)), UUID7);
  assert.equal(keyring.open(resource("n", { key: "u32" }), keyring.seal(resource("n", { key: "u32" }), 7)), 7);
});

test("texts that are no ids", () => {
  const id = keyring.seal(User, 42n);
  for (const wrong of [id.toUpperCase(), `${id} `, `${id}\n`, keyring.seal(Team, 42n), "", 42, null, undefined, {}]) {
    assert.throws(() => User.parse(wrong), InvalidId);
    const parsed = User.safeParse(wrong);
    assert.ok(!parsed.success && parsed.error instanceof InvalidId && !User.is(wrong));
  }
  assert.deepEqual(User.safeParse(id), { success: true, data: id });
  assert.match(id, new RegExp(User.pattern));
});

test("a Standard Schema", () => {
  const schema = User["~standard"];
  const id = keyring.seal(User, 42n);
  assert.deepEqual([schema.version, schema.vendor], [1, "opaque-id"]);
  assert.deepEqual(schema.validate(id), { value: id });
  assert.match(schema.validate("user_x").issues[0].message, /^expected 13 or 26 characters/);
});

test("inspect says what a text is", () => {
  const id = keyring.seal(User, 42n);
  assert.deepEqual(inspect(id), { form: "short", prefix: "user", keyId: 0 });
  assert.equal(inspect(` ${id.toUpperCase()}\n`).suggestion, id);
  assert.ok(inspect(id.toUpperCase()).problem);
  assert.equal(inspect(keyring.sealCursor(User, 42n)).form, "cursor");
  assert.deepEqual(inspect(keyring.grant(User, 42n, "x", new Date())), { form: "grant", prefix: "user", keyId: 0 });
  assert.equal(inspect("716cee48-4310-856c-baad-e0728fbe021c").form, "uuid");
  for (const other of ["", "42", "_", "user_", UUID7, "Ünïcode_x", undefined, "user_position_" + "0".repeat(4e6)]) {
    assert.ok(inspect(other).problem && !inspect(other).suggestion);
  }
});

test("what is no key", () => {
  for (const [of, key] of [[User, 42], [User, "42"], [User, 2n ** 63n], [Order, 42n], [Order, "42"], [Order, UUID7.toUpperCase()]]) {
    assert.throws(() => keyring.seal(of, key), InvalidKey);
  }
  assert.throws(() => keyring.seal(resource("n", { key: "i32" }), 1.5), InvalidKey);
});

test("a ULID is a key", () => {
  const [Event, ulid] = [resource("event", { key: "ulid" }), "01ARZ3NDEKTSV4RRFFQ69G5FAV"];
  const id = keyring.seal(Event, ulid);
  const key = keyring.open(Event, id);
  assert.equal(key, "01563e3a-b5d3-d676-4c61-efb99302bd5b");
  assert.deepEqual([keyring.seal(Event, key), keyring.seal(Event, ulid.toLowerCase()), toUlid(key)], [id, id, ulid]);
  assert.deepEqual(keyring.openGrant(Event, keyring.grant(Event, ulid, "x", new Date(Date.now() + 1e6)), "x"), key);
  assert.equal(toUlid("00000000-0000-0000-0000-000000000000"), "0".repeat(26));
  assert.equal(keyring.open(Event, keyring.seal(Event, `7${"Z".repeat(25)}`)), "ffffffff-ffff-ffff-ffff-ffffffffffff");
  for (const wrong of [`8${ulid.slice(1)}`, ulid.slice(1), `${ulid} `, ulid.replace("A", "U"), ulid.replace("K", "\u212a"), ""]) {
    assert.throws(() => keyring.seal(Event, wrong), /expected a UUID in lower case with hyphens, or a ULID/);
  }
  assert.throws(() => keyring.seal(Order, ulid), InvalidKey);
});

test("what is no resource", () => {
  const options = [{ key: "i64", form: "tagged" }, { key: "ulid", form: "uuid" }, { key: "int" }, { key: ["i64"] }];
  const domains = ["", "\ud800", "a\udfff", 42, null].map((domain) => ({ domain }));
  for (const [prefix, option] of [["User", {}], [["user"], {}], ...[...options, ...domains].map((option) => ["user", option])]) {
    assert.throws(() => resource(prefix, option), TypeError);
  }
});

test("rotation", () => {
  const id = keyring.seal(User, 42n);
  const both = Keyring.fromEntries(`${NEW},${OLD}`);
  assert.equal(both.open(User, id), 42n);
  assert.equal(both.renew(User, id), both.seal(User, 42n));
  assert.throws(() => Keyring.fromEntries(NEW).open(User, id), NotGenuine);
});

test("audiences", () => {
  const id = keyring.forAudience("partner-a").seal(User, 42n);
  assert.equal(keyring.forAudience("partner-a").open(User, id), 42n);
  assert.throws(() => keyring.open(User, id), NotGenuine);
});

test("grants and positions", () => {
  const now = new Date();
  const grant = keyring.grant(Order, UUID7, "download", new Date(now.getTime() + 60_000));
  assert.equal(keyring.openGrant(Order, grant, "download"), UUID7);
  assert.throws(() => keyring.openGrant(Order, grant, "download", new Date(now.getTime() + 120_000)), Expired);
  assert.throws(() => keyring.openGrant(Order, grant, "delete"), NotGenuine);
  const byName = new Listing(User, "users by name", { team: "röd & blue" });
  const position = byName.seal(keyring, 42n, ["Ada", null]);
  assert.deepEqual(byName.open(keyring, position), { key: 42n, values: ["Ada", null] });
  assert.throws(() => new Listing(User, "users by name").open(keyring, position), NotGenuine);
  assert.equal(keyring.openGrant(resource("admin", { domain: "order" }), grant.replace("order_", "admin_"), "download"), UUID7);
});

test("what changes in JSON is no sort value", () => {
  const list = new Listing(User, "n");
  const wrong = [NaN, [-Infinity], { a: undefined }, [undefined], undefined, Symbol("a"), 1n, 2 ** 53, [-(2 ** 60)], "\ud800", {
    "\udfff": 1,
  }];
  for (const values of [...wrong, "x".repeat(10_300)]) assert.throws(() => list.seal(keyring, 42n, values), TypeError);
  for (const values of [2 ** 53 - 1, 0.1234567890123456789, 1e300, "9007199254740993 \ud83d\ude00 \\ud800", { '"1': "\\" }, null]) {
    assert.deepEqual(list.open(keyring, list.seal(keyring, 42n, values)).values, values);
  }
  // As programs with other numbers and texts seal them.
  for (const json of ["9007199254740993", "[-9007199254740992]", '{"a":1e1,"b":18446744073709551615}', '"\\ud800"']) {
    const position = keyring._sealToken(User, 42n, "position", ["n", "null"], new TextEncoder().encode(json));
    assert.throws(() => list.open(keyring, position), NotGenuine);
  }
});

test("names with a lone surrogate", () => {
  for (const name of ["\ud800", "\ufffd\udc00", 42, undefined]) {
    assert.throws(() => keyring.forAudience(name), TypeError);
    assert.throws(() => keyring.grant(User, 42n, name, new Date()), TypeError);
    assert.throws(() => new Listing(User, name).seal(keyring, 42n, 1), TypeError);
    if (typeof name === "string") assert.throws(() => new Listing(User, "n", [name]), TypeError);
  }
  // JSON would have {} for each.
  for (const filter of [new URLSearchParams("team=1"), new Map([["team", 1]]), new Set([1])]) {
    assert.throws(() => new Listing(User, "n", filter), TypeError);
  }
});

test("hostile input is no id, and is refused before it is decoded", () => {
  const long = "0".repeat(4_000_000);
  const others = [
    undefined,
    null,
    42,
    42n,
    NaN,
    true,
    [],
    ["user_"],
    {},
    { length: 36 },
    () => 1,
    Symbol("a"),
    new Date(),
    new Uint8Array(17),
  ];
  for (const wrong of [...others, "", "\ud800", long, `user_${long}`, `user_grant_${long}`, `user_position_${long}`]) {
    const attempts = [() => User.parse(wrong), () => User.parseCursor(wrong), () => keyring.open(User, wrong), () => Doc.fromUuid(wrong)];
    attempts.push(() => keyring.openGrant(User, wrong, "x"), () => new Listing(User, "n").open(keyring, wrong));
    if (!(wrong instanceof Uint8Array)) attempts.push(() => User.fromBytes(wrong));
    for (const attempt of attempts) assert.throws(attempt, InvalidId);
    assert.ok(inspect(wrong).problem);
  }
});

test("mapped ids", () => {
  assert.equal(Doc.toUuid(Doc.fromUuid(UUID7)), UUID7);
  assert.throws(() => keyring.seal(Doc, 1n), TypeError);
  assert.throws(() => User.toUuid(keyring.seal(User, 1n)), TypeError);
  assert.equal(keyring.openCursor(Doc, keyring.sealCursor(Doc, 1n)), 1n);
});

test("secrets of variables and files", () => {
  delete process.env.OPAQUE_ID_KEYS;
  assert.throws(() => Keyring.fromEnv(), /OPAQUE_ID_KEYS is not set/);
  process.env.OPAQUE_ID_KEYS = OLD;
  assert.deepEqual(Keyring.fromEnv().keyIds, [0]);
  const folder = mkdtempSync(join(tmpdir(), "opaque-id-"));
  try {
    const file = join(folder, "keys");
    writeFileSync(file, `# sealing\n${NEW}\n${OLD}\n`, { mode: 0o600 });
    assert.deepEqual(Keyring.fromFile(file).keyIds, [1, 0]);
    chmodSync(file, 0o644);
    assert.throws(() => Keyring.fromFile(file), /mode 600 or 640, found 644/);
    assert.deepEqual(Keyring.fromFile(file, { shared: true }).keyIds, [1, 0]);
    chmodSync(file, 0o600);
    writeFileSync(file, Uint8Array.of(0xff));
    assert.throws(() => Keyring.fromFile(file), /UTF-8/);
    writeFileSync(file, "#".repeat(65_537));
    assert.throws(() => Keyring.fromFile(file), /65536/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("errors hide secrets", () => {
  const secret = OLD.slice(2);
  for (const text of [`0:${secret.slice(1)}`, `0${secret}`, `7:${secret}`, `${OLD},0:${secret}`]) {
    assert.throws(
      () => Keyring.fromEntries(text),
      (error) => error instanceof KeyringError && !error.message.includes(secret.slice(2, 18)),
    );
  }
  assert.ok(!JSON.stringify(keyring).includes(secret.slice(0, 16)));
});

test("the client holds no secrets and imports nothing of a server", () => {
  assert.deepEqual(Object.keys(client).sort(), ["InvalidId", "Resource", "inspect", "resource", "toUlid"]);
  const files = [fileURLToPath(import.meta.resolve("opaque-id/client"))];
  for (const file of files) {
    const source = readFileSync(file, "utf8");
    assert.doesNotMatch(source, /\b(Buffer|process|require|globalThis)\b/);
    for (const [, name] of source.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)) {
      assert.match(name, /^\.\//, `${file} imports ${name}`);
      const path = join(dirname(file), name);
      if (!files.includes(path)) files.push(path);
    }
  }
  assert.equal(files.length, 2);
});

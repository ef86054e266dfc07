/**
 * The keyring: up to four secrets. The first one seals, and all of them open. It is for servers: Node, Deno and Bun.
 *
 * @module
 */

import { randomBytes, timingSafeEqual } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import process from "node:process";
import type { Cursor, Id, KeyOf, Resource } from "./client.ts";
import { checkKey, InvalidKey, subkey, Subkeys, utf8 } from "./subkeys.ts";
import {
  bigIntToUuid,
  decode,
  decodeToken,
  encode,
  encodeToken,
  type Form,
  InvalidId,
  isInteger,
  type Kind,
  MAX_TOKEN,
  ulidToBigInt,
  uuidToBigInt,
} from "./text.ts";

export { InvalidKey } from "./subkeys.ts";

/** The secrets are not usable. The message names the entry, never the secret. */
export class KeyringError extends Error {
  override name = "KeyringError";
}

/** The id was made up or altered, or its secret is retired. */
export class NotGenuine extends InvalidId {
  override name = "NotGenuine";
}

/** The grant has expired. */
export class Expired extends InvalidId {
  override name = "Expired";
}

const VARIABLE = "OPAQUE_ID_KEYS";
const MAX_FILE = 64 * 1024;
const EXAMPLE = "opaque-id: example, not a secret";

/** Any resource with keys of the kind `K`. */
type Of<P extends string, K extends Kind, F extends Form> = Resource<P, K, F>;

/** Seals and opens ids. Create it once, at start, such as by `Keyring.fromEnv()`. */
export class Keyring {
  readonly #secrets: Map<number, Uint8Array>;
  readonly #subkeys: Map<string, Subkeys> = new Map();
  readonly sealingKeyId: number;

  private constructor(secrets: Iterable<[number, Uint8Array]>) {
    this.#secrets = new Map(secrets);
    this.sealingKeyId = this.keyIds[0]!;
  }

  /** Reads the entries of `OPAQUE_ID_KEYS`. `opaque-id keygen` generates them. The first one seals, and all of them open. */
  static fromEnv(): Keyring {
    const entries = process.env[VARIABLE];
    if (entries === undefined) throw new KeyringError(`${VARIABLE} is not set; \`opaque-id keygen\` generates an entry`);
    return Keyring.fromEntries(entries, VARIABLE);
  }

  /** Reads a file of entries. On POSIX its mode must be private (600 or 640) unless `shared` is true. */
  static fromFile(path: string, { shared = false }: { shared?: boolean } = {}): Keyring {
    const file = openSync(path, "r");
    const bytes = new Uint8Array(MAX_FILE + 1);
    let size = 0;
    try {
      const status = fstatSync(file);
      if (process.platform !== "win32" && !shared && status.isFile() && status.mode & 0o037) {
        throw new KeyringError(
          `${path}: expected mode 600 or 640, found ${(status.mode & 0o777).toString(8)}: others can read or write it, so \`chmod 600\``,
        );
      }
      for (let read = -1; read !== 0 && size < bytes.length; size += read) read = readSync(file, bytes, size, bytes.length - size, null);
    } finally {
      closeSync(file);
    }
    if (size > MAX_FILE) throw new KeyringError(`${path}: expected at most ${MAX_FILE} bytes`);
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, size));
    } catch {
      throw new KeyringError(`${path}: expected UTF-8`);
    }
    return Keyring.fromEntries(text, path);
  }

  /** Reads entries `key_id:64 hex digits` (section 14). Messages call the text `source`. */
  static fromEntries(text: string, source: string = "the text"): Keyring {
    const lines = text.replace(/^\ufeff/, "").split("\n").map(trim).filter((line) => !line.startsWith("#"));
    const entries = lines.flatMap((line) => line.split(",")).map(trim).filter((entry) => entry !== "");
    const found = new Map<number, Uint8Array>();
    for (const [i, entry] of entries.entries()) {
      const refuse = (problem: string): never => {
        throw new KeyringError(`${source}, entry ${i + 1}: ${problem}`);
      };
      const [keyId, digits] = entry.split(/:(.*)/s).map(trim);
      if (digits === undefined || !/^[0-3]$/.test(keyId!)) refuse("expected `key_id:64 hex digits`, with a key id from 0 to 3");
      if (!/^[0-9a-fA-F]{64}$/.test(digits!)) refuse("expected 64 hex digits (`opaque-id keygen` generates an entry)");
      const secret = Buffer.from(digits!, "hex");
      if (secret.equals(Buffer.from(EXAMPLE))) refuse("it is the secret of the documentation's examples, which everyone knows"); // R13.10
      if (secret.every((byte) => byte === secret[0])) refuse("all bytes are the same, so it is no secret");
      const isRepeated = found.has(Number(keyId)) || [...found.values()].some((other) => timingSafeEqual(other, secret));
      if (isRepeated) refuse("an earlier entry has the same key id or secret");
      found.set(Number(keyId), secret);
    }
    if (found.size === 0) {
      throw new KeyringError(`${source}: expected an entry \`key_id:64 hex digits\` (\`opaque-id keygen\` generates one)`);
    }
    return new Keyring(found);
  }

  /** A keyring with a new secret, for tests. */
  static generate(): Keyring {
    return new Keyring([[0, randomBytes(32)]]);
  }

  /** The keyring of an audience, such as a partner. Its ids differ from all others (R1.7). Keep it, because it derives its own subkeys. */
  forAudience(name: string): Keyring {
    utf8(name);
    return new Keyring([...this.#secrets].map(([keyId, secret]) => [keyId, subkey(secret, "audience", name, 32)]));
  }

  get keyIds(): number[] {
    return [...this.#secrets.keys()];
  }

  /** Shows whether two environments have the same secret, and reveals nothing else about it (R1.6). */
  checkValue(keyId: number): string | undefined {
    const secret = this.#secrets.get(keyId);
    return secret && Buffer.from(subkey(secret, "check", "", 4)).toString("hex");
  }

  #keys(domain: string, keyId: number = this.sealingKeyId): Subkeys {
    const name = `${keyId} ${domain}`;
    let keys = this.#subkeys.get(name);
    if (keys === undefined) {
      const secret = this.#secrets.get(keyId);
      if (secret === undefined) throw new NotGenuine(`no secret has its key id, ${keyId}`);
      keys = new Subkeys(secret, keyId, domain);
      this.#subkeys.set(name, keys);
    }
    return keys;
  }

  /** Returns the external id. It stays the same until the sealing secret changes. */
  seal<P extends string, K extends Kind, F extends Form>(of: Of<P, K, F>, key: KeyOf<K>): Id<P, F> {
    checkSealed(of);
    return encode(of.prefix, of.form, this.#keys(of.domain).seal(of.key, of.form, toBigInt(of, key))) as Id<P, F>;
  }

  /** Returns the key, or throws `NotGenuine`. It does not say that the row exists. */
  open<P extends string, K extends Kind, F extends Form>(of: Of<P, K, F>, id: NoInfer<Id<P, F>>): KeyOf<K> {
    checkSealed(of);
    const body = decode(of.prefix, of.form, id);
    return ofBigInt(of, this.#keys(of.domain, body.keyId).open(of.key, of.form, body));
  }

  /** Converts an external id to the sealing secret. */
  renew<P extends string, K extends Kind, F extends Form>(of: Of<P, K, F>, id: NoInfer<Id<P, F>>): Id<P, F> {
    return this.seal(of, this.open(of, id));
  }

  /** Seals the position of a row in a list by its primary key. */
  sealCursor<P extends string, K extends Kind, F extends Form>(of: Of<P, K, F>, key: KeyOf<K>): Cursor<P> {
    return encode(of.prefix, "cursor", this.#keys(of.domain).sealCursor(of.key, of.form, toBigInt(of, key))) as Cursor<P>;
  }

  openCursor<P extends string, K extends Kind, F extends Form>(of: Of<P, K, F>, cursor: NoInfer<Cursor<P>>): KeyOf<K> {
    const body = decode(of.prefix, "cursor", cursor);
    return ofBigInt(of, this.#keys(of.domain, body.keyId).openCursor(of.key, of.form, body));
  }

  /** Returns a text that stands for a row, for one purpose and until a time. */
  grant<P extends string, K extends Kind, F extends Form>(of: Of<P, K, F>, key: KeyOf<K>, purpose: string, expires: Date): string {
    const payload = Buffer.alloc(8);
    payload.writeBigUInt64BE(BigInt(Math.max(0, Math.floor(expires.getTime() / 1000))));
    return this._sealToken(of, key, "grant", [purpose], payload);
  }

  /** Opens a grant for its purpose, or throws `Expired` from its time on. */
  openGrant<P extends string, K extends Kind, F extends Form>(
    of: Of<P, K, F>,
    text: unknown,
    purpose: string,
    now: Date = new Date(),
  ): KeyOf<K> {
    const { key, payload } = this._openToken(of, text, "grant", [purpose]);
    if (BigInt(now.getTime()) >= 1000n * Buffer.from(payload).readBigUInt64BE()) throw new Expired("its time is over"); // R13.9
    return key;
  }

  /** For `Listing`. */
  _sealToken<K extends Kind>(of: Of<string, K, Form>, key: KeyOf<K>, kind: string, parts: string[], payload: Uint8Array): string {
    const token = this.#keys(of.domain).sealToken(of.key, of.form, toBigInt(of, key), associated(kind, parts), payload);
    return encodeToken(of.prefix, kind, token);
  }

  /** For `Listing`. */
  _openToken<K extends Kind>(
    of: Of<string, K, Form>,
    text: unknown,
    kind: string,
    parts: string[],
  ): { key: KeyOf<K>; payload: Uint8Array } {
    const token = decodeToken(of.prefix, kind, text);
    const opened = this.#keys(of.domain, token[0]).openToken(of.key, of.form, token, associated(kind, parts));
    if (opened === undefined) throw new NotGenuine("it is not genuine, or of another purpose");
    return { key: ofBigInt(of, opened.key), payload: opened.payload };
  }
}

/**
 * A list that is ordered by other columns before the key. It seals the positions of its pages, and opens them. `filter` is the filter of a
 * request: any value of JSON. A position opens for the same filter only: the same members in the same order.
 */
export class Listing<K extends Kind> {
  readonly #of: Of<string, K, Form>;
  readonly #parts: string[];

  constructor(of: Of<string, K, Form>, name: string, filter: unknown = null) {
    this.#of = of;
    this.#parts = [name, toJson(filter, "filter")];
  }

  /** Seals the position of a row. Its sort values are any values of JSON. Pass an integer beyond 2^53 as a text. */
  seal(keyring: Keyring, key: KeyOf<K>, values: unknown): string {
    const text = keyring._sealToken(this.#of, key, "position", this.#parts, utf8(toJson(values, "values")));
    if (text.length > MAX_TOKEN) {
      throw new TypeError(`values: expected fewer, found a position of ${text.length} characters; the limit is ${MAX_TOKEN}`);
    }
    return text;
  }

  /** Returns the row's key and sort values. Check the types of the values: any program with the secrets can seal them. */
  open(keyring: Keyring, text: unknown): { key: KeyOf<K>; values: unknown } {
    const { key, payload } = keyring._openToken(this.#of, text, "position", this.#parts);
    try {
      const json = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload);
      const values = JSON.parse(json);
      checkJson(json);
      return { key, values };
    } catch {
      throw new NotGenuine("expected sort values in JSON, in Unicode and without integers beyond 2^53");
    }
  }
}

/** R13.1 */
function associated(kind: string, parts: string[]): Uint8Array {
  return Buffer.concat([utf8(kind), ...parts.flatMap((part) => [Uint8Array.of(0), utf8(part)])]);
}

/** Removes the white space of R14.1. JavaScript's `trim` removes more. */
function trim(text: string): string {
  return text.replace(/^[ \t\r]+|[ \t\r]+$/g, "");
}

/** Writes JSON in the form of R13.1. `JSON.stringify` has the same form, but changes some values silently. */
function toJson(value: unknown, what: string): string {
  const json = JSON.stringify(value, (_, part) => {
    const isJson = typeof part === "number" ? Number.isFinite(part) : !["undefined", "function", "symbol"].includes(typeof part);
    // A Map, a Set or URLSearchParams would be `{}`.
    const isHidden = typeof part === "object" && part !== null && Symbol.iterator in part && !Array.isArray(part);
    if (!isJson || isHidden) throw new TypeError(`${what}: expected what JSON has, found ${String(part)}`);
    return part;
  });
  checkJson(json, what);
  return json;
}

/** Refuses an integer that `JSON.parse` would round, and a lone surrogate, because JSON can only escape it. */
function checkJson(json: string, what: string = "JSON"): void {
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g)) {
    const isExact = token.startsWith('"')
      ? JSON.parse(token).isWellFormed()
      : Number[/[.eE]/.test(token) ? "isFinite" : "isSafeInteger"](Number(token));
    if (!isExact) throw new TypeError(`${what}: expected texts in Unicode and integers below 2^53`);
  }
}

function checkSealed(of: { form: Form; prefix: string }): void {
  if (of.form.startsWith("mapped")) throw new TypeError(`\`${of.prefix}\` is mapped: its ids are not sealed, but in a table`);
}

function toBigInt<K extends Kind>(of: { key: K; form: Form }, key: KeyOf<K>): bigint {
  const expected = of.key === "i64" ? "bigint" : isInteger(of.key) ? "number" : "string";
  if (typeof key !== expected || (typeof key === "number" && !Number.isInteger(key))) throw new InvalidKey(`expected a ${expected}`);
  let value: bigint;
  try {
    const ulid = typeof key === "string" && of.key === "ulid" ? ulidToBigInt(key) : undefined;
    value = ulid ?? (typeof key === "string" ? uuidToBigInt(key) : BigInt(key));
  } catch {
    throw new InvalidKey(`expected a UUID in lower case with hyphens${of.key === "ulid" ? ", or a ULID" : ""}`);
  }
  checkKey(of.key, of.form, value);
  return value;
}

function ofBigInt<K extends Kind>(of: { key: K }, value: bigint | undefined): KeyOf<K> {
  if (value === undefined) throw new NotGenuine("it was made up or altered, or is of another resource");
  return (of.key === "i64" ? value : isInteger(of.key) ? Number(value) : bigIntToUuid(value)) as KeyOf<K>;
}

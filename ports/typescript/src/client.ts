/**
 * Ids without secrets, also for browsers: their types and the inspection of texts.
 *
 * ```ts
 * export const User = resource("user", { key: "i64", form: "short" });
 * export type UserId = IdOf<typeof User>;
 *
 * const id: UserId = User.parse(location.pathname.slice("/users/".length));
 * ```
 *
 * @module
 */

import { bigIntToUuid, decode, decodeToken, encode, type Form, fromBytes, hasForm, InvalidId } from "./text.ts";
import { isKind, isPrefix, type Kind, MAX_TOKEN, pattern, toBytes, uuidToBigInt } from "./text.ts";

export { type Form, InvalidId, type Kind, toUlid } from "./text.ts";

/** An external id, such as `` `user_${string}` ``. Only a parsed text has this type, and only for its own resource. */
export type Id<P extends string, F extends Form = "text"> =
  & (F extends "uuid" | "mapped_uuid" ? string : `${P}_${string}`)
  & { readonly opaqueId: P };

/** The position of a row in a list. Clients cannot make one up. */
export type Cursor<P extends string> = `${P}_cursor_${string}` & { readonly opaqueIdCursor: P };

/** The type of a resource's ids. */
export type IdOf<R> = R extends Resource<infer P, infer _, infer F> ? Id<P, F> : never;

/** The type of a resource's cursors. */
export type CursorOf<R> = R extends Resource<infer P, infer _, infer __> ? Cursor<P> : never;

/** The value in the database: a `bigint`, a `number` for the narrow integers, or the text of a UUID in lower case with hyphens. */
export type KeyOf<K extends Kind> = K extends "i64" ? bigint : K extends "i32" | "u32" ? number : string;

export type Parsed<T> = { success: true; data: T } | { success: false; error: InvalidId };

/** Standard Schema, version 1: https://standardschema.dev */
export interface StandardSchema<Output> {
  readonly version: 1;
  readonly vendor: "opaque-id";
  readonly validate: (value: unknown) => { readonly value: Output } | { readonly issues: readonly { readonly message: string }[] };
  readonly types?: { readonly input: string; readonly output: Output };
}

export interface Options<K extends Kind, F extends Form> {
  /** `key = …` of the derive in Rust. */
  key?: K;
  form?: F;
  /** The name that the subkeys are derived from, if it is not the prefix. */
  domain?: string;
}

/** A resource, with the values of its `#[opaque_id(…)]` in Rust. */
export class Resource<P extends string, K extends Kind, F extends Form> {
  readonly prefix: P;
  readonly key: K;
  readonly form: F;
  readonly domain: string;
  /** tRPC and other tools accept the resource where they accept a schema of zod or valibot. */
  readonly "~standard": StandardSchema<Id<P, F>>;

  constructor(prefix: P, key: K, form: F, domain: string) {
    if (!isPrefix(prefix)) throw new TypeError("prefix: expected 1 to 63 of a-z, 0-9 and _, starting with a letter and not ending with _");
    if (typeof domain !== "string" || domain === "" || !domain.isWellFormed()) {
      throw new TypeError("domain: expected a text in Unicode that is not empty; leave it out to use the prefix");
    }
    if (!isKind(key)) throw new TypeError(`key: expected uuid7, ulid, structured, uuid, i64, i32 or u32, found ${key}`);
    if (!hasForm(key, form)) throw new TypeError(`form: expected one that the key ${key} has, found ${form}`);
    [this.prefix, this.key, this.form, this.domain] = [prefix, key, form, domain];
    this["~standard"] = {
      version: 1,
      vendor: "opaque-id",
      validate: (value) => {
        const parsed = this.safeParse(value);
        return parsed.success ? { value: parsed.data } : { issues: [{ message: parsed.error.message }] };
      },
    };
  }

  /** Reads an external id, or throws `InvalidId`. It may still be made up: the server's keyring opens it. */
  parse(text: unknown): Id<P, F> {
    decode(this.prefix, this.form, text);
    return text as Id<P, F>;
  }

  safeParse(text: unknown): Parsed<Id<P, F>> {
    try {
      return { success: true, data: this.parse(text) };
    } catch (error) {
      if (error instanceof InvalidId) return { success: false, error };
      throw error;
    }
  }

  is(text: unknown): text is Id<P, F> {
    return this.safeParse(text).success;
  }

  parseCursor(text: unknown): Cursor<P> {
    decode(this.prefix, "cursor", text);
    return text as Cursor<P>;
  }

  cursorToBytes(cursor: Cursor<P>): Uint8Array {
    return toBytes("cursor", decode(this.prefix, "cursor", cursor));
  }

  cursorFromBytes(bytes: Uint8Array): Cursor<P> {
    return encode(this.prefix, "cursor", fromBytes("cursor", bytes)) as Cursor<P>;
  }

  /** The regular expression that matches exactly the texts that parse. */
  get pattern(): string {
    return pattern(this.prefix, this.form);
  }

  /** The binary form, for messages that are not for people. */
  toBytes(id: Id<P, F>): Uint8Array {
    return toBytes(this.form, decode(this.prefix, this.form, id));
  }

  fromBytes(bytes: Uint8Array): Id<P, F> {
    return encode(this.prefix, this.form, fromBytes(this.form, bytes)) as Id<P, F>;
  }

  /** The UUID of a mapped resource's id. Its table has this UUID. */
  toUuid(id: Id<P, F>): string {
    this.#checkMapped();
    return bigIntToUuid(decode(this.prefix, this.form, id).value);
  }

  fromUuid(uuid: string): Id<P, F> {
    this.#checkMapped();
    return encode(this.prefix, this.form, { keyId: 0, value: uuidToBigInt(uuid), bits: 128 }) as Id<P, F>;
  }

  #checkMapped(): void {
    if (!this.form.startsWith("mapped")) {
      throw new TypeError(`expected a mapped resource, found the form ${this.form}: a keyring seals and opens its ids`);
    }
  }
}

/** Names a resource. The default of `key` is `"uuid7"`, that of `form` is `"text"`. */
export function resource<const P extends string, const K extends Kind = "uuid7", const F extends Form = "text">(
  prefix: P,
  { key = "uuid7" as K, form = "text" as F, domain = prefix }: Options<K, F> = {},
): Resource<P, K, F> {
  return new Resource(prefix, key, form, domain);
}

export interface Inspection {
  /** The form of a well-formed text. Longer ids of the short form have the text form. */
  form?: "text" | "short" | "tagged" | "uuid" | "cursor" | "grant" | "position";
  prefix?: string;
  /** The key id of the secret that the id claims to be sealed with. */
  keyId?: number;
  problem?: string;
  /** The well-formed text that the user probably meant. */
  suggestion?: string;
}

/** Describes a text and its problem, if it has one. Only a keyring can say whether an id is genuine. */
export function inspect(text: unknown): Inspection {
  if (typeof text !== "string" || text.length > MAX_TOKEN) return { problem: `expected a text of at most ${MAX_TOKEN} characters` };
  const found = inspectExact(text);
  if (found.problem === undefined) return found;
  const trimmed = text.trim().toLowerCase();
  const cut = trimmed.lastIndexOf("_") + 1;
  const body = trimmed.slice(cut).replace(/o/g, "0").replace(/[il]/g, "1");
  const suggestion = trimmed.slice(0, cut) + (cut > 0 ? body.replaceAll("-", "") : body);
  const meant = inspectExact(suggestion);
  return meant.problem === undefined ? { ...meant, problem: found.problem, suggestion } : found;
}

function inspectExact(text: string): Inspection {
  const cut = text.lastIndexOf("_");
  const attempts: [Inspection["form"], string, string][] = [];
  if (cut < 0) attempts.push(["uuid", "", "uuid"]);
  const whole = text.slice(0, Math.max(cut, 0));
  for (const kind of ["grant", "position", "cursor"] as const) {
    if (whole.endsWith(`_${kind}`)) attempts.push([kind, whole.slice(0, -kind.length - 1), kind]);
  }
  if (cut >= 0) attempts.push([text.length - cut - 1 === 13 ? "short" : text.length - cut - 1 === 34 ? "tagged" : "text", whole, ""]);
  let problem = "expected `prefix_` and 13, 26 or 34 characters, or a UUID of version 8";
  for (const [form, prefix, kind] of attempts) {
    try {
      if (kind !== "uuid" && !isPrefix(prefix)) throw new InvalidId("invalid prefix");
      const keyId = kind === "grant" || kind === "position" ? decodeToken(prefix, kind, text)[0]! : decode(prefix, form!, text).keyId;
      return kind === "uuid" ? { form: "uuid", keyId } : { form: form!, prefix, keyId };
    } catch (error) {
      if (!(error instanceof InvalidId)) throw error;
      problem = error.message;
    }
  }
  return { problem };
}

/**
 * Texts and bytes of ids, without any secret. The comments name requirements of docs/FORMAT.md.
 *
 * @module
 */

/** The text is no id, or the id does not open. Answer "not found", the same answer as for an id without a row. */
export class InvalidId extends Error {
  override name = "InvalidId";
}

/** A kind of key (section 2). */
export type Kind = "uuid7" | "ulid" | "structured" | "uuid" | "i64" | "i32" | "u32";

/** A form of ids. */
export type Form = "text" | "short" | "tagged" | "uuid" | "mapped" | "mapped_uuid";

/** An id without its prefix: a key id, and a value with its number of bits. */
export interface Body {
  keyId: number;
  value: bigint;
  bits: number;
}

const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const DIGIT = "[0-9a-hjkmnp-tv-z]";
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const BITS: Record<number, number> = { 13: 62, 26: 128, 34: 168 };
const CHARS: Record<number, number> = { 62: 13, 128: 26, 168: 34 };
const LENGTHS: Record<string, number[]> = { text: [26], short: [13, 26], tagged: [34], mapped: [26], cursor: [34] };
const KINDS: unknown[] = ["uuid7", "ulid", "structured", "uuid", "i64", "i32", "u32"];
/** The lengths of the longest token (R13.5), and of a grant after its kind, in characters. */
export const MAX_TOKEN = 16384;
const GRANT = 85;
const UUID_VERSION = 0xfn << 76n | 3n << 62n;
const UUID_8 = 8n << 76n | 2n << 62n;

export function low(value: bigint, bits: number): bigint {
  return BigInt.asUintN(bits, value);
}

export function isInteger(kind: Kind): boolean {
  return kind === "i64" || kind === "i32" || kind === "u32";
}

export function isKind(kind: unknown): kind is Kind {
  return KINDS.includes(kind);
}

export function hasForm(kind: Kind, form: string): boolean {
  switch (form) {
    case "text":
      return true;
    case "short":
      return isInteger(kind);
    case "tagged":
      return !isInteger(kind);
    case "uuid":
      return kind !== "ulid" && kind !== "uuid";
    default:
      return kind === "i64" && (form === "mapped" || form === "mapped_uuid");
  }
}

/** R1.3 */
export function isPrefix(prefix: unknown): boolean {
  return typeof prefix === "string" && /^[a-z]([a-z0-9_]{0,61}[a-z0-9])?$/.test(prefix);
}

/** Writes a value in base32. JavaScript's own digits differ from `i` on. */
function digits(value: bigint, chars: number): string {
  return value.toString(32).padStart(chars, "0").replace(/[i-v]/g, (digit) => DIGITS[digit.charCodeAt(0) - 87]!);
}

function ofDigits(text: string): bigint {
  const own = text.replace(/[j-z]/g, (digit) => DIGITS.indexOf(digit).toString(32));
  let value = 0n;
  for (let i = 0; i < own.length; i += 10) {
    const part = own.slice(i, i + 10);
    value = value << BigInt(5 * part.length) | BigInt(parseInt(part, 32));
  }
  return value;
}

function isDigits(text: string): boolean {
  return /^[0-9a-hjkmnp-tv-z]+$/.test(text);
}

/** The regular expression that matches exactly the well-formed texts. */
export function pattern(prefix: string, form: string): string {
  switch (form) {
    case "mapped_uuid":
      return UUID.source;
    case "uuid":
      return "^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
    case "mapped":
      return `^${prefix}_[0-7]${DIGIT}{25}$`;
    case "short":
      return `^${prefix}_([0-9a-f]${DIGIT}{12}|${DIGIT}{26})$`;
    default:
      return `^${start(prefix, form)}${DIGIT}{${LENGTHS[form]![0]}}$`;
  }
}

function start(prefix: string, form: string): string {
  return form === "cursor" ? `${prefix}_cursor_` : `${prefix}_`;
}

/** Reads a text (R3.4, R3.5). An id has exactly one text. */
export function decode(prefix: string, form: string, text: unknown): Body {
  if (typeof text !== "string") throw new InvalidId("expected a text");
  if (form === "uuid" || form === "mapped_uuid") return ofUuid(form, uuidToBigInt(text));
  const begin = start(prefix, form);
  if (!text.startsWith(begin)) throw new InvalidId(`expected a text that starts with \`${begin}\``);
  const body = text.slice(begin.length);
  const lengths = LENGTHS[form]!;
  if (!lengths.includes(body.length)) {
    throw new InvalidId(`expected ${lengths.join(" or ")} characters after \`${begin}\`, found ${body.length}`);
  }
  if (!isDigits(body)) throw new InvalidId("expected lower-case letters without i, l, o and u, and digits");
  const number = ofDigits(body);
  const bits = BITS[body.length]!;
  const keyId = Number(number >> BigInt(bits));
  // R10.1, R12.5
  if (keyId > (form === "mapped" ? 0 : 3)) throw new InvalidId("its first character is too large");
  return { keyId, value: low(number, bits), bits };
}

export function encode(prefix: string, form: string, body: Body): string {
  if (form === "uuid" || form === "mapped_uuid") return bigIntToUuid(toUuid(form, body));
  return start(prefix, form) + digits(BigInt(body.keyId) << BigInt(body.bits) | body.value, CHARS[body.bits]!);
}

export function uuidToBigInt(text: unknown): bigint {
  if (typeof text !== "string" || text.length !== 36 || !UUID.test(text)) throw new InvalidId("expected a UUID in lower case with hyphens");
  return BigInt(`0x${text.replaceAll("-", "")}`);
}

/** Reads the text of a ULID, in either case, or returns undefined. */
export function ulidToBigInt(text: string): bigint | undefined {
  return /^[0-7][0-9a-hjkmnp-tv-z]{25}$/i.test(text) ? ofDigits(text.toLowerCase()) : undefined;
}

/** Returns the text of a ULID. `Keyring.open` returns its key as a UUID. */
export function toUlid(uuid: string): string {
  return digits(uuidToBigInt(uuid), 26).toUpperCase();
}

export function bigIntToUuid(value: bigint): string {
  const hex = value.toString(16).padStart(32, "0");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Returns the 122 bits of a UUID outside of its version and variant. */
export function gather(uuid: bigint): bigint {
  return uuid >> 80n << 74n | low(uuid >> 64n, 12) << 62n | low(uuid, 62);
}

export function spread(bits: bigint, version: bigint): bigint {
  return bits >> 74n << 80n | low(bits >> 62n, 12) << 64n | low(bits, 62) | version;
}

function ofUuid(form: string, uuid: bigint): Body {
  if (form === "mapped_uuid") return { keyId: 0, value: uuid, bits: 128 };
  if ((uuid & UUID_VERSION) !== UUID_8) throw new InvalidId("expected a UUID of version 8"); // R5.5
  const bits = gather(uuid);
  return { keyId: Number(bits >> 120n), value: low(bits, 120), bits: 120 };
}

function toUuid(form: string, body: Body): bigint {
  return form === "mapped_uuid" ? body.value : spread(BigInt(body.keyId) << 120n | body.value, UUID_8);
}

export function bytesOf(value: bigint, size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  for (let i = size - 1; i >= 0; i--, value >>= 8n) bytes[i] = Number(value & 255n);
  return bytes;
}

export function bigIntOf(bytes: Uint8Array): bigint {
  return bytes.reduce((value, byte) => value << 8n | BigInt(byte), 0n);
}

/** The binary form (R6.1). */
export function toBytes(form: string, body: Body): Uint8Array {
  if (form === "uuid" || form === "mapped_uuid") return bytesOf(toUuid(form, body), 16);
  if (form === "mapped") return bytesOf(body.value, 16);
  return bytesOf(BigInt(body.keyId) << BigInt(8 * Math.ceil(body.bits / 8)) | body.value, 1 + Math.ceil(body.bits / 8));
}

export function fromBytes(form: string, bytes: unknown): Body {
  if (!(bytes instanceof Uint8Array)) throw new InvalidId("expected bytes");
  const isUuid = form === "uuid" || form === "mapped" || form === "mapped_uuid";
  const bits = isUuid ? 128 : LENGTHS[form]!.map((chars) => BITS[chars]!).find((bits) => 1 + Math.ceil(bits / 8) === bytes.length);
  if (bits === undefined || (isUuid && bytes.length !== 16)) throw new InvalidId(`found ${bytes.length} bytes`);
  if (isUuid) return ofUuid(form === "mapped" ? "mapped_uuid" : form, bigIntOf(bytes));
  const body = { keyId: bytes[0]!, value: bigIntOf(bytes.subarray(1)), bits };
  if (body.keyId > 3 || body.value >> BigInt(bits)) throw new InvalidId("its key id is above 3, or its block has more than 62 bits");
  return body;
}

/** Writes eight characters for five bytes, and fewer characters for fewer bytes (R13.4). */
export function encodeToken(prefix: string, kind: string, token: Uint8Array): string {
  let text = `${prefix}_${kind}_`;
  for (let at = 0; at < token.length; at += 5) {
    const bytes = token.subarray(at, at + 5);
    const chars = Math.ceil(8 * bytes.length / 5);
    text += digits(bigIntOf(bytes) << BigInt(5 * chars - 8 * bytes.length), chars);
  }
  return text;
}

export function decodeToken(prefix: string, kind: string, text: unknown): Uint8Array {
  if (typeof text !== "string" || text.length > MAX_TOKEN) throw new InvalidId(`expected a text of at most ${MAX_TOKEN} characters`);
  const begin = `${prefix}_${kind}_`;
  const body = text.slice(begin.length);
  if (!text.startsWith(begin) || !isDigits(body)) {
    throw new InvalidId(`expected a text that starts with \`${begin}\`, and lower-case letters and digits`);
  }
  if (kind === "grant" && body.length !== GRANT) {
    throw new InvalidId(`expected ${GRANT} characters after \`${begin}\`, found ${body.length}`);
  }
  const token = new Uint8Array(Math.floor(5 * body.length / 8));
  for (let i = 0; i < body.length; i += 8) {
    const chars = body.slice(i, i + 8);
    const size = Math.floor(5 * chars.length / 8);
    token.set(bytesOf(ofDigits(chars) >> BigInt(5 * chars.length - 8 * size), size), 5 * i / 8);
  }
  // The key id, the nonce, and the cipher's tag. Bits after the last byte are zero (R13.5).
  if (token.length < 29 || token[0]! > 3 || encodeToken(prefix, kind, token) !== text) {
    throw new InvalidId("it is cut off, or has more characters than its bytes need, or its key id is above 3");
  }
  return token;
}

/**
 * The subkeys of a domain seal and open. The comments name requirements of docs/FORMAT.md.
 *
 * @module
 */

import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { bigIntOf, type Body, bytesOf, gather, isInteger, type Kind, low, spread } from "./text.ts";

const UUID_VERSION = 0xfn << 76n | 3n << 62n;
const UUID_7 = 7n << 76n | 2n << 62n;
const ROUNDS: Record<Kind, number> = { uuid7: 4, structured: 2, ulid: 0, uuid: 0, i64: 6, i32: 6, u32: 6 };
const RANGES: Partial<Record<Kind, [bigint, bigint]>> = {
  i64: [-(1n << 63n), (1n << 63n) - 1n],
  i32: [-(1n << 31n), (1n << 31n) - 1n],
  u32: [0n, (1n << 32n) - 1n],
};

/** The value is no key of its kind, or it does not fit into the form. */
export class InvalidKey extends Error {
  override name = "InvalidKey";
}

/** Whether a value is a key that fits into the form (section 2, R5.2). */
function has(kind: Kind, form: string, key: bigint): boolean {
  const [least, greatest] = RANGES[kind] ?? [0n, (1n << 128n) - 1n];
  if (key < least || key > greatest) return false;
  if (kind === "uuid7" && (key & UUID_VERSION) !== UUID_7) return false;
  if (kind === "structured" && (key >> 124n || low(key, 64) >> 60n)) return false;
  return form !== "uuid" || key >> (isInteger(kind) ? 60n : 126n) === 0n;
}

export function checkKey(kind: Kind, form: string, key: bigint): void {
  if (!has(kind, form, key)) throw new InvalidKey(`expected a key of the kind ${kind} that the form ${form} has room for`);
}

/** Names that differ only by lone surrogates would have the same bytes. */
export function utf8(text: string): Uint8Array {
  if (typeof text !== "string" || !text.isWellFormed()) {
    throw new TypeError("expected a text in Unicode, found another value or a lone surrogate");
  }
  return Buffer.from(text);
}

/** HKDF-SHA-256 (R1.5). Node's own refuses an info of more than 1,024 bytes. */
export function subkey(master: Uint8Array, label: string, domain: string, length: number): Uint8Array {
  const hmac = (key: Uint8Array | string, ...parts: (Uint8Array | string)[]) =>
    parts.reduce((hmac, part) => hmac.update(part), createHmac("sha256", key)).digest();
  const prk = hmac("opaque-id.v1", master);
  let block: Uint8Array = new Uint8Array();
  let output = block;
  for (let counter = 1; output.length < length; counter++) {
    block = hmac(prk, block, utf8(`${label}\0${domain}`), Uint8Array.of(counter));
    output = Buffer.concat([output, block]);
  }
  return output.subarray(0, length);
}

function isSame(a: bigint, b: bigint, size: number): boolean {
  return timingSafeEqual(bytesOf(a, size), bytesOf(b, size));
}

/** Encrypts one block after another by AES. */
function aes(key: Uint8Array, decrypts = false): (block: bigint) => bigint {
  const create = decrypts ? createDecipheriv : createCipheriv;
  const cipher = create(`aes-${8 * key.length}-ecb`, key, null).setAutoPadding(false);
  const [block, view] = [new Uint8Array(16), new DataView(new ArrayBuffer(16))];
  return (value) => {
    view.setBigUint64(0, value >> 64n);
    view.setBigUint64(8, low(value, 64));
    block.set(new Uint8Array(view.buffer));
    const output = cipher.update(block);
    return output.readBigUInt64BE(0) << 64n | output.readBigUInt64BE(8);
  };
}

/** R3.1, R11.1 */
function toPlaintext(kind: Kind, key: bigint, tail: bigint): bigint {
  return isInteger(kind) ? low(key, 64) << 64n | tail : key;
}

function ofPlaintext(kind: Kind, plaintext: bigint, tail: bigint): bigint | undefined {
  if (!isInteger(kind)) return plaintext;
  return isSame(low(plaintext, 64), tail, 8) ? BigInt.asIntN(64, plaintext >> 64n) : undefined;
}

/** The subkeys of a domain under a secret. */
export class Subkeys {
  readonly #keyId: number;
  readonly #tag: bigint;
  readonly #encrypt: (block: bigint) => bigint;
  readonly #decrypt: (block: bigint) => bigint;
  readonly #mac: (block: bigint) => bigint;
  readonly #rounds: ((block: bigint) => bigint)[];
  readonly #cursor: { encrypt: (block: bigint) => bigint; decrypt: (block: bigint) => bigint; mac: (block: bigint) => bigint };
  readonly #ff1: (block: bigint) => bigint;
  readonly #ff1Start: bigint;
  readonly #token: Uint8Array;

  constructor(master: Uint8Array, keyId: number, domain: string) {
    const derive = (label: string, length: number) => subkey(master, label, domain, length);
    const [block, feistel, cursor] = [derive("block", 16), derive("feistel", 96), derive("cursor", 32)];
    this.#keyId = keyId;
    this.#tag = bigIntOf(derive("tag", 8));
    this.#encrypt = aes(block);
    this.#decrypt = aes(block, true);
    this.#mac = aes(derive("mac", 16));
    this.#rounds = [0, 1, 2, 3, 4, 5].map((i) => aes(feistel.subarray(16 * i, 16 * i + 16)));
    const half = cursor.subarray(0, 16);
    this.#cursor = { encrypt: aes(half), decrypt: aes(half, true), mac: aes(cursor.subarray(16)) };
    this.#ff1 = aes(derive("short", 16));
    this.#ff1Start = this.#ff1(0x0102010000020a1f0000003e00000000n);
    this.#token = derive("token", 32);
  }

  seal(kind: Kind, form: string, key: bigint): Body {
    checkKey(kind, form, key);
    const keyId = this.#keyId;
    if (form === "uuid") return { keyId, value: this.#feistel(this.#halves(kind, key), [...Array(ROUNDS[kind]).keys()]), bits: 120 };
    if (form === "short" && key >= 0n && key < 1n << 36n) return { keyId, value: this.#ff1Encrypt(key << 26n), bits: 62 };
    const block = this.#encrypt(toPlaintext(kind, key, this.#tag)); // R3.2
    if (form === "tagged") return { keyId, value: block << 40n | this.#mac(block) >> 88n, bits: 168 };
    return { keyId, value: block, bits: 128 };
  }

  /** Returns undefined for an id that is not genuine. */
  open(kind: Kind, form: string, body: Body): bigint | undefined {
    const key = this.#open(kind, form, body);
    return key !== undefined && has(kind, form, key) ? key : undefined;
  }

  #open(kind: Kind, form: string, { value, bits }: Body): bigint | undefined {
    if (form === "uuid") return this.#ofHalves(kind, this.#feistel(value, [...Array(ROUNDS[kind]).keys()].reverse()));
    if (bits === 62) {
      const plaintext = this.#ff1Decrypt(value);
      return isSame(low(plaintext, 26), 0n, 4) ? plaintext >> 26n : undefined; // R12.7
    }
    if (form === "tagged") {
      const block = value >> 40n;
      return isSame(this.#mac(block) >> 88n, low(value, 40), 5) ? this.#decrypt(block) : undefined; // R4.2
    }
    const key = ofPlaintext(kind, this.#decrypt(value), this.#tag);
    const isShort = form === "short" && key !== undefined && key >= 0n && key < 1n << 36n;
    return isShort ? undefined : key; // R12.8
  }

  /** R5.1 */
  #halves(kind: Kind, key: bigint): bigint {
    if (isInteger(kind)) return key << 60n | low(this.#tag, 60);
    return kind === "structured" ? key >> 64n << 60n | low(key, 64) : gather(key);
  }

  #ofHalves(kind: Kind, value: bigint): bigint | undefined {
    if (isInteger(kind)) return isSame(low(value, 60), low(this.#tag, 60), 8) ? value >> 60n : undefined; // R5.6
    return kind === "structured" ? value >> 60n << 64n | low(value, 60) : spread(value, UUID_7);
  }

  /** R5.3 */
  #feistel(value: bigint, rounds: number[]): bigint {
    let [hi, lo] = [value >> 60n, low(value, 60)];
    for (const i of rounds) {
      if (i % 2 === 0) hi ^= low(this.#rounds[i]!(lo), 60);
      else lo ^= low(this.#rounds[i]!(hi), 60);
    }
    return hi << 60n | lo;
  }

  #ff1Round(number: number, half: bigint): bigint {
    return this.#ff1(this.#ff1Start ^ BigInt(number) << 32n ^ half) >> 64n;
  }

  /** R12.2 */
  #ff1Encrypt(value: bigint): bigint {
    let [a, b] = [value >> 31n, low(value, 31)];
    for (let i = 0; i < 10; i++) [a, b] = [b, low(a + this.#ff1Round(i, b), 31)];
    return a << 31n | b;
  }

  #ff1Decrypt(value: bigint): bigint {
    let [a, b] = [value >> 31n, low(value, 31)];
    for (let i = 9; i >= 0; i--) [a, b] = [low(b - this.#ff1Round(i, a), 31), a];
    return a << 31n | b;
  }

  sealCursor(kind: Kind, form: string, key: bigint): Body {
    checkKey(kind, form, key);
    const block = this.#cursor.encrypt(toPlaintext(kind, key, 0n));
    return { keyId: this.#keyId, value: block << 40n | this.#cursor.mac(block) >> 88n, bits: 168 };
  }

  openCursor(kind: Kind, form: string, { value }: Body): bigint | undefined {
    const block = value >> 40n;
    if (!isSame(this.#cursor.mac(block) >> 88n, low(value, 40), 5)) return undefined; // R11.7
    const key = ofPlaintext(kind, this.#cursor.decrypt(block), 0n);
    return key !== undefined && has(kind, form, key) ? key : undefined;
  }

  sealToken(kind: Kind, form: string, key: bigint, associated: Uint8Array, payload: Uint8Array): Uint8Array {
    checkKey(kind, form, key);
    const nonce = randomBytes(12); // R13.3
    const plaintext = Buffer.concat([bytesOf(toPlaintext(kind, key, 0n), 16), payload]);
    return Buffer.concat([Uint8Array.of(this.#keyId), nonce, sivSeal(this.#token, nonce, plaintext, associated)]);
  }

  openToken(kind: Kind, form: string, token: Uint8Array, associated: Uint8Array): { key: bigint; payload: Uint8Array } | undefined {
    const plaintext = sivOpen(this.#token, token.subarray(1, 13), token.subarray(13), associated);
    if (plaintext === undefined || plaintext.length < 16) return undefined;
    const key = ofPlaintext(kind, bigIntOf(plaintext.subarray(0, 16)), 0n);
    return key !== undefined && has(kind, form, key) ? { key, payload: plaintext.subarray(16) } : undefined;
  }
}

// AES-256-GCM-SIV (RFC 8452), because `node:crypto` does not have it.

function ecb(key: Uint8Array, blocks: Uint8Array): Uint8Array {
  return createCipheriv("aes-256-ecb", key, null).setAutoPadding(false).update(blocks);
}

function sivKeys(key: Uint8Array, nonce: Uint8Array): { auth: Uint8Array; enc: Uint8Array } {
  const blocks = [0, 1, 2, 3, 4, 5].map((i) => Buffer.concat([Uint8Array.of(i, 0, 0, 0), nonce]));
  const parts = ecb(key, Buffer.concat(blocks));
  const halves = [0, 1, 2, 3, 4, 5].map((i) => parts.subarray(16 * i, 16 * i + 8));
  return { auth: Buffer.concat(halves.slice(0, 2)), enc: Buffer.concat(halves.slice(2)) };
}

/** POLYVAL, without a branch or a look-up that depends on the data. */
function polyval(auth: Uint8Array, data: Uint8Array): Uint8Array {
  const words = (bytes: Uint8Array, at: number) => {
    const view = new DataView(bytes.buffer, bytes.byteOffset + at, 16);
    return [0, 4, 8, 12].map((i) => view.getUint32(i, true));
  };
  const h = words(auth, 0);
  let sum = [0, 0, 0, 0];
  for (let at = 0; at < data.length; at += 16) {
    const x = words(data, at).map((word, i) => word ^ sum[i]!);
    let [a, b, c, d] = [0, 0, 0, 0];
    for (let bit = 0; bit < 128; bit++) {
      const added = -(x[bit >> 5]! >>> (bit & 31) & 1);
      a ^= h[0]! & added;
      b ^= h[1]! & added;
      c ^= h[2]! & added;
      d ^= h[3]! & added;
      // Times x^-1, modulo x^128 + x^127 + x^126 + x^121 + 1.
      const carried = -(a & 1);
      a = a >>> 1 | b << 31;
      b = b >>> 1 | c << 31;
      c = c >>> 1 | d << 31;
      d = d >>> 1 ^ 0xe1000000 & carried;
    }
    sum = [a, b, c, d];
  }
  const output = new DataView(new ArrayBuffer(16));
  sum.forEach((word, i) => output.setInt32(4 * i, word, true));
  return new Uint8Array(output.buffer);
}

function padded(bytes: Uint8Array): Uint8Array {
  return Buffer.concat([bytes, new Uint8Array(-bytes.length & 15)]);
}

function sivTag(keys: { auth: Uint8Array; enc: Uint8Array }, nonce: Uint8Array, plaintext: Uint8Array, associated: Uint8Array): Uint8Array {
  const lengths = Buffer.alloc(16);
  lengths.writeBigUInt64LE(8n * BigInt(associated.length), 0);
  lengths.writeBigUInt64LE(8n * BigInt(plaintext.length), 8);
  const sum = polyval(keys.auth, Buffer.concat([padded(associated), padded(plaintext), lengths]));
  nonce.forEach((byte, i) => sum[i]! ^= byte);
  sum[15]! &= 0x7f;
  return ecb(keys.enc, sum);
}

function sivStream(enc: Uint8Array, tag: Uint8Array, bytes: Uint8Array): Uint8Array {
  const blocks = Math.ceil(bytes.length / 16);
  const counters = Buffer.alloc(16 * blocks);
  const first = new DataView(tag.buffer, tag.byteOffset).getUint32(0, true);
  for (let i = 0; i < blocks; i++) {
    counters.set(tag, 16 * i);
    counters.writeUInt32LE(first + i >>> 0, 16 * i);
    counters[16 * i + 15]! |= 0x80;
  }
  const stream = ecb(enc, counters);
  return bytes.map((byte, i) => byte ^ stream[i]!);
}

function sivSeal(key: Uint8Array, nonce: Uint8Array, plaintext: Uint8Array, associated: Uint8Array): Uint8Array {
  const keys = sivKeys(key, nonce);
  const tag = sivTag(keys, nonce, plaintext, associated);
  return Buffer.concat([sivStream(keys.enc, tag, plaintext), tag]);
}

function sivOpen(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array, associated: Uint8Array): Uint8Array | undefined {
  const keys = sivKeys(key, nonce);
  const tag = sealed.subarray(-16);
  const plaintext = sivStream(keys.enc, tag, sealed.subarray(0, -16));
  return timingSafeEqual(tag, sivTag(keys, nonce, plaintext, associated)) ? plaintext : undefined;
}

/**
 * Opaque ids: small, ordered keys in the database, and sealed ids outside. README.md has the guide.
 *
 * @module
 */

export * from "./client.ts";
export { Expired, InvalidKey, Keyring, KeyringError, Listing, NotGenuine } from "./keyring.ts";

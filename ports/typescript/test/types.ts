// What the compiler accepts and refuses: `deno check`. Nothing runs it.

import { type CursorOf, type IdOf, Keyring, resource } from "opaque-id";

const User = resource("user", { key: "i64", form: "short" });
const Team = resource("team", { key: "i64" });
const Order = resource("order", { form: "uuid" });
const Row = resource("row", { key: "u32" });
type UserId = IdOf<typeof User>;
type TeamId = IdOf<typeof Team>;

const keyring = Keyring.generate();
declare function show(id: UserId): void;
declare const team: TeamId;
declare const text: string;

show(User.parse(text));
show(keyring.seal(User, 42n));
const start: `user_${string}` = User.parse(text);
const generated: string & { readonly opaqueId: "user" } = User.parse(text);
if (User.is(text)) show(text);
const parsed = User.safeParse(text);
if (parsed.success) show(parsed.data);
const validated = User["~standard"].validate(text);
if ("value" in validated) show(validated.value);
const big: bigint = keyring.open(User, User.parse(text));
const narrow: number = keyring.open(Row, Row.parse(text));
const uuid: string = keyring.open(Order, Order.parse(text));
const cursor: CursorOf<typeof User> = keyring.sealCursor(User, 42n);

// @ts-expect-error: a team's id does not fit a user's
show(team);
// @ts-expect-error: a text was not parsed
show(text);
// @ts-expect-error: nor was one that looks like an id
show("user_0wtve4rj8czh0");
// @ts-expect-error: a cursor is no id
show(cursor);
// @ts-expect-error: an id is no cursor
keyring.openCursor(User, User.parse(text));
// @ts-expect-error: it is opened as a user
keyring.open(User, team);
// @ts-expect-error: an integer of 64 bits is a bigint
keyring.seal(User, 42);
// @ts-expect-error: nor is an external id a key
keyring.seal(Order, 42n);
// @ts-expect-error: there is no such form
resource("user", { form: "base64" });

export { big, generated, narrow, start, uuid };

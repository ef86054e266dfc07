// A front end in Node: it talks to the service, and makes the links that the job opens.

import { Keyring, resource } from "opaque-id";

const User = resource("user", { key: "i64" });
const service = process.env.SERVICE ?? "http://localhost:3000";
const [command, argument] = process.argv.slice(2);

if (command === "add") {
  const body = JSON.stringify({ name: argument });
  const answer = await fetch(`${service}/users`, { method: "POST", headers: { "content-type": "application/json" }, body });
  const { id, name } = await answer.json();
  console.log(`${name} is ${User.parse(id)}`);
}

if (command === "link") {
  const keyring = Keyring.fromEnv();
  const key = keyring.open(User, User.parse(argument));
  const tomorrow = new Date(Date.now() + 86_400_000);
  console.log(keyring.grant(User, key, "leave", tomorrow));
}

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { noMetrics } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { readTokenKeys, type TokenKeyOptions } from "../tokens/keys.ts";
import { mintToken } from "../tokens/mint.ts";
import { TokenVerifier } from "../tokens/verifier.ts";
import { createGate, type GateOptions } from "./gate.ts";

const KEY: TokenKeyOptions = { kid: undefined, algorithm: "HS256", material: "k".repeat(16) + "e".repeat(16) };
const PROXY = "10.0.0.1";

async function openGate(over: Partial<GateOptions> = {}) {
  const clock = virtualClock();
  const verifier = new TokenVerifier(
    { keys: await readTokenKeys([KEY]), audience: "postgrest", maxLifetimeSeconds: 86_400 },
    { clock, isRevoked: async () => false },
  );
  const opts = { perTokenPerSecond: 5, refusedPerAddressPerSecond: 2, ...over };
  const gate = createGate(opts, { clock, metrics: noMetrics, verifier });
  const mint = async (lifetimeSeconds: number): Promise<string> => {
    const options = { role: "reader", accountId: undefined, lifetimeSeconds, audience: "postgrest", key: KEY } as const;
    return (await mintToken(options, { clock })).token;
  };
  /** `in`, or the status of the refusal. */
  const ask = async (token: string, address: string): Promise<string> => {
    const result = await gate(`Bearer ${token}`, address);
    return result.ok ? "in" : String(result.error.status);
  };
  return { ask, mint };
}

suite("who is let in to the management data", () => {
  test("attack: guesses from a proxy's address, or an office's, lock out no new token there", async () => {
    const { ask, mint } = await openGate();
    const guesses: string[] = [];
    for (let i = 0; i < 20; i++) guesses.push(await ask(`a.b.c${i}`, PROXY));
    assert.deepEqual([guesses[0], guesses.at(-1)], ["401", "429"]);
    for (let i = 0; i < 10; i++) assert.equal(await ask(await mint(600 + i), PROXY), "in");
  });

  test("attack: the addresses of one IPv6 subscriber are one client, and so are both forms of an IPv4 address", async () => {
    const { ask } = await openGate();
    for (let i = 0; i < 20; i++) await ask("a.b.c", `2001:db8:0:1::${i.toString(16)}`);
    assert.equal(await ask("a.b.c", "2001:db8:0:1:ffff::1"), "429");
    assert.equal(await ask("a.b.c", "2001:db8:0:2::1"), "401");
    for (let i = 0; i < 20; i++) await ask("a.b.c", "::ffff:192.0.2.1");
    assert.equal(await ask("a.b.c", "192.0.2.1"), "429");
  });

  test("attack: other spellings of a token's signature have no rate of their own", async () => {
    const { ask, mint } = await openGate();
    const token = await mint(600);
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 32 bytes leave two bits of the last letter unused.
    const last = letters.indexOf(token.at(-1) ?? "");
    const spellings = [0, 1, 2, 3].map((bits) => token.slice(0, -1) + letters[(last & ~3) | bits]);
    const answers: string[] = [];
    for (let i = 0; i < 5; i++) for (const one of spellings) answers.push(await ask(one, PROXY));
    assert.equal(answers.filter((answer) => answer === "in").length, 10);
    assert.ok(
      answers.every((answer) => answer === "in" || answer === "429"),
      answers.join(),
    );
  });
});

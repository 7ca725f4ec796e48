import assert from "node:assert/strict";
import { isIP } from "node:net";
import { suite, test } from "node:test";
import { promisify } from "node:util";
import { checkedLookup, isPrivateHost, type ResolveHost } from "./checked-lookup.ts";
import { AppError } from "./errors.ts";

const to =
  (...addresses: readonly string[]): ResolveHost =>
  async () =>
    addresses.map((address) => ({ address, family: isIP(address) }));

/** What a connection would be made to, or why none is. */
async function found(resolve: ResolveHost, mayBePrivate = false): Promise<unknown> {
  const refuse = (reason: string, hostname: string, cause?: unknown): Error =>
    new AppError("INTERNAL", { message: `${reason} ${hostname}${cause === undefined ? "" : " by a fault"}` });
  const lookup = checkedLookup({ resolve, mayBePrivate, refuse });
  const ask = promisify<string, { all: true }, unknown>((hostname, options, answer) =>
    lookup(hostname, options, answer),
  );
  return ask("a.example", { all: true }).catch((error: AppError) => error.message);
}

suite("a lookup that is checked", () => {
  test("hands out public addresses as they were found, and all where private ones may be", async () => {
    const both = [
      { address: "93.184.215.14", family: 4 },
      { address: "2606:2800:21f::1", family: 6 },
    ];
    assert.deepEqual(await found(to("93.184.215.14", "2606:2800:21f::1")), both);
    assert.deepEqual(await found(to("10.0.0.1"), true), [{ address: "10.0.0.1", family: 4 }]);
  });

  test("attack: one private address among public ones refuses the name, and so does none", async () => {
    for (const address of ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fe80::1"]) {
      assert.equal(await found(to("93.184.215.14", address)), "private a.example", address);
    }
    assert.equal(await found(to()), "unresolved a.example");
    assert.equal(await found(() => Promise.reject(new TypeError("gone"))), "unresolved a.example by a fault");
  });

  test("attack: of a name with thousands of addresses a few are looked at, and no other is handed out", async () => {
    const many = Array.from({ length: 5_000 }, (_, at) => (at < 64 ? "93.184.215.14" : "127.0.0.1"));
    const addresses = await found(to(...many));
    assert.ok(Array.isArray(addresses) && addresses.length === 64);
  });

  test("what is an address already is seen by its text", () => {
    const cases: readonly (readonly [string, boolean])[] = [
      ["127.0.0.1", true],
      ["[::1]", true],
      ["[::ffff:10.0.0.1]", true],
      ["93.184.215.14", false],
      ["[2606:2800:21f::1]", false],
      ["localhost", false],
    ];
    for (const [host, isPrivate] of cases) assert.equal(isPrivateHost(host), isPrivate, host);
  });
});

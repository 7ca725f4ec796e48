import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import { suite, test } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { createClientIp, parseIp } from "./client-ip.ts";
import { isAppError } from "./errors.ts";

type Request = Pick<IncomingMessage, "headers" | "socket">;

const from = (remoteAddress: string | undefined, forwarded?: string): Request =>
  ({ socket: { remoteAddress }, headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded } }) as Request;

const trusting = (...blocks: string[]) => createClientIp(blocks);

suite("client address", () => {
  test("is the connection's own when nobody is trusted, whatever the header says", () => {
    assert.equal(trusting()(from("198.51.100.7", "1.2.3.4")), "198.51.100.7");
    assert.equal(trusting()(from(undefined, "1.2.3.4")), "");
  });

  test("a header from an untrusted peer is ignored", () => {
    assert.equal(trusting("10.0.0.0/8")(from("198.51.100.7", "1.2.3.4")), "198.51.100.7");
    assert.equal(trusting("10.0.0.0/8")(from("11.0.0.1", "10.0.0.1")), "11.0.0.1");
  });

  test("walks from the right past trusted proxies, and never further", () => {
    const of = trusting("10.0.0.0/8", "2001:db8:1::/48", "192.0.2.1");
    const cases: [string, string | undefined, string][] = [
      ["10.1.1.1", undefined, "10.1.1.1"],
      ["10.1.1.1", "198.51.100.7", "198.51.100.7"],
      ["10.1.1.1", "1.2.3.4, 198.51.100.7", "198.51.100.7"],
      ["10.1.1.1", "1.2.3.4, 10.9.9.9, 198.51.100.7, 10.2.2.2,192.0.2.1", "198.51.100.7"],
      ["::ffff:10.1.1.1", "198.51.100.7", "198.51.100.7"],
      ["2001:db8:1:ff::2", "2001:db8:2::9", "2001:db8:2::9"],
      ["10.1.1.1", "198.51.100.7:4711", "198.51.100.7"],
      ["10.1.1.1", "[2001:db8:2::9]:4711", "2001:db8:2::9"],
      ["10.1.1.1", "[2001:db8:2::9]", "2001:db8:2::9"],
      // All trusted: the client is the proxy that is furthest away.
      ["10.1.1.1", "10.3.3.3, 10.2.2.2", "10.3.3.3"],
      // Text that is no address ends the walk: its sender counts.
      ["10.1.1.1", "1.2.3.4, unknown", "10.1.1.1"],
      ["10.1.1.1", "1.2.3.4, _hidden, 10.2.2.2", "10.2.2.2"],
      ["10.1.1.1", "", "10.1.1.1"],
      ["10.1.1.1", ",", "10.1.1.1"],
    ];
    for (const [peer, header, client] of cases) assert.equal(of(from(peer, header)), client, `${peer} ${header}`);
  });

  test("property: nothing that a client writes changes what the proxy saw", () => {
    const of = trusting("10.0.0.0/8");
    fc.assert(
      fc.property(
        fc.string(),
        fc.ipV4().filter((ip) => !ip.startsWith("10.")),
        (spoofed, client) => {
          assert.equal(of(from("10.0.0.1", `${spoofed}, ${client}`)), client);
        },
      ),
    );
  });

  test("property: reads what Node takes for an address, and nothing else", () => {
    const near = fc.array(fc.constantFrom("0", "1", "f", "ab", "12345", "256", ":", "::", ".", "%e", "g"), {
      maxLength: 12,
    });
    const texts = fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      near.map((parts) => parts.join("")),
      fc.string(),
    );
    fc.assert(
      fc.property(texts, (text) => {
        // Node wants to know zones.
        if (text.includes("%")) return;
        assert.equal(parseIp(text) !== undefined, isIP(text) !== 0, text);
        if (isIP(text) === 6) assert.equal(parseIp(text)?.words.length, 8);
      }),
      { numRuns: 3_000 },
    );
  });

  test("property: blocks hold what Node's own hold", () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV4(), fc.integer({ min: 0, max: 32 }), (base, ip, bits) => {
        const list = new BlockList();
        list.addSubnet(base, bits, "ipv4");
        const passes = trusting(`${base}/${bits}`)(from(ip, "203.0.113.9")) === "203.0.113.9";
        assert.equal(passes, list.check(ip, "ipv4"));
      }),
    );
    const v6 = fc.ipV6().filter((ip) => !ip.includes("."));
    fc.assert(
      fc.property(v6, fc.integer({ min: 0, max: 128 }), fc.integer({ min: 0, max: 127 }), (base, bits, flip) => {
        const words = [...(parseIp(base)?.words ?? [])];
        words[flip >> 4] = (words[flip >> 4] ?? 0) ^ (0x8000 >> (flip & 15));
        const ip = words.map((word) => word.toString(16)).join(":");
        if (parseIp(ip)?.isV4 === true || parseIp(base)?.isV4 === true) return;
        const passes = trusting(`${base}/${bits}`)(from(ip, "203.0.113.9")) === "203.0.113.9";
        assert.equal(passes, flip >= bits, `${base}/${bits} ${ip}`);
      }),
    );
  });

  test("a block of IPv6 holds no IPv4 client", () => {
    assert.equal(trusting("::/0")(from("10.0.0.1", "1.2.3.4")), "10.0.0.1");
    assert.equal(trusting("0.0.0.0/0")(from("::1", "1.2.3.4")), "::1");
    assert.equal(trusting("::ffff:10.0.0.0/104")(from("10.0.0.1", "1.2.3.4")), "1.2.3.4");
  });

  test("refuses what is no block", () => {
    for (const text of ["", "proxy", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0/8", "10.0.0.0/8/8", "10.0.0.0/-1"]) {
      assert.throws(
        () => trusting(text),
        (error) => isAppError(error, "CONFIG_INVALID"),
        text,
      );
    }
  });
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isPublicAddress } from "@turnpike/base";
import { fc } from "@turnpike/testkit/property";
import { checkTarget } from "./targets.ts";

const PRIVATE = [
  "0.0.0.0",
  "10.0.0.1",
  "100.64.0.1",
  "127.0.0.1",
  "127.255.255.254",
  "169.254.169.254",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.8",
  "192.0.2.1",
  "192.168.1.1",
  "198.18.0.1",
  "198.51.100.7",
  "203.0.113.9",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
];
const PUBLIC = ["1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "172.32.0.0", "192.167.255.255"];

describe("public addresses", () => {
  it("refuses special IPv4 networks, also inside IPv6", () => {
    for (const address of PRIVATE) {
      assert.equal(isPublicAddress(address), false, address);
      for (const prefix of ["::ffff:", "64:ff9b::", "::", "64:ff9b:1::", "::ffff:0:"]) {
        assert.equal(isPublicAddress(`${prefix}${address}`), false, `${prefix}${address}`);
      }
      const [a = 0, b = 0, c = 0, d = 0] = address.split(".").map(Number);
      const hex = (high: number, low: number): string => ((high << 8) | low).toString(16);
      for (const form of [`2002:${hex(a, b)}:${hex(c, d)}::1`, `::ffff:${hex(a, b)}:${hex(c, d)}`]) {
        assert.equal(isPublicAddress(form), false, form);
      }
    }
  });

  it("takes public IPv4, also mapped and by NAT64", () => {
    for (const address of PUBLIC) {
      for (const form of [address, `::ffff:${address}`, `64:ff9b::${address}`]) {
        assert.equal(isPublicAddress(form), true, form);
      }
    }
  });

  it("takes of IPv6 what was given out as global unicast only", () => {
    for (const address of ["2606:4700:4700::1111", "2a00:1450:4001::200e"])
      assert.equal(isPublicAddress(address), true);
    const refused = ["::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001::1"];
    for (const address of [...refused, "2001:db8::1", "2002::1", "3fff::1", "100::1", "4000::1", "2606::1%1"]) {
      assert.equal(isPublicAddress(address), false, address);
    }
  });

  it("takes nothing that is no address", () => {
    for (const text of ["", "localhost", "0x7f.1", "127.1", "[::1]", "1.1.1.1 "])
      assert.equal(isPublicAddress(text), false);
  });

  it("refuses every number of a private network in every spelling of a host", () => {
    const network = fc.constantFrom(0x7f000000, 0x0a000000, 0xa9fe0000, 0xc0a80000);
    fc.assert(
      fc.property(network, fc.nat(0xffff), fc.constantFrom(0, 1, 2, 3, 4, 5), (base, low, form) => {
        const value = (base + low) >>> 0;
        const bytes = [24, 16, 8, 0].map((shift) => (value >>> shift) & 0xff);
        const [a = 0, b = 0, c = 0, d = 0] = bytes;
        const host = [
          String(value),
          `0x${value.toString(16)}`,
          `0${value.toString(8)}`,
          `${a}.${(b << 16) | (c << 8) | d}`,
          `0x${a.toString(16)}.0${b.toString(8)}.${(c << 8) | d}`,
          `${bytes.join("%2e")}.`,
        ][form];
        assert.deepEqual(checkTarget(`http://${host}/`, undefined, false), { ok: false, reason: "private_address" });
      }),
    );
  });
});

describe("targets", () => {
  const reasonOf = (url: string): string => {
    const check = checkTarget(url, undefined, false);
    return check.ok ? check.url.href : check.reason;
  };

  it("refuses odd spellings of private hosts", () => {
    for (const host of [
      "0x7f.1",
      "2130706433",
      "0177.0.0.1",
      "127.1",
      "0",
      "[::1]",
      "[::ffff:10.0.0.1]",
      "[::ffff:a00:1]",
      "１２７.0.0.1",
      "127。0。0。1",
      "[64:ff9b::a9fe:a9fe]",
      "[2002:7f00:1::]",
    ]) {
      assert.equal(reasonOf(`http://${host}/`), "private_address", host);
    }
  });

  it("refuses other schemes, credentials and ports of other protocols", () => {
    for (const url of [
      "file:///etc/passwd",
      "ftp://example.org/",
      "gopher://example.org/",
      "data:text/html,x",
      "javascript:1",
    ]) {
      assert.equal(reasonOf(url), "scheme", url);
    }
    for (const url of ["http://u@example.org/", "http://u:p@example.org/", "http://:p@example.org/"]) {
      assert.equal(reasonOf(url), "credentials", url);
    }
    for (const port of [0, 22, 25, 110, 143, 465, 587, 993, 6379, 5432, 6667]) {
      assert.equal(reasonOf(`http://example.org:${port}/`), "port", String(port));
    }
    for (const url of ["", "/x", "http://", `http://example.org/${"a".repeat(2_100)}`, "http://1.2.3.4.5.6.7:99999/"]) {
      assert.equal(reasonOf(url), "bad_url", url);
    }
    assert.equal(reasonOf("HTTP://Example.ORG:80/a?b#c"), "http://example.org/a?b");
  });
});

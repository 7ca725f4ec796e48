import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { productOf, readRobots } from "./robots.ts";
import { readRobotsTags } from "./robots-tag.ts";

const URL_OF = "https://example.org/robots.txt";
const allows = (text: string, path: string, product = "testbot"): boolean =>
  readRobots(URL_OF, text, product).isAllowed(`https://example.org${path}`);

describe("robots.txt", () => {
  it("uses the group of its own name, else that of all", () => {
    const text =
      "User-agent: *\nDisallow: /\n\nUser-agent: TestBot/2.0\nDisallow: /private # not this\nAllow: /private/open";
    assert.equal(allows(text, "/a"), true);
    assert.equal(allows(text, "/private/x"), false);
    assert.equal(allows(text, "/private/open"), true);
    assert.equal(allows(text, "/a", "otherbot"), false);
    assert.equal(productOf("TestBot/1.0 (+https://example.org)"), "testbot");
  });

  it("knows wildcards, line ends of all kinds and a byte order mark", () => {
    const text = "\uFEFFUser-agent: *\r\nDisallow: /*.php$\rDisallow: /a**b\nDisallow:";
    assert.equal(allows(text, "/x.php"), false);
    assert.equal(allows(text, "/x.php5"), true);
    assert.equal(allows(text, "/a/c/b"), false);
    assert.equal(allows(text, "/c"), true);
  });

  it("obeys Crawl-delay up to a minute", () => {
    const delayOf = (delay: string): number =>
      readRobots(URL_OF, `User-agent: *\nCrawl-delay: ${delay}`, "testbot").delayMs;
    assert.deepEqual(
      ["2", "0.5", "-1", "x", "1e300", "Infinity", "86400"].map(delayOf),
      [2_000, 500, 0, 0, 60_000, 60_000, 60_000],
    );
  });

  it("rules that would cost too much refuse the host", () => {
    const rule = `Disallow: /${"*a".repeat(1_000)}`;
    const rules = readRobots(URL_OF, `User-agent: *\n${`${rule}\n`.repeat(100)}`, "testbot");
    assert.equal(rules.refused, "robots_too_costly");
    assert.equal(rules.isAllowed("https://example.org/"), false);
  });

  it("reads anything without a fault", () => {
    const piece = fc.constantFrom(
      "User-agent:",
      "Disallow:",
      "Allow:",
      "*",
      "/",
      "$",
      "\n",
      "\r",
      "#",
      "%",
      "%2",
      "\ud800",
      "a",
      ":",
      "Sitemap:",
      "__proto__",
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        assert.equal(typeof allows(pieces.join(""), "/a%20b?c=%zz"), "boolean");
      }),
    );
  });
});

describe("X-Robots-Tag", () => {
  const read = (...values: string[]): string => {
    const tag = readRobotsTags(values, "testbot", Date.parse("2026-01-01"));
    return `${tag.noIndex ? "noindex" : ""} ${tag.noFollow ? "nofollow" : ""}`.trim();
  };
  it("knows directives for all and for one crawler", () => {
    assert.equal(read("noindex"), "noindex");
    assert.equal(read("NOINDEX , nofollow"), "noindex nofollow");
    assert.equal(read("none"), "noindex nofollow");
    assert.equal(read("otherbot: noindex, nofollow"), "");
    assert.equal(read("otherbot: noindex", "testbot: nofollow"), "nofollow");
    assert.equal(read("max-snippet: 10, noindex"), "noindex");
    assert.equal(read("unavailable_after: 2025-06-01"), "noindex");
    assert.equal(read("unavailable_after: 25 Jun 2027 15:00:00 GMT"), "");
    assert.equal(read("", ":", ",,,", "index, follow"), "");
  });
});

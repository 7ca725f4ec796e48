import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { placeOf, publishedUrl, repositoryPage } from "./repository.ts";

const pageOf = (written: string): string | undefined => {
  const found = repositoryPage(written);
  return found === undefined ? undefined : found.page + (found.directory === "" ? "" : ` in ${found.directory}`);
};

describe("repositories of packages", () => {
  for (const [written, page] of [
    ["git+https://github.com/o/r.git", "https://github.com/o/r"],
    ["https://github.com/o/r.git#main", "https://github.com/o/r"],
    ["http://github.com/o/r/", "https://github.com/o/r"],
    ["git://github.com/o/r.git", "https://github.com/o/r"],
    ["git+ssh://git@github.com/o/r.git", "https://github.com/o/r"],
    ["ssh://git@github.com:o/r.git", "https://github.com/o/r"],
    ["ssh://git@git.example.org:2222/o/r.git", "https://git.example.org/o/r"],
    ["git@github.com:o/r.git", "https://github.com/o/r"],
    ["github:o/r", "https://github.com/o/r"],
    ["gitlab:o/r", "https://gitlab.com/o/r"],
    ["codeberg:o/r", "https://codeberg.org/o/r"],
    ["o/r.js", "https://github.com/o/r.js"],
    ["https://www.github.com/o/r", "https://github.com/o/r"],
    ["https://token:secret@github.com/o/r.git", "https://github.com/o/r"],
    ["https://github.com/o/r/tree/main/packages/p%20q", "https://github.com/o/r in packages/p q"],
    ["https://gitlab.com/g/sub/r/-/tree/main/dir", "https://gitlab.com/g/sub/r in dir"],
    ["https://git.example.org:8443/o/r.git", "https://git.example.org:8443/o/r"],
    ["https://github.com/o", undefined],
    ["javascript:alert(1)", undefined],
    ["file:///etc/passwd", undefined],
    ["", undefined],
    ["x".repeat(5_000), undefined],
  ] as const)
    it(`${written.slice(0, 60) || "nothing"} is ${page}`, () => assert.equal(pageOf(written), page));

  const urls = (manifest: Record<string, unknown>): (string | undefined)[] => {
    const place = placeOf(manifest);
    return [publishedUrl(place, "README.md", true), publishedUrl(place, "docs/a b.md", false)];
  };

  it("lead to the addresses of files", () => {
    assert.deepEqual(urls({ repository: "o/r", homepage: "https://h.example" }), [
      "https://github.com/o/r#readme",
      "https://github.com/o/r/blob/HEAD/docs/a%20b.md",
    ]);
    assert.deepEqual(
      urls({ repository: { type: "git", url: "git+https://github.com/o/r.git", directory: "./packages/p/" } }),
      [
        "https://github.com/o/r/tree/HEAD/packages/p#readme",
        "https://github.com/o/r/blob/HEAD/packages/p/docs/a%20b.md",
      ],
    );
    assert.deepEqual(
      urls({ repository: { url: "o/r", directory: "../../x" } })[1],
      "https://github.com/o/r/blob/HEAD/docs/a%20b.md",
    );
    assert.deepEqual(urls({ homepage: "https://h.example/x#top" }), [
      "https://h.example/x#top",
      "https://h.example/x#docs/a%20b.md",
    ]);
    assert.deepEqual(urls({ repository: "https://git.example/o/r" }), [
      "https://git.example/o/r",
      "https://git.example/o/r#docs/a%20b.md",
    ]);
    assert.deepEqual(urls({ repository: 5, homepage: "javascript:alert(1)" }), [undefined, undefined]);
    assert.deepEqual(urls({ repository: null, homepage: ["x"] }), [undefined, undefined]);
  });

  it("never lead to anything but http and https", () => {
    const field = fc.oneof(
      fc.string(),
      fc.webUrl(),
      fc.record({ url: fc.string(), directory: fc.string() }),
      fc.anything(),
    );
    fc.assert(
      fc.property(field, fc.oneof(fc.string(), fc.webUrl()), (repository, homepage) => {
        for (const url of urls({ repository, homepage }))
          if (url !== undefined) assert.match(new URL(url).protocol, /^https?:$/);
      }),
    );
  });
});

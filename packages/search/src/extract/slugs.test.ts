import assert from "node:assert/strict";
import { test } from "node:test";
import { createSlugs } from "./slugs.ts";
import { cleanTitle } from "./text.ts";

test("anchors are GitHub's", () => {
  const slugOf = createSlugs();
  const cases = [
    ["Set it up", "set-it-up"],
    ["  What’s `new`, in 2.0? ", "whats-new-in-20"],
    ["snake_case & kebab-case", "snake_case--kebab-case"],
    ["Über uns 日本語", "über-uns-日本語"],
    ["Set it up", "set-it-up-1"],
    ["Set it up-1", "set-it-up-1-1"],
    ["Set it up", "set-it-up-2"],
    ["?!", "-"],
    ["…", "--1"],
  ] as const;
  for (const [heading, slug] of cases) assert.equal(slugOf(heading), slug, heading);
});

test("titles have no bullets at their ends and no shortcodes of emoji", () => {
  const cases = [
    ["@x402/core •", "@x402/core"],
    [":rocket: Fast  :+1: things :tada:", "Fast things"],
    ["• a | b –", "a | b"],
    ["std::vec::Vec at 10:30:45", "std::vec::Vec at 10:30:45"],
    ["C++ - and C#", "C++ - and C#"],
    [":fire:", ":fire:"],
    ["•", "•"],
  ] as const;
  for (const [written, title] of cases) assert.equal(cleanTitle(written), title);
});

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "@turnpike/testkit/property";
import { extractMarkdown } from "../extract/markdown.ts";
import { type Section, sectionsOf } from "./sections.ts";

const filler = (chars: number): string => "some words of a text ".repeat(Math.ceil(chars / 21)).slice(0, chars);

function partsOf(markdown: string): { readonly text: string; readonly sections: readonly Section[] } {
  const page = extractMarkdown({ url: "https://d.example/a.md", modified: undefined }, markdown, {
    maxTextChars: 500_000,
    maxLinks: 10,
  });
  assert.ok(page.ok);
  return { text: page.text, sections: sectionsOf(page, page.title) };
}

const slugs = (markdown: string): readonly (string | undefined)[] => partsOf(markdown).sections.map(({ slug }) => slug);

describe("sectionsOf", () => {
  it("leaves short pages whole", () => {
    assert.deepEqual(slugs(`# A\n\n## B\n\n${filler(600)}\n\n## C\n\n${filler(600)}`), [undefined]);
  });

  it("parts long pages at the second level, and long sections at the third", () => {
    const page = `# A\n\n${filler(600)}\n\n## B\n\n${filler(600)}\n\n### C\n\n${filler(600)}\n`;
    assert.deepEqual(slugs(page), [undefined, "b"]);
    assert.deepEqual(slugs(`${page}\n### D\n\n${filler(3_500)}`), [undefined, "b", "c", "d"]);
  });

  it("joins what is very short: an introduction with its first part, the rest with what is before", () => {
    const page = `# A\n\nIntro.\n\n## B\n\n${filler(900)}\n\n## C\n\nTiny.\n\n## D\n\n### E\n\n${filler(5_000)}\n\n### F\n\nTiny.`;
    const { sections } = partsOf(page);
    assert.deepEqual(
      sections.map(({ slug, title }) => [slug, title]),
      [
        [undefined, "A"],
        ["d", "A: D"],
      ],
    );
    assert.match(sections[0]?.text ?? "", /^A\nIntro\.\nB\n[\s\S]*\nC\nTiny\.$/);
  });

  it("numbers headings of one name over the whole page, as GitHub does, and finds none in code", () => {
    const body = filler(600);
    const page = `# A\n\n${body}\n\n## Use\n\n${body}\n\n#### Use\n\n\`\`\`sh\n## Use\n\`\`\`\n\n## \`Use\`!\n\n${body}`;
    assert.deepEqual(slugs(page), [undefined, "use", "use-2"]);
  });

  it("loses nothing, and gives no anchor twice", () => {
    const block = fc.oneof(
      fc.tuple(fc.constantFrom("#", "##", "###", "####"), fc.constantFrom("One", "Two", "", "?!", "one-1", "é")),
      fc.tuple(fc.constant(""), fc.integer({ min: 0, max: 3_000 }).map(filler)),
    );
    fc.assert(
      fc.property(fc.array(block, { maxLength: 25 }), (blocks) => {
        const page = `${blocks.map((parts) => parts.join(" ").trim()).join("\n\n")}\n\nend`;
        const { text, sections } = partsOf(page);
        assert.equal(sections.map((section) => section.text).join("\n"), text);
        assert.equal(new Set(sections.map(({ slug }) => slug)).size, sections.length);
      }),
      { numRuns: 100 },
    );
  });

  it("bounds the sections of a page", () => {
    const { sections, text } = partsOf(
      Array.from({ length: 900 }, (_, i) => `## H${i}\n\n${filler(260)}\n`).join("\n"),
    );
    assert.equal(sections.length, 500);
    assert.equal(sections.map((section) => section.text).join("\n"), text);
  });
});

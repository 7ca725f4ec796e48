import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { loadConfig } from "@turnpike/config";
import { files, ROOT } from "./sources.ts";

const pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", ...files("docs/**/*.md")];
const read = (page: string): string => readFileSync(join(ROOT, page), "utf8");

test("every link between pages leads somewhere", () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)]
      .map(([, target = ""]) => join(dirname(page), target))
      .filter((target) => !existsSync(join(ROOT, target)))
      .map((target) => `${page} → ${target}`),
  );
  assert.deepEqual(broken, []);
});

test("the configurations that the gateway's page shows are valid, with Base and with Base Sepolia", () => {
  const blocks = [...read("docs/operate/gateway.md").matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) =>
    text.replaceAll("0xYourAddress", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"),
  );
  const [sepolia = "", base = "", suppliers = ""] = blocks;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-docs-"));
  try {
    for (const [index, text] of [sepolia + suppliers, sepolia + base + suppliers].entries()) {
      const file = join(folder, "turnpike.yaml");
      writeFileSync(file, text);
      const config = loadConfig({ file, env: {} });
      assert.equal(config.payment.networks.length, index + 1);
      assert.equal(config.suppliers.base?.endpoints.length, 2);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("every key that a page names is in the schema", () => {
  const schema = readFileSync(join(ROOT, "config.schema.json"), "utf8");
  const missing = pages.flatMap((page) =>
    [...read(page).matchAll(/`((?:gateway|ledger|payment|facilitator|catalogue)\.[a-zA-Z.]+)`/g)]
      .map(([, path = ""]) => path)
      .filter((path) => !schema.includes(`"${path.split(".").at(-1)}"`))
      .map((path) => `${page}: ${path}`),
  );
  assert.deepEqual(missing, []);
});

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { readCatalogue, type ServiceDefinition, serviceDefinitionSchema } from "@turnpike/catalogue";
import { loadConfig } from "@turnpike/config";
import { parse } from "yaml";
import { program } from "../apps/turnpike/src/main.ts";
import { checkRun } from "../apps/turnpike/src/wiring/check.ts";
import { files, ROOT, readText } from "./sources.ts";

const pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", ...files("docs/**/*.md")];
/** PostgreSQL schemas that have names like metrics. */
const SCHEMAS = new Set(["turnpike_facilitator"]);
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

test("each promise to a buyer names a test that is there", () => {
  const table = read("docs/buy.md").split("\n## What is promised\n")[1]?.split("\n## ")[0] ?? "";
  const promises = [...table.matchAll(/^\| [A-Z].* \| `(.+)` \|$/gm)].map(([, name = ""]) => name);
  assert.equal(promises.length, 10);
  const tests = files("{packages,apps}/**/*.test.ts").map(read).join("\n");
  assert.deepEqual(
    promises.filter((name) => !tests.includes(`test("${name}"`)),
    [],
  );
});

test("the operators' index names every page of theirs", () => {
  const index = read("docs/operate/README.md");
  const missing = files("docs/operate/*.md").filter(
    (page) => !index.includes(`(${page.replace("docs/operate/", "")})`),
  );
  assert.deepEqual(missing, ["docs/operate/README.md"]);
});

test("every folder that the architecture's page names is there", () => {
  const text = read("docs/ARCHITECTURE.md");
  const section = (title: string): string => text.split(`## Inside ${title}\n`)[1]?.split("\n## ")[0] ?? "";
  const named = (part: string, folder: string): string[] =>
    [...part.matchAll(/`([a-z-]+)\/`/g)].map(([, name = ""]) => `packages/${folder}/src/${name}`);
  const inside = [
    ...named(section("the relay"), "relay"),
    ...named(section("search"), "search"),
    ...named(section("the gateway"), "gateway"),
  ].filter((path) => !path.endsWith("/methods"));
  const whole = [...text.matchAll(/`((?:packages|apps|test|tools|bench|ops)\/[a-zA-Z0-9/._-]*)`/g)].map(
    ([, at = ""]) => at,
  );
  assert.ok(inside.length > 20 && whole.length > 20, `${inside.length} and ${whole.length}`);
  assert.deepEqual(
    [...inside, ...whole].filter((path) => !existsSync(join(ROOT, path))),
    [],
  );
});

test("the configurations that the gateway's page shows are valid, with Base and with Base Sepolia", () => {
  const blocks = [...read("docs/operate/gateway.md").matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) =>
    text.replaceAll("0xYourAddress", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"),
  );
  const [sepolia = "", base = "", suppliers = "", facilitator = ""] = blocks;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-docs-"));
  try {
    for (const [index, text] of [sepolia + suppliers, sepolia + base + suppliers + facilitator].entries()) {
      const file = join(folder, "turnpike.yaml");
      writeFileSync(file, text);
      const config = loadConfig({ file, env: {} });
      assert.equal(config.payment.networks.length, index + 1);
      assert.equal(config.suppliers.base?.endpoints.length, 2);
      assert.equal(config.facilitator.metrics.port, index === 0 ? undefined : 9091);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Variables that the pages' configurations take from the environment. */
const PAGE_ENV = {
  BRAVE_API_KEY: "key of a test",
  TURNPIKE_ADMIN_TOKEN: "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
  ANOTHER_KEY: "k",
  REDIS_PASSWORD: "p",
  PORTAL_GATEWAY_PASSWORD: "p",
};

test("every configuration on the operators' other pages is valid, and can run beside a payment network", () => {
  let seen = 0;
  const folder = mkdtempSync(join(tmpdir(), "turnpike-docs-"));
  const file = join(folder, "turnpike.yaml");
  try {
    for (const page of files("docs/operate/*.md").filter((one) => one !== "docs/operate/gateway.md")) {
      for (const [, text = ""] of read(page).matchAll(/```yaml\n(.*?)```/gs)) {
        writeFileSync(file, text);
        const config = loadConfig({ file, env: PAGE_ENV });
        const { faults } = checkRun(config, PAGE_ENV, "gateway");
        assert.deepEqual(
          faults.filter((fault) => config.payment.mode === "none" || !/^(payment|ledger)\./.test(fault)),
          [],
          page,
        );
        seen++;
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.ok(seen > 8, `${seen} configurations`);
});

test("the page about networks shows a new one that is served on both doors, and every family", () => {
  const blocks = [...read("docs/operate/networks.md").matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) => text);
  const added = parse(blocks[1] ?? "") as { catalogue: { services: Record<string, Omit<ServiceDefinition, "id">> } };
  const services = Object.entries(added.catalogue.services).map(([id, service]) => ({ ...service, id }));
  const { catalogue, faults } = readCatalogue({ added: services });
  assert.deepEqual(faults, []);
  const service = catalogue.get("example-chain");
  assert.ok(service?.free === true && service.paid && service.operations.size > 20);
  const definition = serviceDefinitionSchema as unknown as { properties: { families: { items: { enum: string[] } } } };
  const rows = [...read("docs/operate/networks.md").matchAll(/^\| `([a-z]+)` \| /gm)].map(([, id = ""]) => id);
  assert.deepEqual(rows.sort(), [...definition.properties.families.items.enum].sort());
});

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>;
  readonly items?: SchemaNode;
}

const schema = JSON.parse(readText("config.schema.json")) as SchemaNode;

/** Walks the schema by a path such as `payment.networks[].asset`; a list may be passed through without its brackets. */
function isKey(path: string): boolean {
  let node: SchemaNode | undefined = schema;
  for (const part of path.replaceAll(/\[[^\]]*\]/g, "").split(".")) {
    while (node?.items !== undefined) node = node.items;
    if (node?.properties !== undefined) {
      node = Object.hasOwn(node.properties, part) ? node.properties[part] : undefined;
    } else {
      node = Object.values(node?.patternProperties ?? {})[0];
    }
    if (node === undefined) return false;
  }
  return true;
}

test("every key that a page names is in the schema, at that path", () => {
  assert.ok(isKey("gateway.metrics.port") && isKey("payment.networks[0].asset") && isKey("suppliers.eth.endpoints"));
  assert.ok(!isKey("gateway.asset") && !isKey("payment.port") && !isKey("port"));
  const roots = Object.keys(schema.properties ?? {}).join("|");
  const key = new RegExp(`\`((?:${roots})\\.(?!ya?ml\`)[a-zA-Z][\\w.<>[\\]-]*)(?:: [^\`]*)?\``, "g");
  const missing = pages.flatMap((page) =>
    [...read(page).matchAll(key)]
      .map(([, path = ""]) => path)
      .filter((path) => !isKey(path))
      .map((path) => `${page}: ${path}`),
  );
  assert.deepEqual(missing, []);
});

/** What a page shows as code: blocks (a `$ ` before a command taken off), and words between backticks. */
function codeOf(text: string): string[] {
  const blocks = [...text.matchAll(/^```[a-z]*\n(.*?)^```/gms)].flatMap(([, code = ""]) => code.split("\n"));
  const words = [...text.replaceAll(/^```.*?^```/gms, "").matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
  return [...blocks.map((line) => line.replace(/^\$ /, "")), ...words];
}

/** What is wrong with a command line; undefined when the command takes it. */
function usageFault(line: string): string | undefined {
  const words = line
    .replace(/\s#.*$/, "")
    .replaceAll(/'[^']*'|"[^"]*"/g, "TEXT")
    .split(/\s+/)
    .filter((word) => word !== "");
  let command = program({ env: {}, exitWith() {}, kill: () => assert.fail("nothing is run") });
  const known = new Set(["--help", "-h", "--verbose", "--version"]);
  let isName = true;
  for (const word of words) {
    const inner = command.commands.find((one) => one.name() === word) as typeof command | undefined;
    if (isName && inner !== undefined) command = inner;
    else if (word.startsWith("-")) {
      const flag = word.split("=", 1)[0] ?? "";
      const isKnown = known.has(flag) || command.options.some(({ long, short }) => flag === long || flag === short);
      if (!isKnown) return `${command.name()} has no ${flag}`;
    } else if (isName && command.commands.length > 0 && /^[a-z]+$/.test(word)) {
      return `${command.name()} has no command ${word}`;
    } else {
      isName = false;
    }
  }
  return undefined;
}

test("every command that a page shows is one, with the options that it has", () => {
  assert.equal(usageFault("keys new file --count 2"), undefined);
  assert.equal(usageFault('pay eth \'{"method":"x"}\' --max=0.01'), undefined);
  assert.match(usageFault("keys new file --cuont 2") ?? "", /new has no --cuont/);
  assert.match(usageFault("gateway --count 2") ?? "", /gateway has no --count/);
  assert.match(usageFault("serve") ?? "", /turnpike has no command serve/);
  let seen = 0;
  const wrong = pages.flatMap((page) =>
    codeOf(read(page)).flatMap((code) => {
      const line = /^(?:npx )?turnpike(?: (?!up\.)(.*))?$/.exec(code);
      const start = /^npm start(?: -- (.*))?$/.exec(code);
      const args = line === null ? (start === null ? undefined : `up ${start[1] ?? ""}`) : (line[1] ?? "");
      if (args !== undefined) seen++;
      const fault = args === undefined ? undefined : usageFault(args);
      return fault === undefined ? [] : [`${page}: ${code}: ${fault}`];
    }),
  );
  assert.deepEqual(wrong, []);
  assert.ok(seen > 10, `${seen} commands`);
});

test("every metric that a page names is declared", () => {
  const sources = files("packages/*/src/**/*.ts", "apps/*/src/**/*.ts").filter((path) => !path.endsWith(".test.ts"));
  const declared = new Set(
    sources.flatMap((path) =>
      [...readText(path).matchAll(/kind: "(?:counter|gauge|histogram)",\s+name: "(turnpike_[a-z0-9_]+)"/g)].map(
        ([, name = ""]) => name,
      ),
    ),
  );
  assert.ok(declared.has("turnpike_secp256k1_native") && declared.size > 30, `${declared.size} metrics`);
  const unknown = pages.flatMap((page) =>
    [...read(page).matchAll(/`(turnpike_[a-z0-9_]+)(?:\{[^`]*)?`/g)]
      .map(([, name = ""]) => name)
      .filter((name) => !declared.has(name) && !declared.has(name.replace(/_(bucket|count|sum)$/, "")))
      .filter((name) => !SCHEMAS.has(name))
      .map((name) => `${page}: ${name}`),
  );
  assert.deepEqual(unknown, []);
});

/** Cells of the last column of the tables whose last header is "test". */
function testCells(page: string): string[] {
  const cells: string[] = [];
  let isOfTests = false;
  for (const line of read(page).split("\n")) {
    if (!line.startsWith("|")) isOfTests = false;
    else if (/\| tests? \|$/.test(line)) isOfTests = true;
    else if (isOfTests) cells.push(line.split("|").at(-2) ?? "");
  }
  return cells;
}

test("every test that a table names is there, by its title or by its file", () => {
  const paths = files("packages/**/*.test.ts", "apps/**/*.test.ts", "test/**/*.test.ts");
  const sources = paths.map(readText);
  // Titles with one part that a template fills in.
  const templates = sources.flatMap((source) =>
    [...source.matchAll(/test\(`([^`$]+)\$\{\w+\}([^`$]+)`/g)].map(([, start, end]) => [start, end] as const),
  );
  const isTitle = (name: string): boolean =>
    sources.some((source) => source.includes(`test("${name}"`)) ||
    templates.some(([start = "", end = ""]) => name.startsWith(start) && name.endsWith(end));
  const isThere = (name: string): boolean =>
    name.endsWith(".test.ts") ? paths.some((path) => path.endsWith(`/${name}`)) : isTitle(name);
  let seen = 0;
  const missing = pages.flatMap((page) =>
    testCells(page)
      .flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name))
      .filter((name) => {
        seen++;
        return !isThere(name);
      })
      .map((name) => `${page}: ${name}`),
  );
  assert.deepEqual(missing, []);
  assert.ok(seen >= 20, `${seen} tests`);
});

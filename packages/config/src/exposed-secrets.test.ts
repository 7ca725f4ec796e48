import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { exposedSecrets } from "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-exposed-"));
after(() => rmSync(folder, { recursive: true }));

test("secrets that stand in a file which others can read are named, and never shown", () => {
  const file = join(folder, "turnpike.yaml");
  const text = `
admin: { token: 0f1e2d3c4b5a6978 }
ledger: { url: "postgres://turnpike:choose-one@db.internal/turnpike" }
redis: { url: "redis://db.internal:6379" }
portalDb: { ownerUrl: "postgres://owner:\${OWNER_PASSWORD}@db.internal/turnpike", jwt: { keys: [{ kid: a, secret: s }] } }
search: { engines: [{ kind: local }, { kind: brave, apiKey: k }, { kind: exa, apiKey: "\${EXA_KEY}" }] }
suppliers: { eth: { endpoints: [{ operator: a, urls: { json_rpc: "https://h" }, headers: { X-Api-Key: k } }] } }
`;
  writeFileSync(file, text);
  const found = [
    "admin.token",
    "ledger.url",
    "portalDb.jwt.keys[0].secret",
    "search.engines[1].apiKey",
    "suppliers.eth.endpoints[0].headers.X-Api-Key",
  ];
  for (const [mode, names] of [
    [0o644, found],
    [0o640, found],
    [0o660, found],
    [0o600, []],
    [0o400, []],
  ] as const) {
    chmodSync(file, mode);
    assert.deepEqual(exposedSecrets(file), names, mode.toString(8));
  }
  chmodSync(file, 0o644);
  writeFileSync(file, "gateway: { port: 3069 }\n");
  assert.deepEqual(exposedSecrets(file), [], "a file without secrets may be readable by all users");
  writeFileSync(file, "");
  assert.deepEqual(exposedSecrets(file), []);
});
